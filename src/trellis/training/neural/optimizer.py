"""The optimizer: parameter groups with their own learning rates and decay, and its state as named tensors.

The learning rate over steps, as a factor of its peak.

warm-up    (k + 1) / W                              steps k = 0 .. W - 1
constant   1
linear     (K - k) / (K - W)                        steps k = W .. K - 1
cosine     (1 + cos(pi (k - W) / (K - W))) / 2
plateau    factor^n, n: how often `patience` epochs in a row were not better

K is the number of steps of the whole training; W may be a share of it. A training that is resumed with more epochs
uses the rates of the new K and W for its further steps, so that a linear or cosine schedule jumps up to the rate that
a training of the new length has at that step. With the constant or plateau schedule, and W a number of steps, rates
do not depend on K: more epochs lead to the same weights, bit for bit, as if they had been set from the start.

Steps of torch's Adam and AdamW on the CPU by the native kernels: one pass, the same numbers up to rounding.

The state is torch's, so that checkpoints are the same. A step of `torch.optim` spends most of its time on looking up
what it is about, and shortening a gradient is a further pass over it; here the factor is part of the step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis import _native
from trellis.arrays import plain_tensor
from trellis.errors import ModelError
from trellis.training.neural.settings import TrainingSettings
from trellis.training.neural.task import Trainee

HEAD = "head"
_FUSED_ON = ("cpu", "cuda", "xpu", "mps")


def build_optimizer(task: Trainee, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The optimizer over all parameters that are trained; each group remembers its `peak` learning rate."""
    groups = _groups(task, settings)
    if not groups:
        raise ModelError("there is nothing to train: no parameter of the module asks for a gradient")
    _refuse_forgotten(task.module, groups)
    # One pass over the weights instead of a dozen: several times faster on the CPU.
    fused = all(p.device.type in _FUSED_ON and p.is_floating_point() for group in groups for p in group["params"])
    if settings.optimizer != "sgd":
        kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
        return kind(groups, lr=settings.peak, fused=fused)
    return torch.optim.SGD(groups, lr=settings.peak, momentum=settings.momentum, fused=fused)


def set_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> float:
    """Every group at this factor of its peak; returns the first group's rate."""
    for group in optimizer.param_groups:
        group["lr"] = factor * group["peak"]
    return float(optimizer.param_groups[0]["lr"])


def _groups(task: Trainee, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Parameters by learning rate and decay: weights of matrices decay, those of vectors (biases, norms) do not."""
    members: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameters in task.groups():
        own = settings.head_learning_rate if name == HEAD else None
        peak = settings.peak if own is None else own
        for parameter in parameters:
            if parameter.requires_grad:
                decay = settings.weight_decay if parameter.ndim > 1 else 0.0
                members.setdefault((peak, decay), []).append(parameter)
    return [
        {"params": parameters, "peak": peak, "lr": peak, "weight_decay": decay}
        for (peak, decay), parameters in members.items()
    ]


def _refuse_forgotten(module: nn.Module, groups: Sequence[Mapping[str, Any]]) -> None:
    known = {id(p) for group in groups for p in group["params"]}
    forgotten = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in known]
    if forgotten:
        raise ModelError(f"parameters in no group would never be trained: {', '.join(forgotten)}")


def optimizer_state(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> dict[str, Tensor]:
    """The optimizer's state of each parameter, as ``parameter/what``; `names` are by the parameter's id."""
    return {
        f"{names[id(parameter)]}/{what}": value
        for parameter, entries in optimizer.state.items()
        for what, value in entries.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], state: Mapping[str, Tensor]
) -> None:
    """Restore what `optimizer_state` returned."""
    optimizer.state.clear()
    for name, value in state.items():
        parameter, _, what = name.rpartition("/")
        owner = parameters[parameter]
        # Step counters stay on the CPU, except those of fused kernels.
        waits = what == "step" and not optimizer.defaults["fused"]
        optimizer.state[owner][what] = value if waits else value.to(owner.device)


@dataclass(slots=True)
class Plateau:
    """Lowers a factor each time that `patience` epochs in a row were not better."""

    shrink: float
    patience: int
    factor: float = 1.0
    best: float | None = None
    waited: int = 0

    def epoch(self, score: float) -> None:
        """Record an epoch's score; higher is better."""
        if self.best is None or score > self.best:
            self.best, self.waited = score, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.factor, self.waited = self.factor * self.shrink, 0


class Schedule:
    """The factor at each step of a training of `total` steps."""

    def __init__(self, settings: TrainingSettings, total: int) -> None:
        self._kind, self._total = settings.schedule, total
        self.warmup = warmup_steps(settings.warmup, total)
        self._plateau = Plateau(settings.plateau_factor, settings.plateau_patience)

    def factor(self, step: int) -> float:
        """What the peak is multiplied by at this step, counted from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self._kind == "constant":
            return 1.0
        if self._kind == "plateau":
            return self._plateau.factor
        left = max(0, self._total - step) / max(1, self._total - self.warmup)
        return left if self._kind == "linear" else (1 + math.cos(math.pi * (1 - left))) / 2

    def epoch(self, dev: float | None, loss: float) -> None:
        """Record the result of an epoch: its dev score, or if there is none, its loss."""
        self._plateau.epoch(-loss if dev is None else dev)

    def state(self) -> dict[str, Any]:
        """The state, for `restore`."""
        return asdict(self._plateau)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from this state."""
        self._plateau = Plateau(**state)


def warmup_steps(warmup: float, total: int) -> int:
    """Below 1 a share of all steps, otherwise a number of steps."""
    return round(warmup * total) if warmup < 1 else int(warmup)


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
