"""What training reports while it runs and leaves behind: one `Step` an iteration, a `History` of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from trellis.training.objective import Vector

Reason = Literal["converged", "max_iterations", "no_progress", "early_stopping", "interrupted"]
"""Why training ended. no_progress: no step along the search direction lowers the loss any more."""


class Iterate(NamedTuple):
    """What an optimizer yields after each iteration; `stop` says why it is the last, if it is."""

    weights: Vector
    loss: float
    gradient_norm: float | None
    stop: Reason | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration as others see it."""

    iteration: int
    loss: float
    gradient_norm: float | None
    dev: float | None
    """The score on the held-out sentences, where there are some; higher is better."""
    seconds: float
    """Since the start of training."""
    seconds_left: float | None
    """At most so many more, where the number of iterations is limited."""


@dataclass(frozen=True, slots=True)
class History:
    """All steps, why they ended, and which one's weights were kept (-1: none was made)."""

    steps: tuple[Step, ...]
    reason: Reason
    kept: int

    @property
    def loss(self) -> float:
        """The loss of the weights that were kept."""
        return self.steps[self.kept].loss


Progress = Callable[[Step], None]
Validate = Callable[[Vector], float]
