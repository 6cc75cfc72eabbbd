"""How far a training is, and the weights it would keep if it ended now."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from trellis.training.history import Step
from trellis.training.neural.stepper import Taken


@dataclass(slots=True)
class Place:
    """Where a training stands; together with weights and optimizer, all that it needs to go on."""

    epoch: int = 0
    """Epochs that are done."""
    batch: int = 0
    """Batches of the next epoch that are done."""
    step: int = 0
    """Steps that are done, in all."""
    loss: float = 0.0
    """Summed over this epoch's `items`."""
    items: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Spent in all."""
    epoch_seconds: float = 0.0
    """Spent on this epoch's steps."""

    def add(self, taken: Taken, batches: int, tokens: int) -> None:
        """Count a step."""
        self.step += 1
        self.batch += batches
        self.loss += taken.loss
        self.items += taken.items
        self.tokens += tokens

    def next_epoch(self) -> None:
        """Begin to count anew."""
        self.epoch += 1
        self.batch = self.items = self.tokens = 0
        self.loss = self.epoch_seconds = 0.0


@dataclass(slots=True)
class Record:
    """The epochs so far, and which one's weights are kept: the best on held-out data, else the last."""

    steps: list[Step] = field(default_factory=list)
    kept: int = -1
    weights: dict[str, Tensor] | None = None
    weights_step: int | None = None
    """The step after which the kept weights were taken."""

    @property
    def best(self) -> float | None:
        """The best score so far."""
        return self.steps[self.kept].dev if self.kept >= 0 else None

    def is_better(self, dev: float | None) -> bool:
        """Whether weights of this score are to be kept."""
        return dev is None or self.best is None or dev > self.best

    def waited(self) -> int:
        """Epochs since the one that is kept."""
        return len(self.steps) - 1 - self.kept
