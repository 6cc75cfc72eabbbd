"""L-BFGS: descent along -H g, for losses that are smooth (L2 regularisation is).

Defaults and stopping tests are CRFsuite's (libLBFGS): stop when ``|g| < epsilon max(1, |w|)``, or when the loss fell
by less than `delta` of itself over the last `period` iterations.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator

import numpy as np

from trellis.arrays import Arrays
from trellis.training.hessian import InverseHessian, combine, dot, norm
from trellis.training.history import Iterate, Reason
from trellis.training.linesearch import wolfe
from trellis.training.objective import Objective, Vector


class StoppingTest:
    """The two tests above, fed iteration by iteration."""

    def __init__(self, loss: float, *, epsilon: float, delta: float, period: int) -> None:
        self._epsilon, self._delta = epsilon, delta
        self._losses: deque[float] = deque([loss], maxlen=min(max(period, 1), sys.maxsize))
        self._period = period

    @property
    def losses(self) -> Vector:
        """The last ones."""
        return np.array(self._losses)

    def recall(self, losses: Vector) -> None:
        """Know again the losses of a training that goes on."""
        self._losses.extend(losses.tolist())

    def check(self, loss: float, gradient_norm: float, weights_norm: float) -> Reason | None:
        """The reason to stop, if there is one."""
        if gradient_norm <= self._epsilon * max(1.0, weights_norm):
            return "converged"
        full = self._period > 0 and len(self._losses) == self._period
        if full and self._losses[0] - loss < self._delta * abs(loss):
            return "converged"
        self._losses.append(loss)
        return None


def lbfgs(
    objective: Objective,
    start: Vector,
    *,
    memory: int = 6,
    epsilon: float = 1e-5,
    delta: float = 1e-5,
    period: int = 10,
    max_linesearch: int = 20,
    before: Arrays | None = None,
) -> Iterator[Iterate]:
    """Iterates of L-BFGS from `start`; the weights of one do not change until the next is asked for.

    With the `memory` of an iterate in `before`, they go on from it.
    """
    x, g = start.copy(), np.empty_like(start)
    x_next, g_next, direction = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    loss = objective.evaluate(x, g)
    test = StoppingTest(loss, epsilon=epsilon, delta=delta, period=period)
    hessian = InverseHessian(g, memory)
    recall(before, hessian, test)
    length = hessian.length
    step = 1.0 / length if length and before is None else 1.0

    def along(t: float) -> tuple[float, float]:
        combine([x, direction], [1.0, t], x_next)
        return objective.evaluate(x_next, g_next), dot(g_next, direction)

    while length > 0:
        slope = hessian.descent(direction)
        trial = wolfe(along, loss, slope, step, max_linesearch)
        if trial is None:
            yield Iterate(x, loss, length, "no_progress")
            return
        hessian.update(x_next, x, g_next, g, g_next)
        x, x_next, g, g_next = x_next, x, g_next, g
        loss, length, step = trial.loss, hessian.length, 1.0
        yield Iterate(x, loss, length, test.check(loss, length, norm(x)), lambda: memory_of(hessian, test))
    yield Iterate(x, loss, length, "converged")


def memory_of(hessian: InverseHessian, test: StoppingTest) -> Arrays:
    """What a quasi-Newton method knows besides its weights."""
    return {**hessian.arrays(), "losses": test.losses}


def recall(before: Arrays | None, hessian: InverseHessian, test: StoppingTest) -> None:
    """The inverse of `memory_of`, if there is anything to know again."""
    if before is not None:
        hessian.recall(before)
        test.recall(before["losses"])
