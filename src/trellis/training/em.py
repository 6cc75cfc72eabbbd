"""Expectation-maximisation: Baum-Welch, and anything else that alternates between two steps.

    E   statistics = the expected values of the hidden variables under the weights, with the loss of those weights
    M   weights'   = the best weights if the statistics had been observed

The loss (negative log-likelihood, plus the penalty of a prior if there is one) never rises. A trainer sees an
`EMObjective` and does not know about hidden Markov models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from trellis.arrays import FloatArray
from trellis.training.history import Iterate, Progress, Validate
from trellis.training.loop import Resumption, Trained, run

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
