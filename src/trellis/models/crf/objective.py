"""The feature CRF as a training problem: which weights there are, what they start from, and their objective.

    sum over sentences of weight * (log Z - score of the labels)  +  c2 |w|^2            (+ c1 |w|_1 in OWL-QN)

Weights belong to pairs (attribute, label) and to transitions that occur in the data, as in CRFsuite, and to triples
(attribute of a step, label before, label) that do; there are none for the first and the last label, since templates see
the sentence's edges and CRFsuite has none either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis import _native
from trellis.arrays import IntArray
from trellis.errors import DataError, ModelError, NoPathError
from trellis.features import AttributeIndex, Compiled
from trellis.models.crf.choosing import Choice, Seen, choose_steps
from trellis.models.crf.sharing import PairTable, common_pairs, pair_table
from trellis.models.crf.steps import Steps
from trellis.models.crf.weights import AttributeWeights, CRFWeights, Observed, owners_of
from trellis.models.data import Labelled, name_of
from trellis.tags import TagStates
from trellis.training import Descent, Perceptron
from trellis.training.hessian import add_decay, dot
from trellis.training.objective import Aggression, Confidence, Vector
from trellis.training.processes import ALONE, Team

_MOST_LABELS = 256  # a pair of them is a 16-bit number


class CRFObjective:
    """The loss of a corpus as a function of the weights; stands on the native objective."""

    def __init__(
        self,
        observed: Observed,
        index: AttributeIndex,
        labelled: Labelled,
        states: TagStates,
        choice: Choice,
        *,
        edge_index: AttributeIndex | None = None,
        c2: float = 0.0,
        sentence_weights: Vector | None = None,
        token_weights: Vector | None = None,
        single: bool = False,
        team: Team = ALONE,
    ) -> None:
        self._team = team
        self.data, self.steps, self.states, self.c2 = observed.tokens, observed.steps, states, c2
        self.index, self.edge_index = index, AttributeIndex() if edge_index is None else edge_index
        self._labelled, self._weighted_tokens = labelled, token_weights is not None
        _check_tokens(self.data, labelled)
        ids = None if labelled.partial else labelled.encode_states(states)
        allowed = labelled.allowed_states(states) if labelled.partial else None
        mask = None if allowed is None else allowed.view(np.uint8)
        L = len(states)
        self.native = _native.Objective(self.data, len(index), L, ids, mask, sentence_weights, token_weights, single)
        self._choose_states(choice)
        self._ids = ids
        self._use(choose_steps(choice, states, Seen(ids, allowed, labelled.lengths, L), team))
        if self.steps is not None:
            _check_pairs(L)
            self._choose_edges(self.steps, choice)

    def _choose_states(self, choice: Choice) -> None:
        if self._team.count == 1 or choice.all_states:
            self.native.choose_states(choice.min_freq, choice.all_states)
            return
        counted = self.native.count_states()
        self.native.set_states(*common_pairs(self._team, counted, len(self.states), choice.min_freq))

    def _choose_edges(self, steps: Compiled, choice: Choice) -> None:
        if self._team.count == 1 or choice.all_edges:
            self.native.choose_edges(steps, len(self.edge_index), choice.min_freq, choice.all_edges)
            return
        counted = self.native.count_edges(steps, len(self.edge_index))
        self.native.set_edges(steps, *common_pairs(self._team, counted, len(self.states) ** 2, choice.min_freq))

    def _use(self, chain: Steps) -> None:
        """From here on these transitions are possible and have weights."""
        self.chain = chain
        if chain.pairs is not None:
            tags = None if self._ids is None else chain.chain_tags(self._ids, self._labelled.lengths)
            self.native.set_chain(chain.labels.astype(np.uint16), tags)
        self.native.set_transitions(*chain.native(), *chain.cells())

    def settle(self) -> None:
        """Once all weights are chosen: free what `evaluate` does not need. No other algorithm works after that."""
        self.native.settle()

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
        loss = self._team.total(weights, gradient, self.of_own)
        if self.c2:
            loss += self.c2 * add_decay(weights, 2.0 * self.c2, gradient)
        return loss

    def of_own(self, weights: Vector, gradient: Vector) -> float:
        """Loss and gradient of the sentences of this process, without the L2 term."""
        return self._checked(self.native.evaluate(weights, gradient))

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
        state, step, edge = np.split(weights, [len(labels), len(labels) + self.chain.cells()[2]])
        transitions, histories = self.chain.split(step)
        start, end = (np.where(mask, 0.0, -np.inf) for mask in (self.chain.start, self.chain.end))
        L, edges = len(self.states), None
        if self.steps is not None:
            edges = AttributeWeights(self.edge_index, *self.native.edges(), edge.copy(), L * L)
        return CRFWeights(
            self.index, ends, labels, state.copy(), L, transitions, self.chain.weighted, start, end, edges, histories
        )

    def take_over(self, old: CRFWeights, old_states: TagStates) -> Vector:
        """The weights of an earlier model by name: its state features are added to those chosen here."""
        L = len(self.states)  # the labels of the earlier model come first, with the same numbers
        states = _Joined.of(self.native.states(), old, old.labels.astype(np.int64), L)
        self.native.set_states(*states.table)
        self._use(self.chain.joined(old.weighted, old.histories))
        found = [states.weights, self.chain.weights_of(old.transitions, old.weighted, old.histories)]
        if self.steps is not None and old.edges is not None:
            pairs = np.ravel_multi_index(np.divmod(old.edges.labels, len(old_states)), (L, L))
            edges = _Joined.of(self.native.edges(), old.edges, pairs, L * L)
            self.native.set_edges(self.steps, *edges.table)
            found.append(edges.weights)
        return np.concatenate(found)

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


@dataclass(frozen=True, slots=True)
class _Joined:
    """The weights of an earlier model by name, added to a choice of weights that are zero."""

    table: PairTable
    weights: Vector

    @classmethod
    def of(cls, own: PairTable, old: AttributeWeights, old_labels: IntArray, width: int) -> _Joined:
        """Attributes keep their numbers; the labels of the earlier model may have new ones."""
        ends, labels = own
        old_keys = old.owners * width + old_labels
        keys = np.union1d(owners_of(ends) * width + labels, old_keys)
        weights = np.zeros(len(keys))
        weights[np.searchsorted(keys, old_keys)] = old.weights
        return cls(pair_table(keys, width, len(ends)), weights)


def _check_pairs(L: int) -> None:
    if L > _MOST_LABELS:
        raise ModelError(
            f"templates of transitions with observations take at most {_MOST_LABELS} labels, got {L}: "
            "remove % from the B lines of the templates"
        )


def _check_tokens(data: Compiled, labelled: Labelled) -> None:
    """Kernels walk labels and features side by side: an input whose `len` is not what it holds must not get there."""
    found, expected = np.diff(data.offsets), labelled.lengths
    if not np.array_equal(found, expected):
        i = int(np.flatnonzero(found != expected)[0])
        name = name_of(i, labelled.inputs[i])
        raise DataError(f"{name} contains {found[i]} tokens but its length is {expected[i]}: expected the same number")
