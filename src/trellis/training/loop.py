"""The loop around every optimizer: progress, held-out score, early stopping, time, Ctrl-C, checkpoints.

An optimizer is an iterator of `Iterate`; it knows about none of this. The weights that are kept are those of the best
held-out score if there are held-out sentences, otherwise the last ones; an interrupted training keeps them too.
`em` makes the iterates of expectation maximisation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from trellis.arrays import FloatArray
from trellis.errors import ConfigError, ProcessError, StoreError
from trellis.store import Stored
from trellis.training.checkpoint import Checkpoint, Checkpoints, TrainingFolder
from trellis.training.history import DevScores, History, Iterate, Progress, Reason, Step, Validate

T = TypeVar("T")
W = TypeVar("W")


@dataclass(slots=True)
class TrainingState(Generic[W]):
    """The iterations so far, and the weights that are kept: those of the best held-out score, or the last ones."""

    steps: list[Step] = field(default_factory=list)
    kept: int = -1
    """The index of the step whose weights are kept; -1 before the first."""
    weights: W | None = None

    @property
    def score(self) -> float | None:
        """The held-out score of the weights that are kept."""
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

    def stop_reason(self, max_iterations: int | None, patience: int | None) -> Reason | None:
        """Why to stop now, or None: no better dev score for `patience` iterations, or `max_iterations` are done.

        A best score of 0 does not count: the model has not begun to learn.
        """
        if patience is not None and self.score and self.steps[-1].dev is not None:
            first = next((i for i, step in enumerate(self.steps) if step.dev == self.score), self.kept)
            if len(self.steps) - 1 - first >= patience:
                return "early_stopping"
        if max_iterations is not None and len(self.steps) >= max_iterations:
            return "max_iterations"
        return None

    def history(self, reason: Reason) -> History:
        return History(tuple(self.steps), reason, self.kept)

    def restore(self, checkpoint: Checkpoint, weights: W | None) -> History:
        """Continue from the iterations of a checkpoint, and the weights that it keeps."""
        try:
            history = History.from_dict(checkpoint.values["history"])
        except (KeyError, TypeError, AttributeError, ConfigError) as error:
            raise StoreError(f"{checkpoint.stored.where} does not hold the steps of a training: {error}") from None
        if not -1 <= history.kept < len(history.steps):
            problem = f"step {history.kept} cannot be the best of {len(history.steps)}"
            raise StoreError(f"{checkpoint.stored.where}: {problem}")
        self.steps[:], self.kept, self.weights = history.steps, history.kept, weights
        return history


class Trained(NamedTuple):
    """The weights that were kept, and the history of the training."""

    weights: FloatArray
    history: History


class Resumption:
    """Where a training by iterations begins: at its start, or where the checkpoint in its folder left it.

    A checkpoint is written every so many seconds, at Ctrl-C, and when another process of the training is lost. It also
    holds the state of the optimizer (of L-BFGS 48 bytes per weight by default), so that a training that continues takes
    the steps of one that was never interrupted.
    """

    def __init__(self, start: FloatArray, folder: TrainingFolder | None = None, seconds: float = 0.0) -> None:
        self.start, self.weights = start, start
        self.optimizer: Stored | None = None
        """The saved state of the optimizer, if it continues from one."""
        self.state: TrainingState[FloatArray] = TrainingState()
        self.stopped: Reason | None = None
        """Why the optimizer had ended at the checkpoint, if it had."""
        self.last: Iterate | None = None
        """The last iteration of this run."""
        self._checkpoints = None if folder is None else Checkpoints(folder.path)
        self._seconds, self._written = seconds, time.monotonic()
        saved = None
        if folder is not None and folder.resuming and self._checkpoints is not None:
            saved = self._checkpoints.newest(lambda checkpoint: checkpoint)
        if saved is None:
            return
        # Here, not in `newest`: a checkpoint of another training is refused, not passed over.
        weights, best, optimizer = (saved.part(name) for name in ("weights", "best", "optimizer"))
        shape = start.shape
        self.weights = np.array(weights.array("weights", np.float64, shape))
        kept = np.array(best.array("weights", np.float64, shape)) if best.arrays else self.weights
        reason = self.state.restore(saved, kept).reason
        self.stopped = None if reason == "interrupted" else reason
        self.optimizer = optimizer if optimizer.arrays else None

    def visit(self, iterate: Iterate) -> None:
        """Write a checkpoint if it is time."""
        self.last = iterate
        if self._checkpoints is not None and time.monotonic() - self._written >= self._seconds:
            self.write()

    def write(self) -> bool:
        """Write a checkpoint of the last iteration, if there is one; says whether it did."""
        if self._checkpoints is None or self.last is None:
            return False
        kept, last = self.state.weights, self.last
        parts = {"weights": {"weights": last.weights}, "optimizer": {} if last.state is None else last.state()}
        if kept is not None and kept is not last.weights:
            parts["best"] = {"weights": kept}
        values = {"history": self.state.history(last.stop or "interrupted").to_dict()}
        self._checkpoints.save(len(self.state.steps), values, parts)
        self._written = time.monotonic()
        return True


def run(
    iterates: Iterator[Iterate],
    start: FloatArray | Resumption,
    *,
    max_iterations: int | None = None,
    validate: Validate | None = None,
    patience: int | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Go through the iterates until the last one, or until a limit is reached.

    With a `Resumption` they continue from where it is, whose steps count too, and checkpoints are written.
    """
    resumption = start if isinstance(start, Resumption) else Resumption(start)
    state = resumption.state
    reason: Reason | None = resumption.stopped or state.stop_reason(max_iterations, patience)
    begin = time.perf_counter() - (state.steps[-1].seconds if state.steps else 0.0)
    try:
        while reason is None:
            iterate = next(iterates, None)
            if iterate is None:
                reason = "max_iterations"
                break
            step = _step(len(state.steps) + 1, iterate, begin, max_iterations, validate)
            weights = None
            if state.is_better(step.dev, step.loss):
                # Without held-out data the last weights are kept: an optimizer changes them only when asked for more.
                weights = iterate.weights if step.dev is None else iterate.weights.copy()
            state.add(step, weights)
            resumption.visit(iterate)
            if progress is not None:
                progress(step)
            reason = iterate.stop or state.stop_reason(max_iterations, patience)
    except KeyboardInterrupt:
        reason = "interrupted"
        retry_on_interrupt(resumption.write)
    except ProcessError as error:
        if not resumption.write():
            raise
        raise ProcessError(f"{error}; the state after iteration {len(state.steps)} was saved") from None
    return Trained(resumption.start if state.weights is None else state.weights, state.history(reason))


