"""Learning from mistakes with a margin: passive-aggressive (Crammer et al. 2006) and AROW (Crammer et al. 2009).

Both decode one example at a time and move the weights only if it is labelled wrongly: passive-aggressive learning just
as far as the right labels need to win by a margin, AROW further for weights that it has seldom seen. The rules are
those of CRFsuite; see `native/features/online.h` for the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trellis.training.history import Iterate
from trellis.training.objective import Aggression, Confidence, MarginObjective, Perceptron, Vector


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
