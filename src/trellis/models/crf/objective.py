"""The loss of a feature CRF as a function of its weights.

    sum over sentences of weight * (log Z - score of the labels)  +  c2 |w|^2            (+ c1 |w|_1 in OWL-QN)

Weights belong to pairs (attribute, label) and to transitions that occur in the data, as in CRFsuite, and to triples
(attribute of a step, label before, label) that do; there are none for the first and the last label, since templates see
the sentence's edges and CRFsuite has none either.

With order 1 the states of the chain are the labels, and a transition may have a weight. With order 2 the states are
histories (docs/decisions/0006-order-2.md): the step from state s to label c scores the weight of the two labels, and
that of the three if s is a pair with its own state and the three were seen in a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.errors import DataError, ModelError, NoPathError
from trellis.features import AttributeIndex, Compiled, Extractor
from trellis.models.crf.model import AttributeWeights, CRFWeights, HistoryWeights, Observed, owners_of
from trellis.models.data import Labelled, check_tokens, history_states, labels_of_histories, most_common_pairs
from trellis.ragged import ranges
from trellis.tags import StateMap
from trellis.training import Descent, Perceptron
from trellis.training.objective import Confidence, PassiveAggressive, Vector
from trellis.training.process_group import SINGLE, ProcessGroup

_MOST_LABELS = 256  # a pair of them is a 16-bit number
_BLOCK = 4096  # tokens
PairTable = tuple[IntArray, npt.NDArray[np.uint16]]
"""Where the labels of an attribute end, and the labels."""
CountedPairs = tuple[IntArray, npt.NDArray[np.uint16], FloatArray]
"""The same, and how often an attribute occurs with a label."""


@dataclass(frozen=True, slots=True)
class FeatureSelection:
    """Which features get a weight: those that occur, often enough, unless all are asked for."""

    min_freq: float
    all_states: bool
    all_transitions: bool
    transitions: bool
    constraints: bool
    all_edges: bool = False
    pairs: int | None = None
    """With order 2: at most this many pairs of labels have their own state."""


class FirstUses(NamedTuple):
    """Where attributes are used first: a group of templates, and in it a sentence, by its place among all."""

    groups: IntArray
    sentences: IntArray


def observe(
    group: ProcessGroup, extractor: Extractor, inputs: Sequence[Any], index: AttributeIndex, edges: AttributeIndex
) -> tuple[Observed, AttributeIndex, AttributeIndex]:
    """The sentences as attributes of tokens and of steps, and the indexes of these, which grow.

    Sentence i of process r counts as sentence ``i * processes + r``, as `ProcessGroup.share` deals them out.
    """
    known = len(index), len(edges)
    observed = Observed.of(extractor, inputs, index, edges, grow=True)
    if group.count == 1:
        return observed, index, edges

    def uses(data: Compiled, index: AttributeIndex, known: int) -> FirstUses:
        groups, sentences = (array[known:] for array in data.first_uses(len(index)))
        return FirstUses(groups, sentences * group.count + group.rank)

    index, _ = joined_index(group, index, uses(observed.tokens, index, known[0]), known[0])
    if observed.steps is not None:
        edges, _ = joined_index(group, edges, uses(observed.steps, edges, known[1]), known[1])
    del observed  # before it is made again, with the numbers that all processes share
    return Observed.of(extractor, inputs, index, edges), index, edges


def joined_index(
    group: ProcessGroup, index: AttributeIndex, uses: FirstUses, known: int
) -> tuple[AttributeIndex, IntArray]:
    """The attributes of all processes in the order of their first use, after the `known` first of the index.

    Also the numbers that the further attributes of this process have now. They are those that one process would give
    in the whole corpus, so that a training can be resumed with any number of processes.
    """
    gathered = group.gather((index.arrays() if group.count > 1 else {}, uses))
    indexes = [index if rank == group.rank else index.like(arrays) for rank, (arrays, _) in enumerate(gathered)]
    counts = [len(found.groups) for _, found in gathered]
    ranks = np.repeat(np.arange(len(counts)), counts)
    attributes = known + np.concatenate([np.arange(count) for count in counts])
    groups, sentences = (np.concatenate(parts) for parts in zip(*(found for _, found in gathered), strict=True))
    order = np.lexsort((attributes, ranks, sentences, groups))
    joined = index.select(np.arange(known))
    found = joined.native.take([one.native for one in indexes], ranks[order], attributes[order])
    numbers, here = np.empty(len(index) - known, dtype=np.int64), ranks[order] == group.rank
    numbers[attributes[order][here] - known] = found[here]
    return joined, numbers


def sum_by_key(keys: Sequence[IntArray], values: Sequence[FloatArray]) -> tuple[IntArray, FloatArray]:
    """The different keys of all arrays, in rising order, and the sum of the values of each."""
    unique, places = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(unique))
    np.add.at(sums, places, np.concatenate(values))
    return unique, sums


def frequent_pairs(group: ProcessGroup, keys: IntArray, counts: FloatArray, min_freq: float) -> IntArray:
    """The pairs, each one number, that occur in any process, and often enough in all of them together."""
    if group.count > 1:
        keys, counts = sum_by_key(*zip(*group.gather((keys, counts)), strict=True))
    return keys[(counts > 0) & (counts >= min_freq)]


def pair_table(keys: IntArray, width: int, attributes: int) -> PairTable:
    """Pairs in order, each ``attribute * width + label``, as a table."""
    counts = np.bincount(keys // width, minlength=attributes)
    return np.cumsum(counts), (keys % width).astype(np.uint16)


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """What may follow a label, and what has a weight."""

    legal: BoolArray  # [L, L]
    start: BoolArray  # [L]
    end: BoolArray  # [L]
    weighted: BoolArray  # [L, L]
    pairs: IntArray | None = None  # [P, 2] with order 2: those that have their own state
    after: BoolArray | None = None  # [P, L] which labels after a pair have a weight

    @property
    def num_labels(self) -> int:
        """L."""
        return len(self.legal)

    @property
    def labels(self) -> IntArray:
        """``(S,)`` the label of each state."""
        return np.arange(self.num_labels) if self.pairs is None else labels_of_histories(self.pairs, self.num_labels)

    def chain_tags(self, ids: IntArray, lengths: IntArray) -> IntArray:
        """The states of flat labels."""
        assert self.pairs is not None
        states, first = history_states(self.pairs, self.num_labels), np.cumsum(lengths) - lengths
        before = np.concatenate([[-1], ids[:-1]])
        found: IntArray = states[before, ids]
        found[first[lengths > 0]] = ids[first[lengths > 0]]
        return found

    def native(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Which transitions (S, S), first and last states (S,) are possible."""
        labels, L = self.labels, self.num_labels
        legal = np.zeros((len(labels), len(labels)), dtype=np.uint8)
        legal[np.arange(len(labels))[:, None], self._next] = self.legal[labels]
        start = np.concatenate([self.start, np.zeros(len(labels) - L, dtype=np.bool_)])
        return legal, start.view(np.uint8), self.end[labels].view(np.uint8)

    def cells(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
        """The transitions that have weights, as from * S + to, the numbers of those, and how many weights there are."""
        labels, L, two = self.labels, self.num_labels, int(self.weighted.sum())
        numbers = np.full((L, L), -1)
        numbers[self.weighted] = np.arange(two)
        cells = np.arange(len(labels))[:, None] * len(labels) + self._next  # [S, L]
        has = self.weighted[labels]
        found, owners, count = [cells[has]], [numbers[labels][has]], two
        if self.after is not None:
            found.append(cells[L:][self.after])
            owners.append(two + np.arange(int(self.after.sum())))
            count += int(self.after.sum())
        return np.concatenate(found).astype(np.int32), np.concatenate(owners).astype(np.int32), count

    def split(self, weights: Vector) -> tuple[Vector, HistoryWeights | None]:
        """Weights by number as transitions (L, L), minus infinity where forbidden, and as those of histories."""
        two = int(self.weighted.sum())
        transitions = np.where(self.legal, 0.0, -np.inf)
        transitions[self.weighted] = weights[:two]
        if self.pairs is None or self.after is None:
            return transitions, None
        rows = np.zeros(self.after.shape)
        rows[self.after] = weights[two:]
        return transitions, HistoryWeights(self.pairs, rows, self.after)

    def joined(self, weighted: BoolArray, histories: HistoryWeights | None) -> Transitions:
        """With the weights that an earlier model has, whose labels are the first of these."""
        known = np.zeros_like(self.weighted)
        known[: len(weighted), : len(weighted)] = weighted
        steps = replace(self, weighted=self.weighted | (known & self.legal))
        if self.pairs is None or self.after is None or histories is None:
            return steps
        pairs = np.unique(np.vstack([self.pairs, histories.pairs]), axis=0)
        after = np.zeros((len(pairs), self.num_labels), dtype=np.bool_)
        after[_places(pairs, self.pairs)] |= self.after
        after[_places(pairs, histories.pairs), : len(weighted)] |= histories.weighted
        return replace(steps, pairs=pairs, after=after & self.legal[pairs[:, 1]])

    def weights_of(self, transitions: Vector, weighted: BoolArray, histories: HistoryWeights | None) -> Vector:
        """The weights of an earlier model by number; those that it does not have are zero."""
        L, old = self.num_labels, len(transitions)
        two = np.zeros((L, L))
        two[:old, :old] = np.where(weighted, transitions, 0.0)
        if self.pairs is None or self.after is None:
            return two[self.weighted]
        three = np.zeros(self.after.shape)
        if histories is not None:
            three[_places(self.pairs, histories.pairs), :old] = histories.rows
        return np.concatenate([two[self.weighted], three[self.after]])

    @property
    def _next(self) -> IntArray:
        """``(S, L)`` the state that a state and the next label lead to."""
        labels, L = self.labels, self.num_labels
        if self.pairs is None:
            return np.tile(np.arange(L), (L, 1))
        found: IntArray = history_states(self.pairs, L)[labels]
        return found


def _places(pairs: IntArray, of: IntArray) -> IntArray:
    """Where pairs stand among others in order."""
    base = int(pairs.max(initial=0)) + 1
    return np.searchsorted(pairs[:, 0] * base + pairs[:, 1], of[:, 0] * base + of[:, 1])


class LabelCounts(Protocol):
    """The labels of a corpus, counted."""

    def pairs(self) -> Vector:
        """How often each pair of neighbouring labels occurs."""

    def after(self, pairs: IntArray) -> Vector:
        """``(P, L)`` how often each label follows each of these pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class FlatLabels:
    """The labels of a corpus: their ids (N,), or, where some are partly known, which are `allowed` (N, L)."""

    ids: IntArray | None
    allowed: BoolArray | None
    lengths: IntArray
    num_labels: int

    def pairs(self) -> Vector:
        """How often each pair of neighbouring labels occurs; if labels are partly known, each possible pair."""
        L, later = self.num_labels, self._later(1)
        if self.ids is not None:
            codes = self.ids[later - 1] * L + self.ids[later]
            return np.bincount(codes, minlength=L * L).reshape(L, L).astype(np.float64)
        known = self._known()
        return known[later - 1].T @ known[later]

    def after(self, pairs: IntArray) -> Vector:
        """``(P, L)`` how often each label follows each of these pairs."""
        L, later = self.num_labels, self._later(2)
        if self.ids is not None:
            state = history_states(pairs, L)[self.ids[later - 2], self.ids[later - 1]] - L
            codes = state[state >= 0] * L + self.ids[later[state >= 0]]
            return np.bincount(codes, minlength=len(pairs) * L).reshape(-1, L).astype(np.float64)
        known, counts = self._known(), np.zeros((len(pairs), L))
        for start in range(0, len(later), _BLOCK):
            here = later[start : start + _BLOCK]
            before = known[here - 2][:, pairs[:, 0]] * known[here - 1][:, pairs[:, 1]]  # [tokens, P]
            counts += before.T @ known[here]
        return counts

    def _known(self) -> Vector:
        """``(N, L)`` the labels that a token may have; none if nothing is known about it."""
        assert self.allowed is not None
        return (self.allowed & ~self.allowed.all(axis=1, keepdims=True)).astype(np.float64)

    def _later(self, steps: int) -> IntArray:
        """The tokens that have this many before them in their sentence."""
        return np.flatnonzero(ranges(0, self.lengths) >= steps)


def select_transitions(
    selection: FeatureSelection, states: StateMap, labels: LabelCounts, group: ProcessGroup = SINGLE
) -> Transitions:
    """The transitions that are possible, and those that have a weight, given what all processes have seen."""
    L, limits = len(states), states.allowed_transitions()
    counts = group.add(labels.pairs())
    legal, start, end = limits.transitions, limits.start, limits.end
    if not selection.constraints:
        legal, start, end = (np.ones_like(mask) for mask in (legal, start, end))

    def weighted(counts: Vector, legal: BoolArray) -> BoolArray:
        occurs = np.ones_like(legal) if selection.all_transitions else (counts > 0) & (counts >= selection.min_freq)
        return legal & occurs & selection.transitions

    steps = Transitions(legal, start, end, weighted(counts, legal))
    if selection.pairs is None:
        return steps
    pairs = most_common_pairs(np.where(legal, counts, 0.0), selection.pairs).reshape(-1, 2)
    after = weighted(group.add(labels.after(pairs)), legal[pairs[:, 1]]).reshape(len(pairs), L)
    return Transitions(legal, start, end, steps.weighted, pairs, after)


class FeatureObjective(ABC):
    """Which features have weights, and the loss as a function of these; a subclass has the sentences."""

    native: _native.Objective
    transitions: Transitions
    index: AttributeIndex
    edge_index: AttributeIndex
    states: StateMap
    steps: Compiled | None = None
    """The features of steps, if there are such."""
    c2: float
    _group: ProcessGroup

    @property
    def size(self) -> int:
        """How many weights."""
        return self.native.size

    @abstractmethod
    def shard_loss(self, weights: Vector, gradient: Vector) -> float:
        """Loss of the sentences of this process, without the L2 term; its gradient is written."""

    @abstractmethod
    def finalize(self) -> None:
        """Once all weights are chosen: make ready what `shard_loss` needs, and free the rest."""

    def _set_transitions(self, transitions: Transitions) -> None:
        """From here on these transitions are possible and have weights."""
        self.transitions = transitions
        if transitions.pairs is not None:
            self.native.set_chain(transitions.labels.astype(np.uint16), self._histories(transitions))
        self.native.set_transitions(*transitions.native(), *transitions.cells())

    def _histories(self, transitions: Transitions) -> IntArray | None:
        """With order 2: the states of all tokens, if their labels are known and in memory."""
        return None

    def evaluate(self, weights: Vector, gradient: Vector) -> float:
        """Loss of the sentences of all processes with its L2 term, and the gradient of both."""
        loss = self._group.sum(self.shard_loss, weights, gradient)
        if self.c2:
            loss += self.c2 * _native.add_decay(weights, 2.0 * self.c2, gradient)
        return loss

    def parameters(self, weights: Vector) -> CRFWeights:
        """The weights by name."""
        chain = self.transitions
        ends, labels = self.native.states()
        state, step, edge = np.split(weights, [len(labels), len(labels) + chain.cells()[2]])
        transitions, histories = chain.split(step)
        start, end = (np.where(mask, 0.0, -np.inf) for mask in (chain.start, chain.end))
        L, edges = len(self.states), None
        if self.steps is not None:
            edges = AttributeWeights(self.edge_index, *self.native.edges(), edge.copy(), L * L)
        return CRFWeights(
            self.index, ends, labels, state.copy(), L, transitions, chain.weighted, start, end, edges, histories
        )

    def weights_of(self, old: CRFWeights, old_states: StateMap) -> Vector:
        """The weights of an earlier model, whose features are added to those selected here; new weights are zero."""
        L = len(self.states)  # the labels of the earlier model come first, with the same numbers
        table, states = _joined(self.native.states(), old, old.labels.astype(np.int64), L)
        self.native.set_states(*table)
        self._set_transitions(self.transitions.joined(old.weighted, old.histories))
        found = [states, self.transitions.weights_of(old.transitions, old.weighted, old.histories)]
        if self.steps is not None and old.edges is not None:
            pairs = np.ravel_multi_index(np.divmod(old.edges.labels, len(old_states)), (L, L))
            table, edges = _joined(self.native.edges(), old.edges, pairs, L * L)
            self.native.set_edges(self.steps, *table)
            found.append(edges)
        return np.concatenate(found)

    def _checked(self, result: tuple[int, int, float], name: Callable[[int], str]) -> float:
        """The loss, unless a sentence has none; `name` is how messages call a sentence."""
        status, sentence, loss = result
        if status == 0:
            return loss
        if status in (3, 5):
            scheme = self.states.tags.scheme.value
            raise NoPathError(f"{name(sentence)}: its labels break the {scheme} scheme, so they are impossible")
        raise DataError(f"{name(sentence)}: the scores overflow; feature values or weights are too large")


def _joined(pairs: PairTable, old: AttributeWeights, old_labels: IntArray, width: int) -> tuple[PairTable, Vector]:
    """The pairs with those of an earlier model, and the weights that it gives them; attributes keep their numbers."""
    ends, labels = pairs
    old_keys = old.owners * width + old_labels
    keys = np.union1d(owners_of(ends) * width + labels, old_keys)
    weights = np.zeros(len(keys))
    weights[np.searchsorted(keys, old_keys)] = old.weights
    return pair_table(keys, width, len(ends)), weights


@final
class CRFObjective(FeatureObjective):
    """The loss of sentences in memory; stands on the native objective."""

    def __init__(
        self,
        observed: Observed,
        index: AttributeIndex,
        labelled: Labelled,
        states: StateMap,
        selection: FeatureSelection,
        *,
        edge_index: AttributeIndex | None = None,
        c2: float = 0.0,
        sentence_weights: Vector | None = None,
        token_weights: Vector | None = None,
        single: bool = False,
        group: ProcessGroup = SINGLE,
    ) -> None:
        self._group = group
        self.data, self.steps, self.states, self.c2 = observed.tokens, observed.steps, states, c2
        self.index, self.edge_index = index, AttributeIndex() if edge_index is None else edge_index
        self._labelled, self._weighted_tokens = labelled, token_weights is not None
        check_tokens(self.data.offsets, labelled)
        self._tags = None if labelled.partial else labelled.encode_states(states)
        allowed = labelled.allowed_states(states) if labelled.partial else None
        mask = None if allowed is None else allowed.view(np.uint8)
        L = len(states)
        self.native = _native.Objective(
            self.data, len(index), L, self._tags, mask, sentence_weights, token_weights, single
        )
        if group.count == 1 or selection.all_states:
            self.native.choose_states(selection.min_freq, selection.all_states)
        else:
            self.native.set_states(*self._frequent(self.native.count_states(), L, selection.min_freq))
        labels = FlatLabels(self._tags, allowed, labelled.lengths, L)
        self._set_transitions(select_transitions(selection, states, labels, group))
        if self.steps is not None:
            self._select_edges(self.steps, selection)

    def _select_edges(self, steps: Compiled, selection: FeatureSelection) -> None:
        L, edges = len(self.states), len(self.edge_index)
        if L > _MOST_LABELS:
            raise ModelError(
                f"templates of transitions with observations take at most {_MOST_LABELS} labels, got {L}: "
                "remove % from the B lines of the templates"
            )
        if self._group.count == 1 or selection.all_edges:
            self.native.choose_edges(steps, edges, selection.min_freq, selection.all_edges)
        else:
            counted = self.native.count_edges(steps, edges)
            self.native.set_edges(steps, *self._frequent(counted, L * L, selection.min_freq))

    def _frequent(self, counted: CountedPairs, width: int, min_freq: float) -> PairTable:
        """The pairs that occur often enough in the sentences of all processes."""
        ends, labels, counts = counted
        keys = frequent_pairs(self._group, owners_of(ends) * width + labels, counts, min_freq)
        return pair_table(keys, width, len(ends))

    def _histories(self, transitions: Transitions) -> IntArray | None:
        return None if self._tags is None else transitions.chain_tags(self._tags, self._labelled.lengths)

    def finalize(self) -> None:
        """Once all weights are chosen: free what `evaluate` does not need. No other algorithm works after that."""
        self.native.settle()

    def shard_loss(self, weights: Vector, gradient: Vector) -> float:
        """Loss of the sentences of this process, without the L2 term; its gradient is written."""
        return self._checked(self.native.evaluate(weights, gradient), self._labelled.name)

    @property
    def examples(self) -> int:
        """How many sentences."""
        return self.data.sentences

    def require_equal_tokens(self, algorithm: str) -> None:
        """Refuse weights of labels: an algorithm that only asks what is right or wrong cannot weigh tokens."""
        if self._weighted_tokens:
            raise ModelError(f"{algorithm} cannot train with label_weights: use lbfgs, owlqn or sgd")

    def descend(self, order: IntArray, descent: Descent) -> float:
        """One pass of mini-batch descent; the loss is the mean over the sentences, L2 included, times their number."""
        decay = 2.0 * self.c2 / self.examples
        before = float(descent.scale**2 * _native.dot(descent.weights, descent.weights))
        result, descent.done, descent.scale = self.native.descend(
            order, descent.weights, descent.rate, decay, descent.batch, descent.done, descent.scale
        )
        return self._checked(result, self._labelled.name) + self.c2 * before * len(order) / self.examples

    def loss_of(self, order: IntArray, weights: Vector) -> float:
        """Mean loss of these sentences: a pass of descent that takes no steps."""
        result, _, _ = self.native.descend(order, weights.copy(), 0.0, 0.0, 64, 0, 1.0)
        loss = self._checked(result, self._labelled.name) / len(order)
        return loss + self.c2 * _native.dot(weights, weights) / self.examples

    def correct(self, order: IntArray, state: Perceptron) -> float:
        """One pass of the perceptron; the share of tokens tagged wrongly."""
        state.seen, mistakes = self.native.perceptron(order, state.weights, state.sums, state.seen)
        return mistakes / max(self.data.tokens, 1)

    def passive_aggressive(self, order: IntArray, state: Perceptron, rule: PassiveAggressive) -> float:
        """One passive-aggressive pass; the sum of the costs."""
        state.seen, cost = self.native.passive_aggressive(
            order, state.weights, state.sums, state.seen, rule.type, rule.c, rule.by_errors
        )
        return cost

    def arow(self, order: IntArray, state: Confidence) -> float:
        """One pass of AROW; the sum of the costs."""
        return self.native.arow(order, state.weights, state.variances, state.gamma)
