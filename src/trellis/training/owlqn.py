"""OWL-QN (Andrew and Gao, 2007): L-BFGS for a smooth loss plus ``c1 |w|_1``, which makes weights exactly zero.

Each step stays in one orthant, where the L1 term is linear: weights keep their sign or become zero, and a weight at
zero takes the sign that descends. Curvature is learned from the smooth part only.

    pseudo-gradient of F = f + c1 |w|:   g + c1 sign(w)      where w is not 0
                                         g + c1 if g < -c1,  g - c1 if g > c1,  else 0     where it is
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trellis.training.hessian import InverseHessian, dot, norm
from trellis.training.history import Iterate
from trellis.training.lbfgs import StoppingTest
from trellis.training.objective import Objective, Vector

_DECREASE = 1e-4


def pseudo_gradient(weights: Vector, gradient: Vector, c1: float) -> Vector:
    """The steepest way up of the loss with its L1 term; all zeros exactly at the minimum."""
    shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - c1, 0.0)
    return np.where(weights != 0.0, gradient + c1 * np.sign(weights), shrunk)


def owlqn(
    objective: Objective,
    start: Vector,
    *,
    c1: float,
    memory: int = 6,
    epsilon: float = 1e-5,
    delta: float = 1e-5,
    period: int = 10,
    max_linesearch: int = 20,
) -> Iterator[Iterate]:
    """Iterates of OWL-QN from `start`; their loss includes the L1 term."""
    x, g, direction = start.copy(), np.empty_like(start), np.empty_like(start)
    loss = objective.evaluate(x, g) + c1 * float(np.abs(x).sum())
    uphill = pseudo_gradient(x, g, c1)
    test = StoppingTest(loss, epsilon=epsilon, delta=delta, period=period)
    hessian = InverseHessian(uphill, memory)
    length = hessian.length
    step = 1.0 / length if length else 1.0
    while length > 0:
        hessian.descent(direction)
        direction[direction * uphill >= 0.0] = 0.0
        found = _backtrack(objective, x, loss, uphill, direction, c1, step, max_linesearch)
        if found is None:
            yield Iterate(x, loss, length, "no_progress")
            return
        x_next, g_next, loss = found
        uphill = pseudo_gradient(x_next, g_next, c1)
        hessian.update(x_next, x, g_next, g, uphill)
        x, g, step = x_next, g_next, 1.0
        length = hessian.length
        yield Iterate(x, loss, length, test.check(loss, length, norm(x)))
    yield Iterate(x, loss, length, "converged")


def _backtrack(
    objective: Objective,
    x: Vector,
    loss: float,
    uphill: Vector,
    direction: Vector,
    c1: float,
    step: float,
    most_trials: int,
) -> tuple[Vector, Vector, float] | None:
    """The first of shorter and shorter steps, cut at the border of the orthant, that lowers the loss enough."""
    orthant = np.where(x != 0.0, np.sign(x), -np.sign(uphill))
    g_next = np.empty_like(x)
    for _ in range(most_trials):
        x_next = x + step * direction
        x_next[x_next * orthant <= 0.0] = 0.0
        trial = objective.evaluate(x_next, g_next) + c1 * float(np.abs(x_next).sum())
        if trial <= loss + _DECREASE * dot(uphill, x_next - x):
            return x_next, g_next, trial
        step *= 0.5
    return None
