"""Algorithms that go from example to example, in an order that is shuffled for each pass.

`sgd`: mini-batch stochastic gradient descent with L2 regularisation. The rate of step t is
``rate / (1 + rate * decay * t)`` (Bottou); `rate` is the one of several powers of two that lowers the loss of a sample
most in one pass over it.

`averaged_perceptron` (Collins 2002): decode, move the weights after each mistake, answer with their average.

`passive_aggressive` (Crammer et al. 2006) and `arow` (Crammer et al. 2009) also move the weights only after mistakes:
passive-aggressive learning just as far as the right labels need to win by a margin, AROW further for weights that it
has seldom seen. The rules are those of CRFsuite; see `native/features/online.h` for the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trellis.errors import DataError
from trellis.training.history import Iterate
from trellis.training.objective import (
    Aggression,
    Confidence,
    Descent,
    MarginObjective,
    MistakeObjective,
    Order,
    Perceptron,
    StochasticObjective,
    Vector,
)

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


def averaged_perceptron(
    objective: MistakeObjective, start: Vector, *, epsilon: float = 0.0, seed: int = 0
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the share of tokens tagged wrongly, and it ends at `epsilon` or less."""
    random = np.random.default_rng(seed)
    state = Perceptron(start.copy(), np.zeros_like(start))
    while True:
        wrong = objective.correct(random.permutation(objective.examples), state)
        yield Iterate(state.average(), wrong, None, "converged" if wrong <= epsilon else None)


def passive_aggressive(
    objective: MarginObjective,
    start: Vector,
    rule: Aggression,
    *,
    averaging: bool = True,
    epsilon: float = 0.0,
    seed: int = 0,
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the sum of the costs, and it ends when their mean is below `epsilon`."""
    random = np.random.default_rng(seed)
    state = Perceptron(start.copy(), np.zeros_like(start))
    while True:
        cost = objective.be_aggressive(random.permutation(objective.examples), state, rule)
        weights = state.average() if averaging else state.weights.copy()
        small = cost / max(objective.examples, 1) < epsilon
        yield Iterate(weights, cost, None, "converged" if small else None)


def arow(
    objective: MarginObjective,
    start: Vector,
    *,
    variance: float = 1.0,
    gamma: float = 1.0,
    epsilon: float = 0.0,
    seed: int = 0,
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the sum of the costs, and it ends when their mean is at most `epsilon`."""
    random = np.random.default_rng(seed)
    state = Confidence(start.copy(), np.full_like(start, variance), gamma)
    while True:
        cost = objective.adapt(random.permutation(objective.examples), state)
        small = cost / max(objective.examples, 1) <= epsilon
        yield Iterate(state.weights.copy(), cost, None, "converged" if small else None)
