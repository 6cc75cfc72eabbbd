"""From a running training to a checkpoint and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trellis.errors import ConfigError, StoreError
from trellis.training.best import Best
from trellis.training.folder import TrainingFolder
from trellis.training.history import History
from trellis.training.neural.averaging import Average
from trellis.training.neural.checkpoints import Checkpoint, Checkpoints
from trellis.training.neural.optimizer import optimizer_state, restore_optimizer
from trellis.training.neural.place import Kept, Place
from trellis.training.neural.schedules import Schedule
from trellis.training.neural.settings import TrainingSettings
from trellis.training.neural.weights import put_back, trained_weights


@dataclass(frozen=True, slots=True)
class State:
    """Everything that changes during a training."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    average: Average
    place: Place
    best: Best[Kept]
    scaler: Any
    """For half precision; otherwise None."""

    @property
    def kept_step(self) -> int | None:
        """The step after which the kept weights were taken."""
        return None if self.best.weights is None else self.best.weights.step

    def values(self) -> dict[str, Any]:
        """Everything that is not a tensor."""
        return {
            "place": asdict(self.place),
            "history": self.best.history("interrupted").to_dict(),
            "kept_step": self.kept_step,
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
        """Restore everything to the state of the checkpoint."""
        values = saved.values
        put_back(self.module, saved.parts["weights"])
        restore_optimizer(self.optimizer, dict(self.module.named_parameters()), saved.parts["optimizer"])
        self.average.restore(saved.parts["average"], values["averaged"])
        self.schedule.restore(values["schedule"])
        for name, value in values["place"].items():
            setattr(self.place, name, value)
        history = History.from_dict(values["history"])
        self.best.steps[:], self.best.kept = history.steps, history.kept
        self.best.weights = None if saved.kept is None else Kept(saved.kept, values["kept_step"])
        if self.scaler is not None:
            self.scaler.load_state_dict(values["scaler"])


class Memory:
    """The checkpoints of one training."""

    def __init__(self, folder: TrainingFolder, settings: TrainingSettings, *, is_main: bool) -> None:
        self._checkpoints, self._settings = Checkpoints(folder.path, settings.keep), settings
        self._is_main = is_main
        self._kept_on_disk: int | None = None

    def recall(self, state: State) -> None:
        """Continue from the newest undamaged checkpoint; if there is none, `state` does not change."""
        found = self._checkpoints.newest()
        if found is None:
            return
        done, wanted = found.values["place"]["epoch"], self._settings.passes
        if wanted < done:
            raise ConfigError(f"cannot resume with training.epochs = {wanted}: {done} epochs are done")
        state.restore(found)
        self._kept_on_disk = state.kept_step

    def save(self, state: State) -> None:
        """Write a checkpoint, after the weights to keep if they are new."""
        if not self._is_main:
            return
        try:
            kept = state.best.weights
            if kept is not None and kept.step != self._kept_on_disk:
                self._checkpoints.save_kept(kept.step, kept.weights)
                self._kept_on_disk = kept.step
            self._checkpoints.save(state.place.step, state.values(), state.tensors(), state.kept_step)
        except StoreError as error:
            hint = "; training can be resumed from the checkpoint before it" if self._checkpoints.steps() else ""
            raise StoreError(f"{error}{hint}") from None
