"""The loop around every optimizer: progress, held-out score, early stopping, time, Ctrl-C.

An optimizer is an iterator of `Iterate`; it knows nothing of all this. The weights kept are those of the best
held-out score where there are held-out sentences, else the last ones: an interrupted training keeps them too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from trellis.training.history import History, Iterate, Progress, Reason, Step, Validate
from trellis.training.objective import Vector


@dataclass(slots=True)
class Trained:
    """The weights kept, and the history of how they came about."""

    weights: Vector
    history: History


@dataclass(slots=True)
class _Record:
    weights: Vector
    steps: list[Step] = field(default_factory=list)
    kept: int = -1

    def add(self, step: Step, weights: Vector) -> None:
        self.steps.append(step)
        best = self.steps[self.kept].dev if self.kept >= 0 else None
        if step.dev is None or best is None or step.dev > best:
            self.kept = len(self.steps) - 1
            self.weights = weights if step.dev is None else weights.copy()


def run(
    iterates: Iterator[Iterate],
    start: Vector,
    *,
    max_iterations: int | None = None,
    validate: Validate | None = None,
    patience: int | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Go through the iterates until one is the last, or the limits say so."""
    record = _Record(start)
    begin = time.perf_counter()
    reason: Reason = "max_iterations"
    try:
        if max_iterations is None or max_iterations > 0:
            for iterate in iterates:
                step = _step(len(record.steps) + 1, iterate, begin, max_iterations, validate)
                record.add(step, iterate.weights)
                if progress is not None:
                    progress(step)
                stop = iterate.stop or _limit(record, max_iterations, patience)
                if stop is not None:
                    reason = stop
                    break
    except KeyboardInterrupt:
        reason = "interrupted"
    return Trained(record.weights, History(tuple(record.steps), reason, record.kept))


def _step(number: int, iterate: Iterate, begin: float, limit: int | None, validate: Validate | None) -> Step:
    dev = None if validate is None else validate(iterate.weights)
    seconds = time.perf_counter() - begin
    left = None if limit is None else seconds / number * (limit - number)
    return Step(number, iterate.loss, iterate.gradient_norm, dev, seconds, left)


def _limit(record: _Record, max_iterations: int | None, patience: int | None) -> Reason | None:
    if patience is not None and record.steps[-1].dev is not None and len(record.steps) - 1 - record.kept >= patience:
        return "early_stopping"
    if max_iterations is not None and len(record.steps) >= max_iterations:
        return "max_iterations"
    return None
