"""A bidirectional LSTM layer over flat features by the native kernels, with its gradient: CPU tensors only.

The products with the inputs, and in the backward pass those that give the gradients of the weights, are matrix products
over all tokens at once; the kernel, which needs no padding, computes only what depends on the token before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trellis import _native
from trellis.arrays import IntArray, plain_tensor
from trellis.errors import ShapeError
from trellis.nn.native import doubles
from trellis.ragged import check_lengths


def bilstm(features: Tensor, lengths: npt.ArrayLike, weights: Sequence[Tensor], index: Tensor | None = None) -> Tensor:
    """From ``(N, D)``, the tokens of sequences of these lengths one after another, to states ``(N, 2 H)``.

    The weights are those of a `torch.nn.LSTM`: of inputs, of states and two biases forward, then the same backward.
    With ``index[N]`` the features are ``(W, D)`` and tokens share them; without gradients also the products.
    """
    N = len(features) if index is None else len(index)
    # A copy: if the caller changes the lengths afterwards, the backward pass must not see it.
    checked = check_lengths(lengths, N).copy()
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in (features, *weights))
    if index is not None and keep:
        features, index = features.index_select(0, index), None
    states: Tensor = _BiLSTM.apply(keep, features, index, checked, *weights)  # type: ignore[no-untyped-call]
    return states


def _rows(index: Tensor, count: int) -> Tensor:
    """The index as the kernel expects it: contiguous int64, every value an existing row."""
    if len(index) and not 0 <= int(index.min()) <= int(index.max()) < count:
        raise ShapeError(f"index must be of {count} rows, got {int(index.min())} to {int(index.max())}")
    return plain_tensor(index, torch.int64)


class LayerRun(NamedTuple):
    """What a forward pass computed, for the backward pass.

    Gates are ``(N, 8 H)``: input, forget, cell and output gate forward, then the same backward.
    """

    features: Tensor
    inward: Tensor
    recurrent: Tensor
    gates: Tensor
    cells: Tensor
    states: Tensor


def forward_pass(
    features: Tensor, index: Tensor | None, lengths: IntArray, weights: Sequence[Tensor], *, keep: bool
) -> LayerRun:
    """The states of a layer; the gates are those of a backward pass if they are to be kept."""
    inward = torch.cat((weights[0], weights[4]))
    recurrent = torch.stack((weights[1], weights[5]))
    bias = torch.cat((weights[2] + weights[3], weights[6] + weights[7]))
    N, H = int(lengths.sum()), recurrent.shape[2]
    gates = torch.addmm(bias, features, inward.t())
    cells, states = features.new_empty(N, 2 * H), features.new_empty(N, 2 * H)
    rows = None if index is None else _rows(index, len(features))
    addresses = (0 if x is None else x.data_ptr() for x in (recurrent, rows, gates, cells, states))
    _native.lstm_forward(doubles(features), lengths, H, torch.get_num_threads(), keep, *addresses)
    return LayerRun(features, inward, recurrent, gates, cells, states)


def backward_pass(
    run: LayerRun, lengths: IntArray, gradient: Tensor, *, inputs_too: bool
) -> tuple[Tensor | None, list[Tensor]]:
    """The gradients of the features, if they are wanted, and of the weights, given that of the states."""
    gradient = plain_tensor(gradient)
    H = run.recurrent.shape[2]
    of_gates, previous = torch.empty_like(run.gates), torch.empty_like(run.states)
    tensors = (run.recurrent, run.gates, run.cells, run.states, gradient, of_gates, previous)
    addresses = (x.data_ptr() for x in tensors)
    _native.lstm_backward(doubles(gradient), lengths, H, torch.get_num_threads(), *addresses)
    of_features = of_gates @ run.inward if inputs_too else None
    of_inward = (of_gates.t() @ run.features).chunk(2)
    of_recurrent = [of_gates[:, 4 * H * i : 4 * H * (i + 1)].t() @ previous[:, H * i : H * (i + 1)] for i in (0, 1)]
    of_bias = of_gates.sum(0).chunk(2)
    ways = zip(of_inward, of_recurrent, of_bias, of_bias, strict=True)
    return of_features, [own for way in ways for own in way]


class _BiLSTM(torch.autograd.Function):
    """The caller decides whether gates are kept for a backward pass: a context does not know about `torch.no_grad`."""

    @staticmethod
    def forward(
        ctx: Any,
        keep: bool,
        features: Tensor,
        index: Tensor | None,
        lengths: IntArray,
        *weights: Tensor,
    ) -> Tensor:
        run = forward_pass(features, index, lengths, weights, keep=keep)
        if keep:
            ctx.lengths = lengths
            ctx.save_for_backward(*run)
        return run.states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs_too = ctx.needs_input_grad[1]
        of_features, rest = backward_pass(LayerRun(*ctx.saved_tensors), ctx.lengths, gradient, inputs_too=inputs_too)
        return (None, of_features, None, None, *rest)
