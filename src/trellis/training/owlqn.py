"""OWL-QN (Andrew and Gao, 2007): L-BFGS for a smooth loss plus ``c1 |w|_1``, which makes weights exactly zero.

Each step stays in one orthant, where the L1 term is linear: weights keep their sign or become zero, and a weight at
zero takes the sign that descends. Curvature is learned from the smooth part only.

    pseudo-gradient of F = f + c1 |w|:   g + c1 sign(w)      where w is not 0
                                         g + c1 if g < -c1,  g - c1 if g > c1,  else 0     where it is
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from trellis import _native
from trellis.arrays import FloatArray
from trellis.store import Stored
from trellis.training.history import Iterate
from trellis.training.lbfgs import DECREASE, InverseHessian, Objective, StoppingTest, restore, state_of


def pseudo_gradient(weights: FloatArray, gradient: FloatArray, c1: float, out: FloatArray | None = None) -> FloatArray:
    """The steepest way up of the loss with its L1 term, into `out` if given; all zeros exactly at the minimum."""
    out = np.empty_like(gradient) if out is None else out
    _native.pseudo_gradient(weights, gradient, c1, out)
    return out


def owlqn(
    objective: Objective,
    start: FloatArray,
    *,
    c1: float,
    memory: int = 6,
    epsilon: float = 1e-5,
    delta: float = 1e-5,
    period: int = 10,
    max_linesearch: int = 20,
    state: Stored | None = None,
) -> Iterator[Iterate]:
    """Iterates of OWL-QN from `start`; their loss includes the L1 term. See `lbfgs` for `state`."""
    x, g = start.copy(), np.empty_like(start)
    x_next, g_next, uphill, direction = (np.empty_like(start) for _ in range(4))
    loss = objective.evaluate(x, g) + c1 * float(np.abs(x).sum())
    pseudo_gradient(x, g, c1, uphill)
    test = StoppingTest(loss, epsilon=epsilon, delta=delta, period=period)
    hessian = InverseHessian(uphill, memory)
    if state is not None:
        restore(state, hessian, test)
    length = hessian.length
    step = 1.0 / length if length and state is None else 1.0

    def along(t: float) -> tuple[float, float]:
        """The loss after a step that is cut at the border of the orthant, and its change if that were linear."""
        size, slope = _native.step_in_orthant(x, uphill, direction, t, x_next)
        return objective.evaluate(x_next, g_next) + c1 * size, slope

    while length > 0:
        hessian.descent(direction)
        _native.keep_downhill(uphill, direction)
        loss_next = _backtrack(along, loss, step, max_linesearch)
        if loss_next is None:
            yield Iterate(x, loss, length, "no_progress")
            return
        pseudo_gradient(x_next, g_next, c1, uphill)
        hessian.update(x_next, x, g_next, g, uphill)
        x, x_next, g, g_next = x_next, x, g_next, g
        loss, length, step = loss_next, hessian.length, 1.0
        yield Iterate(x, loss, length, test.check(loss, length, x), lambda: state_of(hessian, test))
    yield Iterate(x, loss, length, "converged")


def _backtrack(
    along: Callable[[float], tuple[float, float]], loss: float, step: float, most_trials: int
) -> float | None:
    """The loss of the first of shorter and shorter steps that lowers it enough."""
    for _ in range(most_trials):
        trial, slope = along(step)
        if trial <= loss + DECREASE * slope:
            return trial
        step *= 0.5
    return None
