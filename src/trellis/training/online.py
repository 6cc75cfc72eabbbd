"""Algorithms that go from example to example, in an order that is shuffled for each pass.

`sgd`: mini-batch stochastic gradient descent with L2 regularisation. The rate of step t is
``rate / (1 + rate * decay * t)`` (Bottou); `rate` is the one of several powers of two that lowers the loss of a sample
most in one pass over it.

`averaged_perceptron` (Collins 2002): decode, move the weights after each mistake, answer with their average.

`passive_aggressive` (Crammer et al. 2006) and `arow` (Crammer et al. 2009) also move the weights only after mistakes:
passive-aggressive learning just as far as the right labels need to win by a margin, AROW further for weights that it
has seldom seen. The rules are those of CRFsuite; see `native/features/online.h` for the formulas.

An objective takes the steps of a pass by itself, since moving a few thousand of a million weights after each batch of
sentences is native work. With the weights and the `state` of an iterate, as they were saved, each algorithm continues
from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trellis.arrays import Arrays, FloatArray, IntArray
from trellis.errors import DataError
from trellis.store import Stored
from trellis.training.history import Iterate
from trellis.training.lbfgs import Objective

_SAMPLE, _TRIALS = 1000, 12


@dataclass(slots=True)
class Descent:
    """The state of stochastic descent: the true weights are ``scale * weights``."""

    weights: FloatArray
    rate: float
    batch: int
    done: int = 0
    scale: float = 1.0

    def fold(self) -> FloatArray:
        """The true weights; the state now has them with scale 1."""
        self.weights *= self.scale
        self.scale = 1.0
        return self.weights


class StochasticObjective(Objective, Protocol):
    """An objective that is a sum over examples, and can step down by a few at a time."""

    @property
    def examples(self) -> int:
        """The number of examples."""

    def descend(self, order: IntArray, descent: Descent) -> float:
        """One pass over these examples; returns the sum of their losses, each taken before its step."""

    def loss_of(self, order: IntArray, weights: FloatArray) -> float:
        """The mean loss of these examples, with their share of the regularisation."""


@dataclass(slots=True)
class Perceptron:
    """The state of the averaged perceptron: the average is ``weights - sums / (seen + 1)``."""

    weights: FloatArray
    sums: FloatArray
    seen: int = 0

    @classmethod
    def begin(cls, start: FloatArray, state: Stored | None) -> tuple[Perceptron, int]:
        """The perceptron at its start, or as it was saved, and the number of passes that are done."""
        if state is None:
            return cls(start.copy(), np.zeros_like(start)), 0
        weights, sums = (np.array(state.array(name, np.float64, start.shape)) for name in ("weights", "sums"))
        seen, passes = (int(state.array(name, np.int64, (), 0)) for name in ("seen", "passes"))
        return cls(weights, sums, seen), passes

    def average(self) -> FloatArray:
        """Mean of the weights at first and after each example seen."""
        return self.weights - self.sums / (self.seen + 1)

    def saved(self, passes: int) -> Callable[[], Arrays]:
        """The state from which `begin` continues."""
        counts = {"seen": np.array(self.seen), "passes": np.array(passes)}
        return _saved({"weights": self.weights.copy(), "sums": self.sums.copy(), **counts})


@dataclass(frozen=True, slots=True)
class PassiveAggressive:
    """How far passive-aggressive learning goes: `type` 0 without slack, 1 and 2 with `c`; cost by number of errors."""

    type: int
    c: float
    by_errors: bool


@dataclass(slots=True)
class Confidence:
    """The state of AROW: weights, and how much each may still change."""

    weights: FloatArray
    variances: FloatArray
    gamma: float


class MistakeObjective(Protocol):
    """An objective that can decode its examples and move its weights after each mistake."""

    @property
    def examples(self) -> int:
        """The number of examples."""

    def correct(self, order: IntArray, state: Perceptron) -> float:
        """One pass of the perceptron over these examples; returns the share of tokens that were tagged wrongly."""

    def passive_aggressive(self, order: IntArray, state: Perceptron, rule: PassiveAggressive) -> float:
        """One passive-aggressive pass over these examples; returns the sum of their costs."""

    def arow(self, order: IntArray, state: Confidence) -> float:
        """One pass of AROW over these examples; returns the sum of their costs."""


def sgd(
    objective: StochasticObjective,
    start: FloatArray,
    *,
    batch: int = 8,
    rate: float | None = None,
    period: int = 5,
    delta: float = 1e-3,
    seed: int = 0,
    state: Stored | None = None,
) -> Iterator[Iterate]:
    """One iterate per pass over the examples; stops when the loss fell by less than `delta` over `period` passes.

    The state of an iterate says with which `rate` the first step was taken: the same one leads to the same weights.
    """
    random = np.random.default_rng(seed)
    sample = random.permutation(objective.examples)[:_SAMPLE]
    done = 0
    losses: list[float] = []
    if state is not None:
        rate, done = float(state.array("rate", np.float64, ())), int(state.array("done", np.int64, (), 0))
        losses = state.array("losses", np.float64, (None,)).tolist()
    elif rate is None:
        rate = calibrate(objective, start, sample, batch)
    descent = Descent(start.copy(), rate, batch, done)
    for order in _orders(random, objective.examples, len(losses)):
        loss = objective.descend(order, descent)
        weights = descent.fold()
        losses.append(loss)
        flat = len(losses) > period and losses[-1 - period] - loss < delta * abs(loss)
        saved = {"done": np.array(descent.done), "rate": np.array(descent.rate), "losses": np.array(losses)}
        yield Iterate(weights.copy(), loss, None, "converged" if flat else None, _saved(saved))


def _saved(arrays: Arrays) -> Callable[[], Arrays]:
    """The state of an iterate as it is now: Ctrl-C may come in the middle of the next pass."""
    return lambda: arrays


def _orders(random: np.random.Generator, examples: int, done: int) -> Iterator[IntArray]:
    """The order of the examples in each pass, after those that are done."""
    for _ in range(done):
        random.permutation(examples)
    while True:
        yield random.permutation(examples)


def calibrate(objective: StochasticObjective, start: FloatArray, sample: IntArray, batch: int) -> float:
    """Double or halve the rate while that makes one pass over the sample end lower."""

    def loss_after(rate: float) -> float:
        """The loss after the pass; infinite if its steps are so long that the scores overflow."""
        descent = Descent(start.copy(), rate, batch)
        try:
            with np.errstate(all="ignore"):
                objective.descend(sample, descent)
                loss = objective.loss_of(sample, descent.fold())
        except DataError:
            return np.inf
        return loss if np.isfinite(loss) else np.inf

    best, rate = loss_after(1.0), 1.0
    factor = 2.0 if np.isfinite(best) else 0.5
    for _ in range(_TRIALS):
        trial = loss_after(rate * factor)
        if trial < best or np.isinf(best):
            best, rate = trial, rate * factor
        elif factor > 1 and rate == 1.0:
            factor = 0.5
        else:
            break
    return rate


def averaged_perceptron(
    objective: MistakeObjective, start: FloatArray, *, seed: int = 0, state: Stored | None = None
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the share of tokens tagged wrongly, and it ends when there are none."""
    perceptron, done = Perceptron.begin(start, state)
    for order in _orders(np.random.default_rng(seed), objective.examples, done):
        wrong = objective.correct(order, perceptron)
        done += 1
        yield Iterate(perceptron.average(), wrong, None, "converged" if wrong <= 0.0 else None, perceptron.saved(done))


