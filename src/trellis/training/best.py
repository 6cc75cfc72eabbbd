"""The iterations so far, and the best of them: what every training loop records, and when its patience ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trellis.training.history import History, Reason, Step

W = TypeVar("W")


@dataclass(slots=True)
class Best(Generic[W]):
    """The weights of the iteration with the best score on held-out data are kept; without such data, the last ones."""

    steps: list[Step] = field(default_factory=list)
    kept: int = -1
    """The index of the step whose weights are kept; -1 before the first."""
    weights: W | None = None

    @property
    def score(self) -> float | None:
        """The best score so far."""
        return self.steps[self.kept].dev if self.kept >= 0 else None

    def is_better(self, dev: float | None, loss: float | None = None) -> bool:
        """Whether weights of this score are to be kept; of equal scores those of the lower loss, if it is given."""
        if dev is None or self.score is None or dev > self.score:
            return True
        return dev == self.score and loss is not None and loss < self.steps[self.kept].loss

    def add(self, step: Step, weights: W | None) -> None:
        """Record an iteration, with its weights if they are to be kept.

        Whenever Ctrl-C comes, the weights are those of the step that counts as kept.
        """
        self.steps.append(step)
        if weights is not None:
            kept = len(self.steps) - 1
            self.kept, self.weights = kept, weights  # Python handles signals between calls, and there is no call here

    def is_out_of_patience(self, patience: int | None) -> bool:
        """Whether this many iterations in a row had no better score."""
        if patience is None or not self.steps or self.steps[-1].dev is None:
            return False
        first = next((i for i, step in enumerate(self.steps) if step.dev == self.score), self.kept)
        return len(self.steps) - 1 - first >= patience

    def history(self, reason: Reason) -> History:
        """The iterations, and why they ended."""
        return History(tuple(self.steps), reason, self.kept)
