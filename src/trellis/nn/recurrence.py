"""A bidirectional LSTM layer over flat features by the native kernels, with its gradient: CPU tensors only.

The products with the inputs, and in the backward pass those that give the gradients of the weights, are matrix products
over all tokens at once; what depends on the token before is left to the kernel, which needs no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trellis import _native
from trellis.errors import ShapeError
from trellis.nn.native import doubles


def bilstm(features: Tensor, lengths: npt.NDArray[np.int64], weights: Sequence[Tensor]) -> Tensor:
    """``(N, D)``, the tokens of sequences of these lengths one after another, to states ``(N, 2 H)``.

    The weights are those of a `torch.nn.LSTM`: of inputs, of states and two biases forward, then the same backward.
    """
    if int(lengths.sum()) != len(features):
        raise ShapeError(f"lengths must sum to N = {len(features)}, got {int(lengths.sum())}")
    states: Tensor = _BiLSTM.apply(features, lengths, *weights)  # type: ignore[no-untyped-call]
    return states


class _BiLSTM(torch.autograd.Function):
    """Gates are ``(N, 8 H)``: input, forget, cell and output gate forward, then the same backward."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, lengths: npt.NDArray[np.int64], *weights: Tensor) -> Tensor:
        inward = torch.cat((weights[0], weights[4]))
        recurrent = torch.stack((weights[1], weights[5]))
        bias = torch.cat((weights[2] + weights[3], weights[6] + weights[7]))
        N, H = len(features), recurrent.shape[2]
        gates = torch.addmm(bias, features, inward.t())
        cells, states = features.new_empty(N, 2 * H), features.new_empty(N, 2 * H)
        addresses = (x.data_ptr() for x in (recurrent, gates, cells, states))
        keep = any(ctx.needs_input_grad)
        _native.lstm_forward(doubles(features), lengths, H, torch.get_num_threads(), keep, *addresses)
        if keep:
            ctx.lengths = lengths
            ctx.save_for_backward(features, inward, recurrent, gates, cells, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        features, inward, recurrent, gates, cells, states = ctx.saved_tensors
        gradient = gradient.contiguous()
        H = recurrent.shape[2]
        of_gates, previous = torch.empty_like(gates), torch.empty_like(states)
        tensors = (recurrent, gates, cells, states, gradient, of_gates, previous)
        addresses = (x.data_ptr() for x in tensors)
        _native.lstm_backward(doubles(features), ctx.lengths, H, torch.get_num_threads(), *addresses)
        of_features = of_gates @ inward if ctx.needs_input_grad[0] else None
        of_inward = (of_gates.t() @ features).chunk(2)
        of_recurrent = [of_gates[:, 4 * H * i : 4 * H * (i + 1)].t() @ previous[:, H * i : H * (i + 1)] for i in (0, 1)]
        of_bias = of_gates.sum(0).chunk(2)
        ways = zip(of_inward, of_recurrent, of_bias, of_bias, strict=True)
        return (of_features, None, *(own for way in ways for own in way))
