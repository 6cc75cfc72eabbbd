"""The feature CRF as a training problem: which weights there are, what they start from, and their objective.

    sum over sentences of weight * (log Z - score of the labels)  +  c2 |w|^2            (+ c1 |w|_1 in OWL-QN)

Weights belong to pairs (attribute, label) and to transitions that occur in the data, as in CRFsuite, and to triples
(attribute of a step, label before, label) that do; there are none for the first and the last label, since templates see
the sentence's edges and CRFsuite has none either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np

from trellis import _native
from trellis.arrays import IntArray
from trellis.errors import ModelError
from trellis.features import AttributeIndex, Compiled
from trellis.models.crf.choosing import Choice, Seen, choose_steps
from trellis.models.crf.parts import Compilation, Parts, PlannedPart, Supervision, checked, dealt
from trellis.models.crf.problem import WeightedFeatures
from trellis.models.crf.sharing import common_pairs
from trellis.models.crf.steps import Steps
from trellis.models.crf.weights import Observed
from trellis.models.data import Labelled, check_tokens
from trellis.tags import TagStates
from trellis.training import Descent, Perceptron
from trellis.training.hessian import dot
from trellis.training.leaves import leaves_of
from trellis.training.objective import Aggression, Confidence, Vector
from trellis.training.processes import ALONE, Own, Team

_MOST_LABELS = 256  # a pair of them is a 16-bit number


@final
class CRFObjective(WeightedFeatures):
    """The loss of a corpus in memory; stands on the native objective."""

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
        leaves: int | None = None,
    ) -> None:
        self._team = team
        self._leaves = leaves if observed.steps is None else None
        self._parts: Parts | None = None
        self.data, self.steps, self.states, self.c2 = observed.tokens, observed.steps, states, c2
        self.index, self.edge_index = index, AttributeIndex() if edge_index is None else edge_index
        self._labelled, self._weighted_tokens = labelled, token_weights is not None
        check_tokens(self.data.offsets, labelled)
        ids = None if labelled.partial else labelled.encode_states(states)
        allowed = labelled.allowed_states(states) if labelled.partial else None
        mask = None if allowed is None else allowed.view(np.uint8)
        L = len(states)
        self.native = _native.Objective(self.data, len(index), L, ids, mask, sentence_weights, token_weights, single)
        self._choose_states(choice)
        self._known = Supervision(ids, None, mask, sentence_weights, token_weights)
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
            ids = self._known.tags
            tags = None if ids is None else chain.chain_tags(ids, self._labelled.lengths)
            self._known = replace(self._known, chain_tags=tags)
            self.native.set_chain(chain.labels.astype(np.uint16), tags)
        self.native.set_transitions(*chain.native(), *chain.cells())

    def settle(self) -> None:
        """Once all weights are chosen: free what `evaluate` does not need. No other algorithm works after that."""
        if self._leaves is None:
            self.native.settle()
        elif self._parts is None:
            self._parts = self._dealt(self._leaves)

    def _dealt(self, leaves: int) -> Parts:
        """The sentences of this process, leaf by leaf; the compiled features are freed."""
        own = np.sort(np.array(leaves_of(self._team.rank, self._team.count, leaves)))
        arrays = self.data.arrays()
        parts = [self._part(leaf, np.arange(k, self.examples, len(own)), arrays) for k, leaf in enumerate(own.tolist())]
        self.data.forget()
        return Parts(self.native, parts, leaves, self.states)

    def _part(self, leaf: int, sentences: IntArray, data: Compilation) -> PlannedPart:
        plan = self.native.plan_of(_native.Dataset.of_arrays(*dealt(data, sentences)))
        arrays = {"plan": plan, **self._known.part(sentences, self._labelled.lengths).arrays()}
        return PlannedPart(leaf, lambda: arrays, lambda i: self._name(int(sentences[i])))

    @property
    def examples(self) -> int:
        """How many sentences."""
        return self.data.sentences

    def require_equal_tokens(self, algorithm: str) -> None:
        """If labels are only right or wrong, tokens cannot count more or less."""
        if self._weighted_tokens:
            raise ModelError(f"{algorithm} cannot train with label_weights: use lbfgs, owlqn or sgd")

    @property
    def own(self) -> Own:
        """Loss and gradient of the sentences of this process: in parts, if there are to be any."""
        if self._leaves is None:
            return self._evaluate
        self.settle()
        assert self._parts is not None
        return self._parts

    def _evaluate(self, weights: Vector, gradient: Vector) -> float:
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

    def _checked(self, result: tuple[int, int, float]) -> float:
        return checked(result, self._name, self.states)

    def _name(self, sentence: int) -> str:
        return self._labelled.name(sentence)


def _check_pairs(L: int) -> None:
    if L > _MOST_LABELS:
        raise ModelError(
            f"templates of transitions with observations take at most {_MOST_LABELS} labels, got {L}: "
            "remove % from the B lines of the templates"
        )
