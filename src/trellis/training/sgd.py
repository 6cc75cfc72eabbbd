"""Mini-batch stochastic gradient descent with L2 regularisation, a step length found on a sample, and shuffling.

The rate of step t is ``rate / (1 + rate * decay * t)`` (Bottou); `rate` is the one of several powers of two that
lowers the loss of a sample most in one pass over it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trellis.errors import DataError
from trellis.training.history import Iterate
from trellis.training.objective import Descent, Order, StochasticObjective, Vector

_SAMPLE, _TRIALS = 1000, 12


def sgd(
    objective: StochasticObjective,
    start: Vector,
    *,
    batch: int = 8,
    rate: float | None = None,
    period: int = 5,
    delta: float = 1e-3,
    seed: int = 0,
) -> Iterator[Iterate]:
    """One iterate per pass over the examples; stops when the loss fell by less than `delta` over `period` passes.

    With the same seed, the rate that `first_rate` finds leads to the same weights as none.
    """
    random = np.random.default_rng(seed)
    sample = random.permutation(objective.examples)[:_SAMPLE]
    descent = Descent(start.copy(), calibrate(objective, start, sample, batch) if rate is None else rate, batch)
    losses: list[float] = []
    while True:
        order = random.permutation(objective.examples)
        loss = objective.descend(order, descent)
        weights = descent.fold()
        losses.append(loss)
        flat = len(losses) > period and losses[-1 - period] - loss < delta * abs(loss)
        yield Iterate(weights.copy(), loss, None, "converged" if flat else None)


def first_rate(objective: StochasticObjective, start: Vector, *, batch: int = 8, seed: int = 0) -> float:
    """The rate that `sgd` begins with if it is given none."""
    sample = np.random.default_rng(seed).permutation(objective.examples)[:_SAMPLE]
    return calibrate(objective, start, sample, batch)


def calibrate(objective: StochasticObjective, start: Vector, sample: Order, batch: int) -> float:
    """Double or halve the rate while that makes one pass over the sample end lower."""

    def after(rate: float) -> float:
        """The loss after the pass; infinite if its steps are so long that the scores overflow."""
        descent = Descent(start.copy(), rate, batch)
        try:
            with np.errstate(all="ignore"):
                objective.descend(sample, descent)
                loss = objective.loss_of(sample, descent.fold())
        except DataError:
            return np.inf
        return loss if np.isfinite(loss) else np.inf

    best, rate = after(1.0), 1.0
    factor = 2.0 if np.isfinite(best) else 0.5
    for _ in range(_TRIALS):
        trial = after(rate * factor)
        if trial < best or np.isinf(best):
            best, rate = trial, rate * factor
        elif factor > 1 and rate == 1.0:
            factor = 0.5
        else:
            break
    return rate
