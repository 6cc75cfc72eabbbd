"""The weights of a module as named tensors: everything that training changes, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from trellis.errors import ModelError


def trained_weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters that are trained, and buffers: the module's own tensors, by name. Frozen parameters never change."""
    frozen = {name for name, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}
    return {name: value for name, value in module.state_dict().items() if name not in frozen}


def copy_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of the values, which no later step changes."""
    return {name: value.clone() for name, value in weights.items()}


def put_back(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Write saved values into the module."""
    own = trained_weights(module)
    for name in sorted(own.keys() | weights.keys()):
        before, now = (tuple(some[name].shape) if name in some else "missing" for some in (weights, own))
        if before != now:
            raise ModelError(f"the checkpoint is of another model: weights {name!r} are {before} there, {now} here")
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(weights[name])
