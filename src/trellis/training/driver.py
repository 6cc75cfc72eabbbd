"""The loop around every optimizer: progress, held-out score, early stopping, time, Ctrl-C.

An optimizer is an iterator of `Iterate`; it knows about none of this. The weights that are kept are those of the best
held-out score if there are held-out sentences, otherwise the last ones; an interrupted training keeps them too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from trellis.errors import ProcessError
from trellis.training.best import Best
from trellis.training.history import DevScores, History, Iterate, Progress, Reason, Step, Validate
from trellis.training.objective import Vector
from trellis.training.savepoints import Reached, Savepoints

T = TypeVar("T")


@dataclass(slots=True)
class Trained:
    """The weights that were kept, and the history of the training."""

    weights: Vector
    history: History


def run(
    iterates: Iterator[Iterate],
    start: Vector,
    *,
    max_iterations: int | None = None,
    validate: Validate | None = None,
    patience: int | None = None,
    progress: Progress | None = None,
    savepoints: Savepoints | None = None,
    place: Reached | None = None,
) -> Trained:
    """Go through the iterates until the last one, or until a limit is reached.

    They go on from `place`, if that is given: its steps count too. Others are written to `savepoints`.
    """
    here = Reached(start, Best()) if place is None else place
    best = here.best
    reason: Reason | None = _limit(best, max_iterations, patience)
    try:
        if reason is None:
            reason = _run(iterates, here, max_iterations, validate, patience, progress, savepoints)
    except KeyboardInterrupt:
        reason = "interrupted"
    except ProcessError as error:
        if savepoints is None or not best.steps:
            raise
        savepoints.write(here)
        raise ProcessError(f"{error}; the state after iteration {len(best.steps)} was saved") from None
    return Trained(start if best.weights is None else best.weights, best.history(reason))


def undisturbed(finish: Callable[[], T]) -> T:
    """The result of the function, which saves what was learned: Ctrl-C makes it start again once, and loses nothing."""
    try:
        return finish()
    except KeyboardInterrupt:
        return finish()


def _run(
    iterates: Iterator[Iterate],
    here: Reached,
    max_iterations: int | None,
    validate: Validate | None,
    patience: int | None,
    progress: Progress | None,
    savepoints: Savepoints | None,
) -> Reason:
    best = here.best
    begin = time.perf_counter() - (best.steps[-1].seconds if best.steps else 0.0)
    for iterate in iterates:
        step = _step(len(best.steps) + 1, iterate, begin, max_iterations, validate)
        better = best.is_better(step.dev, step.loss)
        # Without held-out data the last weights are kept: an optimizer does not change them until it yields the next.
        kept = iterate.weights if step.dev is None or not better else iterate.weights.copy()
        best.add(step, kept if better else None)
        here.weights, here.memory = iterate.weights, iterate.memory
        if savepoints is not None:
            savepoints.visit(here)
        if progress is not None:
            progress(step)
        stop = iterate.stop or _limit(best, max_iterations, patience)
        if stop is not None:
            return stop
    return "max_iterations"


def _step(number: int, iterate: Iterate, begin: float, limit: int | None, validate: Validate | None) -> Step:
    found = None if validate is None else validate(iterate.weights)
    seconds = time.perf_counter() - begin
    left = None if limit is None else seconds / number * (limit - number)
    figures = found.figures() if isinstance(found, DevScores) else {"dev": found}
    return replace(Step(number, iterate.loss, iterate.gradient_norm, None, seconds, left), **figures)


def _limit(best: Best[Vector], max_iterations: int | None, patience: int | None) -> Reason | None:
    if best.is_out_of_patience(patience):
        return "early_stopping"
    if max_iterations is not None and len(best.steps) >= max_iterations:
        return "max_iterations"
    return None
