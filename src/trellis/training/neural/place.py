"""How far a training is, and the weights that it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trellis.training.neural.stepper import Taken


@dataclass(slots=True)
class Place:
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
