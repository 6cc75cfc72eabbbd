"""Steps of torch's Adam and AdamW on the CPU by the native kernels: one pass, the same numbers up to rounding.

The state is torch's, so that checkpoints are the same. A step of `torch.optim` spends most of its time on looking up
what it is about, and shortening a gradient is a further pass over it; here the factor is part of the step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis import _native
from trellis.arrays import plain_tensor


class NativeAdam:
    """The steps of an optimizer whose parameters are all of one kind, and on the CPU."""

    def __init__(self, optimizer: torch.optim.Adam | torch.optim.AdamW) -> None:
        self._optimizer = optimizer
        self._decoupled = isinstance(optimizer, torch.optim.AdamW)
        self._doubles = optimizer.param_groups[0]["params"][0].dtype == torch.float64

    @staticmethod
    def of(optimizer: torch.optim.Optimizer) -> NativeAdam | None:
        """The native side of an optimizer, or None if there is none for it."""
        if not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):  # one of the other only since torch 2.7
            return None
        parameters: list[nn.Parameter] = [p for group in optimizer.param_groups for p in group["params"]]
        kinds = {(p.device.type, p.dtype) for p in parameters}
        if len(kinds) > 1 or kinds.isdisjoint({("cpu", torch.float32), ("cpu", torch.float64)}):
            return None
        # Weights are changed where they are, so they must be there as the kernels expect them.
        return NativeAdam(optimizer) if all(plain_tensor(p) is p for p in parameters) else None

    def gradient_length(self, gradients: Sequence[Tensor]) -> float:
        """The length of all gradients as one vector."""
        plain = [plain_tensor(gradient) for gradient in gradients]
        addresses = np.array([[gradient.data_ptr()] for gradient in plain], dtype=np.uint64).reshape(-1, 1)
        return _native.gradient_length(self._doubles, torch.get_num_threads(), addresses, _counts(plain))

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """One step along the gradients times the factor."""
        tensors, numbers, known = [], [], {}
        for place, group in enumerate(self._optimizer.param_groups):
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self._state(parameter)
                tensors.append((plain_tensor(parameter.grad), parameter, state["exp_avg"], state["exp_avg_sq"]))
                step = state["step"].add_(1).item()
                if (place, step) not in known:
                    known[place, step] = self._numbers(group, step, factor)
                numbers.append(known[place, step])
        addresses = np.array([x.data_ptr() for own in tensors for x in own], dtype=np.uint64).reshape(-1, 4)
        table = np.array(numbers, dtype=np.float64).reshape(-1, 8)
        counts = _counts([own[0] for own in tensors])
        _native.adam_step(self._doubles, torch.get_num_threads(), addresses, counts, table)

    def _state(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """What torch's optimizer remembers of a parameter, zeros at first."""
        state: dict[str, Tensor] = self._optimizer.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state

    def _numbers(self, group: dict[str, Any], step: float, factor: float) -> tuple[float, ...]:
        """The numbers of a step, in the order of native/layers/adam.h."""
        b1, b2 = group["betas"]
        rate, decay = float(group["lr"]), float(group["weight_decay"])
        penalty, shrink = (0.0, 1 - rate * decay) if self._decoupled else (decay, 1.0)
        first, second = 1 - b1**step, 1 - b2**step
        return factor, penalty, shrink, b1, b2, rate / first, 1 / math.sqrt(second), group["eps"]


def _counts(tensors: Sequence[Tensor]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([x.numel() for x in tensors], dtype=np.int64)