def _step(number: int, iterate: Iterate, begin: float, limit: int | None, validate: Validate | None) -> Step:
    scores = None if validate is None else validate(iterate.weights)
    seconds = time.perf_counter() - begin
    left = None if limit is None else seconds / number * (limit - number)
    figures = scores.figures() if isinstance(scores, DevScores) else {"dev": scores}
    return replace(Step(number, iterate.loss, iterate.gradient_norm, None, seconds, left), **figures)


def retry_on_interrupt(finish: Callable[[], T]) -> T:
    """The result of `finish`, which saves what was learned: Ctrl-C makes it start again once, and loses nothing."""
    try:
        return finish()
    except KeyboardInterrupt:
        return finish()


S = TypeVar("S")


class EMObjective(Protocol[S]):
    """Anything that can take the two steps; S is the type of the statistics that go from one to the other."""

    def expect(self, weights: FloatArray) -> tuple[float, S]:
        """The loss of the weights, and the expected statistics under them."""

    def maximise(self, weights: FloatArray, statistics: S) -> FloatArray:
        """The weights of least expected loss, given the statistics under `weights`."""


def em(objective: EMObjective[S], start: FloatArray, *, tolerance: float = 1e-4) -> Iterator[Iterate]:
    """Iterates of EM from `start`, each with its own loss; ends once one gains less than `tolerance` of the loss."""
    weights = start
    loss, statistics = objective.expect(weights)
    while True:
        weights = objective.maximise(weights, statistics)
        before = loss
        loss, statistics = objective.expect(weights)
        flat = not before - loss > tolerance * abs(loss)
        yield Iterate(weights, loss, None, "converged" if flat else None)


def best_of_restarts(
    objective: EMObjective[Any],
    starts: Iterable[FloatArray | Resumption],
    *,
    tolerance: float = 1e-4,
    max_iterations: int | None = None,
    validate: Validate | None = None,
    patience: int | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Run EM from each start to its end; the one with the least loss, or with the best held-out score, is kept."""
    kept: Trained | None = None
    try:
        for start in starts:
            weights = start.weights if isinstance(start, Resumption) else start
            iterates = em(objective, weights, tolerance=tolerance)
            trained = run(
                iterates,
                start,
                max_iterations=max_iterations,
                validate=validate,
                patience=patience,
                progress=progress,
            )
            if kept is None or _rank(trained) < _rank(kept):
                kept = trained
            if trained.history.reason == "interrupted":
                raise KeyboardInterrupt
    except KeyboardInterrupt:  # also between two restarts
        if kept is None:
            raise
        return Trained(kept.weights, replace(kept.history, reason="interrupted"))
    assert kept is not None, "there is at least one start"
    return kept


def _rank(trained: Trained) -> tuple[float, float]:
    """Smaller is better: held-out score first, if there is one, then the loss."""
    if not trained.history.steps:
        return (math.inf, math.inf)
    step = trained.history.steps[trained.history.kept]
    return (0.0 if step.dev is None else -step.dev, step.loss)
