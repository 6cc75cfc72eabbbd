"""The loss of a feature CRF as a function of its weights.

    sum over sentences of weight * (log Z - score of the labels)  +  c2 |w|^2            (+ c1 |w|_1 in OWL-QN)

Weights belong to pairs (attribute, label) and to transitions that occur in the data, as in CRFsuite, and to triples
(attribute of a step, label before, label) that do; there are none for the first and the last label, since templates see
the sentence's edges and CRFsuite has none either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

import numpy as np

from trellis import _native
from trellis.arrays import IntArray
from trellis.errors import DataError, ModelError, NoPathError
from trellis.features import AttributeIndex, Compiled
from trellis.models.crf.attributes import CountedPairs, FeatureSelection, PairTable, frequent_pairs, pair_table
from trellis.models.crf.transitions import FlatLabels, Transitions, select_transitions
from trellis.models.crf.weights import AttributeWeights, CRFWeights, Observed, owners_of
from trellis.models.data import Labelled, check_tokens
from trellis.tags import StateMap
from trellis.training import Descent, Perceptron
from trellis.training.objective import Confidence, PassiveAggressive, Vector
from trellis.training.process_group import SINGLE, ProcessGroup

_MOST_LABELS = 256  # a pair of them is a 16-bit number


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

    @abstractmethod
    def _set_transitions(self, transitions: Transitions) -> None:
        """From here on these transitions are possible and have weights."""

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

    def _set_transitions(self, transitions: Transitions) -> None:
        self.transitions = transitions
        if transitions.pairs is not None:
            tags = self._tags
            histories = None if tags is None else transitions.chain_tags(tags, self._labelled.lengths)
            self.native.set_chain(transitions.labels.astype(np.uint16), histories)
        self.native.set_transitions(*transitions.native(), *transitions.cells())

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
