"""Everything that changes while a network is trained, and how it becomes a checkpoint and comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.arrays import AnyArray, Arrays
from trellis.errors import ConfigError, ModelError, StoreError, shown
from trellis.store import Stored
from trellis.training.checkpoint import Checkpoint, Checkpoints
from trellis.training.loop import TrainingState
from trellis.training.neural.averaging import Average
from trellis.training.neural.optimizer import Schedule, optimizer_state, restore_optimizer
from trellis.training.neural.stepper import Taken

# Types that the store does not have are stored as whole numbers of the same width.
_AS_BITS = dict.fromkeys((torch.bfloat16, torch.float16, torch.int16), torch.uint16)
_AS_BITS |= dict.fromkeys((torch.bool, torch.int8), torch.uint8)
_PLAIN = (torch.float64, torch.float32, torch.int64, torch.int32, torch.uint8)
_BY_NAME = {str(kind): kind for kind in (*_PLAIN, *_AS_BITS)}


@dataclass(slots=True)
class EpochProgress:
    """How far a training is; together with weights and optimizer, everything that it needs to continue."""

    epoch: int = 0
    """Finished epochs."""
    batch: int = 0
    """Finished batches of the next epoch."""
    window: int = 0
    """Finished windows of the next epoch."""
    earlier: int = 0
    """Batches of these."""
    step: int = 0
    """Finished steps, in all."""
    loss: float = 0.0
    """Summed over this epoch's `items`."""
    items: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """In all."""
    epoch_seconds: float = 0.0
    """For the steps of this epoch."""

    def add(self, taken: Taken, batches: int, tokens: int) -> None:
        """Count a step."""
        self.step += 1
        self.batch += batches
        self.loss += taken.loss
        self.items += taken.items
        self.tokens += tokens

    def next_window(self) -> None:
        """All batches of a window are done."""
        self.window += 1
        self.earlier = self.batch

    def next_epoch(self) -> None:
        """Start counting again."""
        self.epoch += 1
        self.batch = self.window = self.earlier = self.items = self.tokens = 0
        self.loss = self.epoch_seconds = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Weights that are kept, and the number of steps after which they were taken."""

    weights: dict[str, Tensor]
    step: int


@dataclass(frozen=True, slots=True)
class NeuralState:
    """Everything that changes during a training."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    average: Average
    progress: EpochProgress
    epochs: TrainingState[Kept]
    scaler: Any
    """For half precision; otherwise None."""

    def save(self, checkpoints: Checkpoints) -> None:
        """Write a checkpoint."""
        names = {id(parameter): name for name, parameter in self.module.named_parameters()}
        parts = {
            "weights": trained_weights(self.module),
            "optimizer": optimizer_state(self.optimizer, names),
            "average": self.average.state(),
        }
        kept = self.epochs.weights
        values = {
            "progress": asdict(self.progress),
            "history": self.epochs.history("interrupted").to_dict(),
            "schedule": self.schedule.state(),
            "averaged": self.average.count,
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "tensors": {part: described(tensors) for part, tensors in parts.items()},
            "kept": None if kept is None else {"step": kept.step, "tensors": described(kept.weights)},
        }
        arrays = {part: to_arrays(tensors) for part, tensors in parts.items()}
        checkpoints.save(
            self.progress.step, values, arrays, None if kept is None else (kept.step, to_arrays(kept.weights))
        )

    def restore(self, checkpoints: Checkpoints, epochs: int) -> None:
        """Continue from the newest undamaged checkpoint; if there is none, nothing changes."""
        saved = checkpoints.newest(_Saved.of)
        if saved is None:
            return
        values, parts = saved.checkpoint.values, saved.parts
        done = values["progress"]["epoch"]
        if epochs < done:
            raise ConfigError(f"cannot resume with training.epochs = {epochs}: {done} epochs are done")
        load_weights(self.module, parts["weights"])
        restore_optimizer(self.optimizer, dict(self.module.named_parameters()), parts["optimizer"])
        self.average.restore(parts["average"], values["averaged"])
        self.schedule.restore(values["schedule"])
        for name, value in values["progress"].items():
            setattr(self.progress, name, value)
        self.epochs.restore(saved.checkpoint, saved.kept)
        if self.scaler is not None:
            self.scaler.load_state_dict(values["scaler"])


@dataclass(frozen=True, slots=True, eq=False)
class _Saved:
    """A checkpoint, its tensors by part and name, and the weights that it keeps."""

    checkpoint: Checkpoint
    parts: dict[str, dict[str, Tensor]]
    kept: Kept | None

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> _Saved:
        """The tensors as the checkpoint describes them."""
        described = checkpoint.stored.manifest.table("values").table("tensors")
        parts = {name: to_tensors(checkpoint.part(name), described.value(name, dict)) for name in described.values}
        entry, kept = checkpoint.values.get("kept"), checkpoint.kept
        if entry is None or kept is None:
            return cls(checkpoint, parts, None)
        return cls(checkpoint, parts, Kept(to_tensors(kept, entry["tensors"]), entry["step"]))


def described(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Type and shape of each tensor, which `to_tensors` needs."""
    return {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}


def to_arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    """The tensors as arrays of types that the store has."""
    return {name: _to_array(tensor) for name, tensor in tensors.items()}


def to_tensors(stored: Stored, description: Mapping[str, Any]) -> dict[str, Tensor]:
    """The inverse of `to_arrays`, for tensors as they were `described`."""
    return {name: _to_tensor(stored, name, entry) for name, entry in description.items()}


def _to_array(tensor: Tensor) -> AnyArray:
    plain = tensor.detach().cpu().contiguous()
    bits = _AS_BITS.get(plain.dtype)
    return (plain if bits is None else plain.view(bits)).numpy()


def _to_tensor(stored: Stored, key: str, description: list[Any]) -> Tensor:
    """The tensor of the described type and shape, which the array must match."""
    match description:
        case [str(name), list(shape)] if name in _BY_NAME and all(type(size) is int for size in shape):
            dtype = _BY_NAME[name]
        case _:
            raise StoreError(f"{stored.where}: the tensor {key!r} is described by {shown(description)}")
    bits = np.dtype(str(_AS_BITS.get(dtype, dtype)).removeprefix("torch."))
    limits = (-np.inf, np.inf) if bits.kind == "f" else ()
    array = stored.array(key, bits, tuple(shape), *limits)
    return torch.from_numpy(np.array(array)).view(dtype)


def trained_weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters that are trained, and buffers: the module's own tensors, by name. Frozen parameters never change."""
    frozen = {name for name, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}
    return {name: value for name, value in module.state_dict().items() if name not in frozen}


def copy_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of the values, which no later step changes."""
    return {name: value.clone() for name, value in weights.items()}


def load_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Write saved values into the module."""
    current = trained_weights(module)
    for name in sorted(current.keys() | weights.keys()):
        there, here = (tuple(some[name].shape) if name in some else "missing" for some in (weights, current))
        if there != here:
            raise ModelError(f"the checkpoint is of another model: weights {name!r} are {there} there, {here} here")
    with torch.no_grad():
        for name, value in current.items():
            value.copy_(weights[name])
