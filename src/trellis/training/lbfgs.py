"""L-BFGS: descent along -H g, for losses that are smooth (L2 regularisation is), and OWL-QN for those with an L1 term.

Defaults and stopping tests are CRFsuite's (libLBFGS): stop when ``|g| < epsilon max(1, |w|)``, or when the loss fell
by less than `delta` of itself over the last `period` iterations.

H is the inverse Hessian as approximated from the last few steps s and changes of the gradient y. H v is computed by the
two-loop recursion (Nocedal 1980). All vectors in it are sums of the s, the y and v, so the recursion runs on their
coefficients, and needs only the dot products between them. Learning a step makes s and y and all new products in one
pass over the long vectors; the multiplication is a second one, for any memory. The s and y are kept in single
precision: H is then exact for slightly different steps, which is just as good.

A step length satisfies the strong Wolfe conditions:

    f(t) <= f(0) + 1e-4 t f'(0)         the loss falls enough
    |f'(t)| <= 0.9 |f'(0)|              and the slope flattens enough

Steps grow until a bracket is found; inside it, cubic interpolation kept away from the bracket's ends. Close to the
minimum, a step gains less than the rounding of a loss in single precision, so a loss that is higher by this rounding
counts as low enough (Hager and Zhang, 2005), and the stopping test notices that there is nothing left to gain.

OWL-QN (Andrew and Gao, 2007) is L-BFGS for a smooth loss f plus ``c1 |w|_1``, which makes weights exactly zero. Each
step stays in one orthant, where the L1 term is linear: weights keep their sign or become zero, and a weight at zero
takes the sign that descends. Curvature is learned from the smooth part only.

    pseudo-gradient of F = f + c1 |w|:   g + c1 sign(w)      where w is not 0
                                         g + c1 if g < -c1,  g - c1 if g > c1,  else 0     where it is
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from trellis import _native
from trellis.arrays import Arrays, Float32Array, FloatArray
from trellis.store import Stored
from trellis.training.history import Iterate, Reason

_DECREASE, _CURVATURE = 1e-4, 0.9
_ROUNDING = 1e-6  # of a loss, as a share of it


class Objective(Protocol):
    """A function of `size` weights to be made small. Trainers know nothing else of what they train."""

    @property
    def size(self) -> int:
        """The number of weights."""

    def evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        """The loss; its gradient is written to `gradient`."""


def lbfgs(
    objective: Objective,
    start: FloatArray,
    *,
    memory: int = 6,
    epsilon: float = 1e-5,
    delta: float = 1e-5,
    period: int = 10,
    max_linesearch: int = 20,
    state: Stored | None = None,
) -> Iterator[Iterate]:
    """Iterates of L-BFGS from `start`; the weights of one do not change until the next is asked for.

    With the `state` of an iterate, as it was saved, they continue from it.
    """
    x = start.copy()
    g, x_next, g_next, direction = (np.empty_like(x) for _ in range(4))
    loss = objective.evaluate(x, g)
    test = StoppingTest(loss, epsilon=epsilon, delta=delta, period=period)
    hessian = InverseHessian(g, memory)
    if state is not None:
        _restore(state, hessian, test)
    length = hessian.length
    step = 1.0 / length if length and state is None else 1.0

    def along(t: float) -> tuple[float, float]:
        _native.combine([x, direction], [1.0, t], x_next)
        return objective.evaluate(x_next, g_next), _native.dot(g_next, direction)

    while length > 0:
        slope = hessian.descent(direction)
        trial = wolfe(along, loss, slope, step, max_linesearch, test.rounding * abs(loss))
        if trial is None:
            yield Iterate(x, loss, length, "no_progress")
            return
        hessian.update(x_next, x, g_next, g, g_next)
        x, x_next, g, g_next = x_next, x, g_next, g
        loss, length, step = trial.loss, hessian.length, 1.0
        yield Iterate(x, loss, length, test.check(loss, length, x), lambda: _state_of(hessian, test))
    yield Iterate(x, loss, length, "converged")


class StoppingTest:
    """Converged: the gradient is small beside the weights, or the last `period` iterations gained too little."""

    def __init__(self, loss: float, *, epsilon: float, delta: float, period: int) -> None:
        self._epsilon, self._delta, self._period = epsilon, delta, period
        self.rounding = min(_ROUNDING, delta / 10) if period > 0 else 0.0
        """By what share a step may raise the loss, since sums are rounded; `delta` ends steps that gain so little."""
        self.losses: deque[float] = deque([loss], maxlen=min(max(period, 1), sys.maxsize))

    def check(self, loss: float, gradient_norm: float, weights: FloatArray) -> Reason | None:
        if gradient_norm <= self._epsilon * max(1.0, float(np.sqrt(_native.dot(weights, weights)))):
            return "converged"
        full = len(self.losses) == self._period
        if full and self.losses[0] - loss < self._delta * abs(loss):
            return "converged"
        self.losses.append(loss)
        return None


def _state_of(hessian: InverseHessian, test: StoppingTest) -> Arrays:
    """The knowledge of a quasi-Newton method besides its weights, until the next iteration."""
    return {**hessian.arrays(), "losses": np.array(test.losses)}


def _restore(state: Stored, hessian: InverseHessian, test: StoppingTest) -> None:
    hessian.restore(state)
    test.losses.clear()  # of the loss at the start, which is the last of those that were saved
    test.losses.extend(state.array("losses", np.float64, (None,)).tolist())


class InverseHessian:
    """Approximation from at most `memory` pairs (s, y), and its product with one vector v, given ahead."""

    def __init__(self, v: FloatArray, memory: int) -> None:
        self._memory, self._v = memory, v
        self._pairs: list[tuple[Float32Array, Float32Array]] = []
        self._products = np.array([[_native.dot(v, v)]])  # [2k + 1, 2k + 1] between s_0.. s_k-1, y_0.. y_k-1, v

    def arrays(self) -> Arrays:
        """Pairs and products, without v; they change with the next `update`."""
        arrays: Arrays = {"products": self._products}
        for i, (s, y) in enumerate(self._pairs):
            arrays |= {f"s{i}": s, f"y{i}": y}
        return arrays

    def restore(self, state: Stored) -> None:
        """Take over what `arrays` returned, when v was the same."""
        products = state.array("products", np.float64, (None, None))
        pairs, size = len(products) // 2, (len(self._v),)
        if products.shape != (2 * pairs + 1,) * 2:
            raise state.refused("products", f"must be square, with an odd number of rows, got {products.shape}")
        self._products = np.array(products)
        self._pairs = [
            (np.array(state.array(f"s{i}", np.float32, size)), np.array(state.array(f"y{i}", np.float32, size)))
            for i in range(pairs)
        ]

    def update(self, x: FloatArray, x_before: FloatArray, g: FloatArray, g_before: FloatArray, v: FloatArray) -> None:
        """Learn from a step; one without positive curvature is ignored. `v` is the next vector to multiply."""
        s, y = self._room(len(v))
        k = len(self._pairs)
        # The new s comes after the old ones, the new y and v at the end.
        old, new = [*range(k), *range(k + 1, 2 * k + 1)], [k, 2 * k + 1, 2 * k + 2]
        fresh = _native.learn_step(x, x_before, g, g_before, v, self._vectors(), s, y).reshape(3, 2 * k + 3)
        products = np.empty((2 * k + 3, 2 * k + 3))
        products[np.ix_(old, old)] = self._products[: 2 * k, : 2 * k]
        products[np.ix_(new, [*old, *new])] = fresh
        products[np.ix_([*old, *new], new)] = fresh.T
        if 0 < fresh[0, 2 * k + 1] < np.inf:
            self._pairs.append((s, y))
        else:
            without = [*old, 2 * k + 2]
            products = products[np.ix_(without, without)]
        self._products, self._v = products, v

    def _room(self, size: int) -> tuple[Float32Array, Float32Array]:
        """Arrays for a new pair: those of the oldest, which is forgotten, if the memory is full."""
        k = len(self._pairs)
        if k < self._memory:
            return np.empty(size, dtype=np.float32), np.empty(size, dtype=np.float32)
        newer = [i for i in range(2 * k) if i not in (0, k)]
        self._products = self._products[np.ix_(newer, newer)]
        return self._pairs.pop(0)

    def _vectors(self) -> list[Float32Array]:
        return [s for s, _ in self._pairs] + [y for _, y in self._pairs]

    @property
    def length(self) -> float:
        return float(np.sqrt(self._products[-1, -1]))

    def descent(self, out: FloatArray) -> float:
        """``-H v``, into `out`; returns its product with v."""
        k = len(self._pairs)
        factors = _two_loops(self._products, k) if k else np.array([-1.0])
        _native.combine_steps(self._vectors(), factors[:-1].tolist(), self._v, float(factors[-1]), out)
        return float(self._products[-1] @ factors)


def _two_loops(products: FloatArray, k: int) -> FloatArray:
    """Coefficients of ``-H v`` over s_0.. s_k-1, y_0.. y_k-1, v."""
    coefficients = np.zeros(2 * k + 1)
    coefficients[2 * k] = -1.0
    alphas = np.zeros(k)
    for i in reversed(range(k)):
        alphas[i] = products[i] @ coefficients / products[i, k + i]
        coefficients[k + i] -= alphas[i]
    coefficients *= products[k - 1, 2 * k - 1] / products[2 * k - 1, 2 * k - 1]
    for i in range(k):
        coefficients[i] += alphas[i] - products[k + i] @ coefficients / products[i, k + i]
    return coefficients


class Trial(NamedTuple):
    """A step, the loss there and the slope."""

    step: float
    loss: float
    slope: float


def wolfe(
    along: Callable[[float], tuple[float, float]],
    loss: float,
    slope: float,
    step: float,
    most_trials: int,
    rounding: float = 0.0,
) -> Trial | None:
    """`along(step)` gives loss and slope; returns None if no step is found; the last trial is always the last call."""
    low, high = Trial(0.0, loss, slope), None
    for _ in range(most_trials):
        trial = Trial(step, *along(step))
        if not trial.loss <= loss + rounding + _DECREASE * step * slope or (low.step > 0 and trial.loss >= low.loss):
            high = trial
        elif abs(trial.slope) <= -_CURVATURE * slope:
            return trial
        elif trial.slope * ((high.step if high else np.inf) - low.step) >= 0:
            low, high = trial, low
        else:
            low = trial
        step = 2.5 * step if high is None else _between(low, high)
    return None


def _between(low: Trial, high: Trial) -> float:
    """Minimum of the cubic through both ends, at least a tenth away from each."""
    width = high.step - low.step
    fraction = 0.5
    if np.isfinite(high.loss) and np.isfinite(high.slope):
        d1 = low.slope + high.slope - 3 * (low.loss - high.loss) / (low.step - high.step)
        inner = d1 * d1 - low.slope * high.slope
        if inner >= 0:
            d2 = np.copysign(np.sqrt(inner), width)
            bottom = high.slope - low.slope + 2 * d2
            if bottom != 0:
                fraction = 1 - (high.slope + d2 - d1) / bottom
    return low.step + width * float(np.clip(fraction, 0.1, 0.9))


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
        _restore(state, hessian, test)
    length = hessian.length
    step = 1.0 / length if length and state is None else 1.0

    def along(t: float) -> tuple[float, float]:
        """The loss after a step that is cut at the border of the orthant, and its change if that were linear."""
        size, slope = _native.step_in_orthant(x, uphill, direction, t, x_next)
        return objective.evaluate(x_next, g_next) + c1 * size, slope

    while length > 0:
        hessian.descent(direction)
        _native.keep_downhill(uphill, direction)
        loss_next = _backtrack(along, loss, step, max_linesearch, test.rounding * abs(loss))
        if loss_next is None:
            yield Iterate(x, loss, length, "no_progress")
            return
        pseudo_gradient(x_next, g_next, c1, uphill)
        hessian.update(x_next, x, g_next, g, uphill)
        x, x_next, g, g_next = x_next, x, g_next, g
        loss, length, step = loss_next, hessian.length, 1.0
        yield Iterate(x, loss, length, test.check(loss, length, x), lambda: _state_of(hessian, test))
    yield Iterate(x, loss, length, "converged")


def _backtrack(
    along: Callable[[float], tuple[float, float]], loss: float, step: float, most_trials: int, rounding: float
) -> float | None:
    """The loss of the first of shorter and shorter steps that lowers it enough."""
    for _ in range(most_trials):
        trial, slope = along(step)
        if trial <= loss + rounding + _DECREASE * slope:
            return trial
        step *= 0.5
    return None
