"""The feature CRF as a training problem: which weights there are, what they start from, and their objective.

    sum over sentences of weight * (log Z - score of the labels)  +  c2 |w|^2            (+ c1 |w|_1 in OWL-QN)

Weights belong to pairs (attribute, label) and to transitions that occur in the data, as in CRFsuite; there are none
for the first and the last label, since templates see the sentence's edges and CRFsuite has none either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trellis import _native, chain
from trellis.arrays import BoolArray, IntArray
from trellis.caching import cached
from trellis.errors import DataError, ModelError, NoPathError
from trellis.features import AttributeIndex, Compiled
from trellis.models.data import Labelled, name_of
from trellis.ragged import check_lengths
from trellis.tags import TagStates
from trellis.training import Descent, Perceptron
from trellis.training.hessian import add_decay, dot
from trellis.training.objective import Aggression, Confidence, Vector


@dataclass(frozen=True, eq=False)
class CRFWeights:
    """What a CRF learned: weights of pairs (attribute, label), attribute by attribute, and of transitions."""

    index: AttributeIndex
    ends: IntArray  # [A] where the pairs of an attribute end
    labels: npt.NDArray[np.uint16]  # [pairs]
    weights: Vector  # [pairs]
    transitions: Vector  # [L, L]; minus infinity is forbidden
    weighted: BoolArray  # [L, L] which transitions have a weight; the others score 0
    start: Vector  # [L] 0, or minus infinity if no sentence may begin so
    end: Vector  # [L]

    @cached
    def ready(self) -> _native.Weights:
        """The weights of pairs as scoring looks them up; made when first asked for."""
        return _native.Weights(self.ends, self.labels, self.weights, len(self.start))

    @property
    def owners(self) -> IntArray:
        """The attribute of each pair."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))

    def pruned(self) -> CRFWeights:
        """Without weights that are exactly zero, and without attributes that have no other."""
        kept = self.weights != 0.0
        if kept.all() and (np.diff(self.ends, prepend=0) > 0).all():
            return self
        counts = np.bincount(self.owners[kept], minlength=len(self.ends))
        alive = np.flatnonzero(counts)
        index = AttributeIndex(self.index.native.select(alive))
        return CRFWeights(
            index,
            np.cumsum(counts[alive]),
            self.labels[kept],
            self.weights[kept],
            self.transitions,
            self.weighted,
            self.start,
            self.end,
        )


