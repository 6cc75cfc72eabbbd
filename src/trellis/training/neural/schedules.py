"""The learning rate over steps, as a factor of its peak.

warm-up    (k + 1) / W                              steps k = 0 .. W - 1
constant   1
linear     (K - k) / (K - W)                        steps k = W .. K - 1
cosine     (1 + cos(pi (k - W) / (K - W))) / 2
plateau    factor^n, n: how often `patience` epochs in a row were not better

K is the number of steps of the whole training; W may be a share of it. A training that is resumed with more epochs
uses the rates of the new K and W for its further steps, so that a linear or cosine schedule jumps up to the rate that
a training of the new length has at that step. With the constant or plateau schedule, and W a number of steps, rates
do not depend on K: more epochs lead to the same weights, bit for bit, as if they had been set from the start.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from trellis.training.neural.settings import TrainingSettings


@dataclass(slots=True)
class Plateau:
    """Lowers a factor each time that `patience` epochs in a row were not better."""

    shrink: float
    patience: int
    factor: float = 1.0
    best: float | None = None
    waited: int = 0

    def epoch(self, score: float) -> None:
        """Record an epoch's score; higher is better."""
        if self.best is None or score > self.best:
            self.best, self.waited = score, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.factor, self.waited = self.factor * self.shrink, 0


class Schedule:
    """The factor at each step of a training of `total` steps."""

    def __init__(self, settings: TrainingSettings, total: int) -> None:
        self._kind, self._total = settings.schedule, total
        self.warmup = warmup_steps(settings.warmup, total)
        self._plateau = Plateau(settings.plateau_factor, settings.plateau_patience)

    def factor(self, step: int) -> float:
        """What the peak is multiplied by at this step, counted from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self._kind == "constant":
            return 1.0
        if self._kind == "plateau":
            return self._plateau.factor
        left = max(0, self._total - step) / max(1, self._total - self.warmup)
        return left if self._kind == "linear" else (1 + math.cos(math.pi * (1 - left))) / 2

    def epoch(self, dev: float | None, loss: float) -> None:
        """Record the result of an epoch: its dev score, or if there is none, its loss."""
        self._plateau.epoch(-loss if dev is None else dev)

    def state(self) -> dict[str, Any]:
        """The state, for `restore`."""
        return asdict(self._plateau)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from this state."""
        self._plateau = Plateau(**state)


def warmup_steps(warmup: float, total: int) -> int:
    """Below 1 a share of all steps, otherwise a number of steps."""
    return round(warmup * total) if warmup < 1 else int(warmup)
