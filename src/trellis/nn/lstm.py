"""Bidirectional LSTM layers over a ragged batch: flat features in, flat features out, nothing for padding.

On CPUs a layer runs by the native kernels. The products with the inputs, and in the backward pass those that give the
gradients of the weights, are matrix products over all tokens at once; the kernel computes only what depends on the
token before. Elsewhere torch's own layer runs, which needs the first tokens of all sequences together, then the second
ones, and so on: `Packing` has that order and the way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from trellis import _native
from trellis.arrays import IntArray, plain_tensor
from trellis.errors import ShapeError
from trellis.lazy import cached
from trellis.nn.dropout import LockedDropout
from trellis.ragged import check_lengths, ranges


@dataclass(frozen=True, eq=False)
class Packing:
    """The places of N tokens of B sequences."""

    lengths: IntArray
    """int64[B]"""
    sequence: Tensor
    """int64[N]: the sequence each token belongs to"""

    @classmethod
    def of(cls, lengths: npt.ArrayLike) -> Packing:
        checked = check_lengths(lengths)
        return cls(checked, torch.from_numpy(np.repeat(np.arange(len(checked)), checked)))

    @cached
    def by_position(self) -> tuple[Tensor, Tensor, Tensor]:
        """For a `PackedSequence`: the tokens by position, the longest sequences first, as an order ``int64[N]``.

        Then the way back, ``int64[N]``, and on the CPU how many sequences have a token at each position, ``int64[T]``.
        """
        lengths = self.lengths
        position = ranges(0, lengths)
        rank = np.empty(len(lengths), dtype=np.int64)
        rank[np.argsort(-lengths, kind="stable")] = np.arange(len(lengths))
        order = np.argsort(position * len(lengths) + np.repeat(rank, lengths))
        inverse = np.empty(len(order), dtype=np.int64)
        inverse[order] = np.arange(len(order))
        sizes = np.bincount(position, minlength=int(lengths.max(initial=0)))
        device = self.sequence.device
        return torch.from_numpy(order).to(device), torch.from_numpy(inverse).to(device), torch.from_numpy(sizes)

    def to(self, device: torch.device) -> Packing:
        return self if device.type == "cpu" else replace(self, sequence=self.sequence.to(device))


class BiLSTM(nn.Module):
    """One or more layers, each with its own dropout of its input.

    Args:
        size: width of the features.
        hidden: width of each layer's output, half each way.
        layers: how many.
        dropout: locked dropout between layers.

    """

    def __init__(self, size: int, hidden: int, layers: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__()
        sizes = [size] + [hidden] * (layers - 1)
        self.layers = nn.ModuleList(nn.LSTM(width, hidden // 2, bidirectional=True) for width in sizes)
        self.dropout = LockedDropout(dropout)
        self.output_size = hidden
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Orthogonal recurrent weights, Glorot's input weights, and a forget gate that is open at first."""
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                for gate in parameter.chunk(4):
                    nn.init.orthogonal_(gate)
            elif "weight_ih" in name:
                for gate in parameter.chunk(4):
                    nn.init.xavier_uniform_(gate)
            else:
                nn.init.zeros_(parameter)
                if "bias_ih" in name:
                    nn.init.ones_(parameter.chunk(4)[1])

    def forward(self, features: Tensor, packing: Packing, index: Tensor | None = None) -> Tensor:
        """States ``(N, hidden)`` for inputs ``(N, size)``, or for rows that tokens share and ``index[N]``."""
        for i, layer in enumerate(self.layers):
            if i:
                features = self.dropout(features, packing.sequence, len(packing.lengths))
            assert isinstance(layer, nn.LSTM)
            features = run_lstm(layer, features, packing, None if i else index)
        return features


def run_lstm(layer: nn.LSTM, features: Tensor, packing: Packing, index: Tensor | None = None) -> Tensor:
    """The states of a bidirectional layer, from ``(N, D)`` to ``(N, 2 * hidden_size)``.

    With ``index[N]`` the features are rows that tokens share, such as those of the same word.
    """
    if not len(features):
        return features.new_zeros(0, 2 * layer.hidden_size)
    if has_kernels(features):
        forward, backward = layer.all_weights
        return bilstm(features, packing.lengths, (*forward, *backward), index)
    if index is not None:
        features = features.index_select(0, index)
    order, inverse, batch_sizes = packing.by_position
    states: Tensor = layer(PackedSequence(features[order], batch_sizes))[0].data
    return states[inverse]


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


class LayerRun(NamedTuple):
    """The results of a forward pass that the backward pass needs.

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
    rows = None
    if index is not None:
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(features):
            raise ShapeError(f"index must be of {len(features)} rows, got {int(index.min())} to {int(index.max())}")
        rows = plain_tensor(index, torch.int64)
    addresses = (0 if x is None else x.data_ptr() for x in (recurrent, rows, gates, cells, states))
    _native.lstm_forward(features.dtype == torch.float64, lengths, H, torch.get_num_threads(), keep, *addresses)
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
    _native.lstm_backward(gradient.dtype == torch.float64, lengths, H, torch.get_num_threads(), *addresses)
    of_features = of_gates @ run.inward if inputs_too else None
    of_inward = (of_gates.t() @ run.features).chunk(2)
    of_recurrent = [of_gates[:, 4 * H * i : 4 * H * (i + 1)].t() @ previous[:, H * i : H * (i + 1)] for i in (0, 1)]
    of_bias = of_gates.sum(0).chunk(2)
    ways = zip(of_inward, of_recurrent, of_bias, of_bias, strict=True)
    return of_features, [gradient for way in ways for gradient in way]


class _BiLSTM(torch.autograd.Function):
    """The caller decides whether gates are kept for a backward pass: a context does not know about `torch.no_grad`."""

    @staticmethod
    def forward(
        ctx: Any, keep: bool, features: Tensor, index: Tensor | None, lengths: IntArray, *weights: Tensor
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


def has_kernels(tensor: Tensor) -> bool:
    """Whether the native kernels of layers take such tensors; torch's own operations handle all others."""
    known = tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
    return known and not torch.is_autocast_enabled("cpu")


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on the calling thread only: small work gains little by more, and on a busy machine it waits for them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