def scores_of(compiled: Compiled, p: CRFWeights) -> chain.ChainScores:
    """The scores of compiled sentences."""
    emissions = np.empty((compiled.tokens, len(p.start)))
    _native.score_dataset(compiled, p.ready, emissions)
    lengths = check_lengths(np.diff(compiled.offsets))
    return chain.ChainScores(emissions, lengths, p.transitions, p.start, p.end)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which features get a weight."""

    min_freq: float
    all_states: bool
    all_transitions: bool
    transitions: bool
    constraints: bool


class CRFObjective:
    """The loss of a corpus as a function of the weights; stands on the native objective."""

    def __init__(
        self,
        data: Compiled,
        index: AttributeIndex,
        labelled: Labelled,
        states: TagStates,
        choice: Choice,
        *,
        c2: float = 0.0,
        sentence_weights: Vector | None = None,
        token_weights: Vector | None = None,
        single: bool = False,
    ) -> None:
        self.data, self.index, self.states, self.c2 = data, index, states, c2
        self._labelled, self._weighted_tokens = labelled, token_weights is not None
        _check_tokens(data, labelled)
        ids = None if labelled.partial else labelled.encode_states(states)
        allowed = labelled.allowed_states(states) if labelled.partial else None
        mask = None if allowed is None else allowed.view(np.uint8)
        L = len(states)
        self.native = _native.Objective(data, len(index), L, ids, mask, sentence_weights, token_weights, single)
        self.native.choose_states(choice.min_freq, choice.all_states)
        self.table = self._steps(choice, step_counts(ids, allowed, labelled.lengths, L))
        limits = states.allowed_transitions()
        self.start = limits.start if choice.constraints else np.ones(L, dtype=np.bool_)
        self.end = limits.end if choice.constraints else np.ones(L, dtype=np.bool_)
        self.native.set_transitions(self.table, self.start.view(np.uint8), self.end.view(np.uint8))

    def _steps(self, choice: Choice, counts: Vector) -> npt.NDArray[np.uint8]:
        """For each transition 2 with a weight, 1 without, 0 forbidden."""
        legal = (
            self.states.allowed_transitions().transitions if choice.constraints else np.ones_like(counts, dtype=bool)
        )
        occurs = np.ones_like(legal) if choice.all_transitions else (counts > 0) & (counts >= choice.min_freq)
        return (legal * (1 + (occurs & choice.transitions))).astype(np.uint8)

    @property
    def size(self) -> int:
        """How many weights."""
        return self.native.size

    @property
    def examples(self) -> int:
        """How many sentences."""
        return self.data.sentences

    def require_equal_tokens(self, algorithm: str) -> None:
        """If labels are only right or wrong, tokens cannot count more or less."""
        if self._weighted_tokens:
            raise ModelError(f"{algorithm} cannot train with label_weights: use lbfgs, owlqn or sgd")

    def evaluate(self, weights: Vector, gradient: Vector) -> float:
        """Loss with its L2 term, and the gradient of both."""
        loss = self._checked(self.native.evaluate(weights, gradient))
        if self.c2:
            loss += self.c2 * add_decay(weights, 2.0 * self.c2, gradient)
        return loss

    def descend(self, order: IntArray, descent: Descent) -> float:
        """One pass of mini-batch descent; the loss is the mean over the sentences, L2 included, times their number."""
        decay = 2.0 * self.c2 / self.examples
        before = float(descent.scale**2 * dot(descent.weights, descent.weights))
        result, descent.done, descent.scale = self.native.descend(
            order, descent.weights, descent.rate, decay, descent.batch, descent.done, descent.scale
        )
        return self._checked(result) + self.c2 * before * len(order) / self.examples

    def loss_of(self, order: IntArray, weights: Vector) -> float:
        """Mean loss of these sentences: a pass of descent that takes no steps."""
        result, _, _ = self.native.descend(order, weights.copy(), 0.0, 0.0, 64, 0, 1.0)
        return self._checked(result) / len(order) + self.c2 * dot(weights, weights) / self.examples

    def correct(self, order: IntArray, state: Perceptron) -> float:
        """One pass of the perceptron; the share of tokens tagged wrongly."""
        state.seen, mistakes = self.native.perceptron(order, state.weights, state.sums, state.seen)
        return mistakes / max(self.data.tokens, 1)

    def be_aggressive(self, order: IntArray, state: Perceptron, rule: Aggression) -> float:
        """One passive-aggressive pass; the sum of the costs."""
        state.seen, cost = self.native.passive_aggressive(
            order, state.weights, state.sums, state.seen, rule.type, rule.c, rule.by_errors
        )
        return cost

    def adapt(self, order: IntArray, state: Confidence) -> float:
        """One pass of AROW; the sum of the costs."""
        return self.native.arow(order, state.weights, state.variances, state.gamma)

    def parameters(self, weights: Vector) -> CRFWeights:
        """The weights by name."""
        ends, labels = self.native.states()
        weighted = self.table == 2
        transitions = np.where(self.table > 0, 0.0, -np.inf)
        transitions[weighted] = weights[len(labels) :]
        start, end = (np.where(mask, 0.0, -np.inf) for mask in (self.start, self.end))
        return CRFWeights(self.index, ends, labels, weights[: len(labels)].copy(), transitions, weighted, start, end)

    def take_over(self, old: CRFWeights, old_states: TagStates) -> Vector:
        """The weights of an earlier model by name: its state features are added to those chosen here."""
        L = len(self.states)
        label_ids = np.arange(len(old_states))  # those of the earlier model come first
        old_keys = old.owners * L + label_ids[old.labels]  # attributes keep their numbers
        ends, labels = self.native.states()
        own_keys = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0)) * L + labels
        keys = np.union1d(own_keys, old_keys)
        counts = np.bincount(keys // L, minlength=len(self.index))
        self.native.set_states(np.cumsum(counts), (keys % L).astype(np.uint16))
        self.table[np.ix_(label_ids, label_ids)] |= np.where(old.weighted, 2, 0).astype(np.uint8) & (
            2 * (self.table[np.ix_(label_ids, label_ids)] > 0).astype(np.uint8)
        )
        self.table[self.table == 3] = 2
        self.native.set_transitions(self.table, self.start.view(np.uint8), self.end.view(np.uint8))
        weights = np.zeros(self.size)
        weights[np.searchsorted(keys, old_keys)] = old.weights
        transitions = np.zeros((L, L))
        transitions[np.ix_(label_ids, label_ids)] = np.where(old.weighted, old.transitions, 0.0)
        weights[len(keys) :] = transitions[self.table == 2]
        return weights

    def _checked(self, result: tuple[int, int, float]) -> float:
        status, sentence, loss = result
        if status == 0:
            return loss
        name = name_of(sentence, self._labelled.inputs[sentence])
        if status in (3, 5):
            raise NoPathError(
                f"{name}: its labels break the {self.states.tags.scheme.value} scheme, so they are impossible"
            )
        raise DataError(f"{name}: the scores overflow; feature values or weights are too large")


def _check_tokens(data: Compiled, labelled: Labelled) -> None:
    """Kernels walk labels and features side by side: an input whose `len` is not what it holds must not get there."""
    found, expected = np.diff(data.offsets), labelled.lengths
    if not np.array_equal(found, expected):
        i = int(np.flatnonzero(found != expected)[0])
        name = name_of(i, labelled.inputs[i])
        raise DataError(f"{name} contains {found[i]} tokens but its length is {expected[i]}: expected the same number")


def step_counts(ids: IntArray | None, allowed: BoolArray | None, lengths: IntArray, L: int) -> Vector:
    """How often each pair of neighbouring labels occurs; if labels are partly known, each possible pair."""
    inner = np.ones(int(lengths.sum()), dtype=np.bool_)  # tokens that have one before them in their sentence
    ends = np.cumsum(lengths)
    inner[(ends - lengths)[lengths > 0]] = False
    after = np.flatnonzero(inner)
    if ids is not None:
        return np.bincount(ids[after - 1] * L + ids[after], minlength=L * L).reshape(L, L).astype(np.float64)
    assert allowed is not None
    known = allowed & ~allowed.all(axis=1, keepdims=True)
    return known[after - 1].T.astype(np.float64) @ known[after].astype(np.float64)