def passive_aggressive(
    objective: MistakeObjective,
    start: FloatArray,
    rule: PassiveAggressive,
    *,
    averaging: bool = True,
    seed: int = 0,
    state: Stored | None = None,
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the sum of the costs."""
    perceptron, done = Perceptron.begin(start, state)
    for order in _orders(np.random.default_rng(seed), objective.examples, done):
        cost = objective.passive_aggressive(order, perceptron, rule)
        done += 1
        weights = perceptron.average() if averaging else perceptron.weights.copy()
        yield Iterate(weights, cost, None, None, perceptron.saved(done))


def arow(
    objective: MistakeObjective,
    start: FloatArray,
    *,
    variance: float = 1.0,
    gamma: float = 1.0,
    seed: int = 0,
    state: Stored | None = None,
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the sum of the costs, and it ends when there are none."""
    variances, done = np.full_like(start, variance), 0
    if state is not None:
        variances = np.array(state.array("variances", np.float64, start.shape))
        done = int(state.array("passes", np.int64, (), 0))
    confidence = Confidence(start.copy(), variances, gamma)
    for order in _orders(np.random.default_rng(seed), objective.examples, done):
        cost = objective.arow(order, confidence)
        done += 1
        saved = _saved({"variances": confidence.variances.copy(), "passes": np.array(done)})
        yield Iterate(confidence.weights.copy(), cost, None, "converged" if cost <= 0.0 else None, saved)
