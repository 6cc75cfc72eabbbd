"""How far a training is, and the weights that it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

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


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Weights that are kept, and the number of steps after which they were taken."""

    weights: dict[str, Tensor]
    step: int
