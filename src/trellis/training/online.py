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

from collections.abc import Callable, Iterator

import numpy as np

from trellis.arrays import Arrays
from trellis.errors import DataError
from trellis.store import Stored
from trellis.training.history import Iterate
from trellis.training.objective import (
    Confidence,
    Descent,
    MarginObjective,
    MistakeObjective,
    Order,
    PassiveAggressive,
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
    state: Stored | None = None,
) -> Iterator[Iterate]:
    """One iterate per pass over the examples; stops when the loss fell by less than `delta` over `period` passes.

    With the same seed, the rate that `first_rate` finds leads to the same weights as none. With the weights and the
    `state` of an iterate, as they were saved, the passes go on from it; so do those of the other algorithms.
    """
    random = np.random.default_rng(seed)
    sample = random.permutation(objective.examples)[:_SAMPLE]
    losses: list[float] = []
    if state is None:
        descent = Descent(start.copy(), calibrate(objective, start, sample, batch) if rate is None else rate, batch)
    else:
        descent = Descent(start.copy(), saved_rate(state), batch, int(state.array("done", np.int64, (), 0)))
        losses = state.array("losses", np.float64, (None,)).tolist()
    for order in _orders(random, objective.examples, len(losses)):
        loss = objective.descend(order, descent)
        weights = descent.fold()
        losses.append(loss)
        flat = len(losses) > period and losses[-1 - period] - loss < delta * abs(loss)

        known = {"done": np.array(descent.done), "rate": np.array(descent.rate), "losses": np.array(losses)}
        yield Iterate(weights.copy(), loss, None, "converged" if flat else None, _saved(known))


def _saved(arrays: Arrays) -> Callable[[], Arrays]:
    """The state of an iterate as it is now: Ctrl-C may come in the middle of the next pass."""
    return lambda: arrays


def saved_rate(state: Stored) -> float:
    """The rate with which a saved training by `sgd` began."""
    return float(state.array("rate", np.float64, ()))


def _orders(random: np.random.Generator, examples: int, done: int) -> Iterator[Order]:
    """The order of the examples in each pass, after those that are done."""
    for _ in range(done):
        random.permutation(examples)
    while True:
        yield random.permutation(examples)


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
    objective: MistakeObjective, start: Vector, *, epsilon: float = 0.0, seed: int = 0, state: Stored | None = None
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the share of tokens tagged wrongly, and it ends at `epsilon` or less."""
    perceptron, done = _perceptron(start, state)
    for order in _orders(np.random.default_rng(seed), objective.examples, done):
        wrong = objective.correct(order, perceptron)
        done += 1
        saved = _saved(_perceptron_state(perceptron, done))
        yield Iterate(perceptron.average(), wrong, None, "converged" if wrong <= epsilon else None, saved)


def _perceptron(start: Vector, state: Stored | None) -> tuple[Perceptron, int]:
    """The weights with their sums, and how many passes are done."""
    if state is None:
        return Perceptron(start.copy(), np.zeros_like(start)), 0
    weights, sums = (np.array(state.array(name, np.float64, start.shape)) for name in ("weights", "sums"))
    seen, passes = (int(state.array(name, np.int64, (), 0)) for name in ("seen", "passes"))
    return Perceptron(weights, sums, seen), passes


def _perceptron_state(perceptron: Perceptron, passes: int) -> Arrays:
    numbers = {"seen": np.array(perceptron.seen), "passes": np.array(passes)}
    return {"weights": perceptron.weights.copy(), "sums": perceptron.sums.copy(), **numbers}


def passive_aggressive(
    objective: MarginObjective,
    start: Vector,
    rule: PassiveAggressive,
    *,
    averaging: bool = True,
    epsilon: float = 0.0,
    seed: int = 0,
    state: Stored | None = None,
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the sum of the costs, and it ends when their mean is below `epsilon`."""
    perceptron, done = _perceptron(start, state)
    for order in _orders(np.random.default_rng(seed), objective.examples, done):
        cost = objective.passive_aggressive(order, perceptron, rule)
        done += 1
        weights = perceptron.average() if averaging else perceptron.weights.copy()
        small = cost / max(objective.examples, 1) < epsilon
        saved = _saved(_perceptron_state(perceptron, done))
        yield Iterate(weights, cost, None, "converged" if small else None, saved)


def arow(
    objective: MarginObjective,
    start: Vector,
    *,
    variance: float = 1.0,
    gamma: float = 1.0,
    epsilon: float = 0.0,
    seed: int = 0,
    state: Stored | None = None,
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the sum of the costs, and it ends when their mean is at most `epsilon`."""
    variances, done = np.full_like(start, variance), 0
    if state is not None:
        variances = np.array(state.array("variances", np.float64, start.shape))
        done = int(state.array("passes", np.int64, (), 0))
    confidence = Confidence(start.copy(), variances, gamma)
    for order in _orders(np.random.default_rng(seed), objective.examples, done):
        cost = objective.arow(order, confidence)
        done += 1
        small = cost / max(objective.examples, 1) <= epsilon
        saved = _saved({"variances": confidence.variances.copy(), "passes": np.array(done)})
        yield Iterate(confidence.weights.copy(), cost, None, "converged" if small else None, saved)
