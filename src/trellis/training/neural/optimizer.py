"""The optimizer: parameter groups with their own learning rates and decay, and its state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

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
