"""From a running training to a checkpoint and back, and whether the two fit each other."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trellis.arrays import IntArray
from trellis.config import to_dict
from trellis.errors import ConfigError, DataError, ModelError
from trellis.training.history import History
from trellis.training.neural.averaging import Average
from trellis.training.neural.checkpoints import Checkpoint, Checkpoints
from trellis.training.neural.files import HISTORY, load_history
from trellis.training.neural.machine import Machine
from trellis.training.neural.optimizer import optimizer_state, restore_optimizer
from trellis.training.neural.place import Place, Record
from trellis.training.neural.schedules import Schedule
from trellis.training.neural.settings import TrainingSettings
from trellis.training.neural.weights import put_back, trained_weights


@dataclass(frozen=True, slots=True)
class State:
    """All that changes in the course of a training."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    average: Average
    place: Place
    record: Record
    scaler: Any
    """Of half precision; else None."""

    def values(self) -> dict[str, Any]:
        """What is not a tensor."""
        history = History(tuple(self.record.steps), "interrupted", self.record.kept)
        return {
            "place": asdict(self.place),
            "history": history.to_dict(),
            "kept_step": self.record.weights_step,
            "schedule": self.schedule.state(),
            "averaged": self.average.count,
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
        }

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """What is."""
        names = {id(parameter): name for name, parameter in self.module.named_parameters()}
        return {
            "weights": trained_weights(self.module),
            "optimizer": optimizer_state(self.optimizer, names),
            "average": self.average.state(),
        }

    def restore(self, saved: Checkpoint) -> None:
        """Bring everything to where the checkpoint was taken."""
        values = saved.values
        put_back(self.module, saved.parts["weights"])
        restore_optimizer(self.optimizer, dict(self.module.named_parameters()), saved.parts["optimizer"])
        self.average.restore(saved.parts["average"], values["averaged"])
        self.schedule.restore(values["schedule"])
        for name, value in values["place"].items():
            setattr(self.place, name, value)
        history = History.from_dict(values["history"])
        self.record.steps[:], self.record.kept = history.steps, history.kept
        self.record.weights, self.record.weights_step = saved.kept, values["kept_step"]
        if self.scaler is not None:
            self.scaler.load_state_dict(values["scaler"])


class Memory:
    """The checkpoints of one training, and what has to be the same for it to go on."""

    def __init__(self, folder: Path, settings: TrainingSettings, machine: Machine, lengths: IntArray) -> None:
        self._checkpoints, self._settings, self._is_main = Checkpoints(folder, settings.keep), settings, machine.is_main
        self._world = {
            "examples": len(lengths),
            "tokens": int(lengths.sum()),
            "lengths_crc32": zlib.crc32(lengths.tobytes()),
            "processes": machine.processes,
            "arithmetic": machine.precision,
        }
        self._kept_on_disk: int | None = None

    def make_way(self) -> None:
        """For a new training; the checkpoints of one that did not end are not thrown away."""
        if self._checkpoints.steps() and not _ended(self._checkpoints.folder):
            raise ModelError(
                f"{self._checkpoints.folder} holds the checkpoints of a training that did not end: "
                "resume it, or remove them to start anew"
            )
        if self._is_main:
            self._checkpoints.clear()

    def recall(self, state: State) -> None:
        """Go on from the newest sound checkpoint; where there is none, `state` stays as it is."""
        found = self._checkpoints.newest()
        if found is None:
            return
        self._refuse_changes(found.values)
        state.restore(found)
        self._kept_on_disk = state.record.weights_step

    def save(self, state: State) -> None:
        """Write a checkpoint, after the weights to keep if they are new."""
        if not self._is_main:
            return
        record = state.record
        if record.weights is not None and record.weights_step != self._kept_on_disk:
            self._checkpoints.save_kept(record.weights_step or 0, record.weights)
            self._kept_on_disk = record.weights_step
        values = {**state.values(), "settings": to_dict(self._settings), "world": self._world}
        self._checkpoints.save(state.place.step, values, state.tensors(), record.weights_step)

    def _refuse_changes(self, values: dict[str, Any]) -> None:
        before = values["settings"]
        for name in self._settings.differences(before):
            was, now = before.get(name), getattr(self._settings, name)
            raise ConfigError(f"cannot resume with another {name}: the training began with {was!r}, now it is {now!r}")
        for name, was in values["world"].items():
            if was != self._world[name]:
                what = name.replace("_", " ")
                raise ModelError(f"cannot resume: {what} of the training were {was}, now they are {self._world[name]}")


def _ended(folder: Path) -> bool:
    """Whether the training whose files these are came to its own end."""
    if not (folder / HISTORY).exists():
        return False
    try:
        return load_history(folder).reason != "interrupted"
    except DataError:
        return False
