"""What a trainer knows about what it trains: numbers in, numbers out.

An `Objective` gives a loss and its gradient; the more able kinds also take steps by themselves, since moving a few
thousand of a million weights after each batch of sentences is native work. No trainer ever sees a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trellis.arrays import FloatArray, IntArray

Vector = FloatArray
Order = IntArray


class Objective(Protocol):
    """A function of `size` weights to be made small."""

    @property
    def size(self) -> int:
        """How many weights."""

    def evaluate(self, weights: Vector, gradient: Vector) -> float:
        """The loss; its gradient is written to `gradient`."""


@dataclass(slots=True)
class Descent:
    """The state of stochastic descent: the true weights are ``scale * weights``."""

    weights: Vector
    rate: float
    batch: int
    done: int = 0
    scale: float = 1.0

    def fold(self) -> Vector:
        """The true weights; the state now has them with scale 1."""
        self.weights *= self.scale
        self.scale = 1.0
        return self.weights


class StochasticObjective(Objective, Protocol):
    """An objective that is a sum over examples, and can step down by a few at a time."""

    @property
    def examples(self) -> int:
        """How many."""

    def descend(self, order: Order, descent: Descent) -> float:
        """One pass over these examples; returns the sum of their losses, each taken before its step."""

    def loss_of(self, order: Order, weights: Vector) -> float:
        """The mean loss of these examples, with their share of the regularisation."""


@dataclass(slots=True)
class Perceptron:
    """The state of the averaged perceptron: the average is ``weights - sums / (seen + 1)``."""

    weights: Vector
    sums: Vector
    seen: int = 0

    def average(self) -> Vector:
        """Mean of the weights at first and after each example seen."""
        return self.weights - self.sums / (self.seen + 1)


class MistakeObjective(Protocol):
    """An objective that can decode its examples and move its weights after each mistake."""

    @property
    def size(self) -> int:
        """How many weights."""

    @property
    def examples(self) -> int:
        """How many examples."""

    def correct(self, order: Order, state: Perceptron) -> float:
        """One pass over these examples; returns the share of tokens that were tagged wrongly."""


@dataclass(frozen=True, slots=True)
class PassiveAggressive:
    """How far passive-aggressive learning goes: `type` 0 without slack, 1 and 2 with `c`; cost by number of errors."""

    type: int
    c: float
    by_errors: bool


@dataclass(slots=True)
class Confidence:
    """The state of AROW: weights, and how much each may still change."""

    weights: Vector
    variances: Vector
    gamma: float


class MarginObjective(Protocol):
    """An objective that can decode its examples and move its weights so that the right labels win by a margin."""

    @property
    def examples(self) -> int:
        """How many examples."""

    def passive_aggressive(self, order: Order, state: Perceptron, rule: PassiveAggressive) -> float:
        """One passive-aggressive pass over these examples; returns the sum of their costs."""

    def arow(self, order: Order, state: Confidence) -> float:
        """One pass of AROW over these examples; returns the sum of their costs."""
