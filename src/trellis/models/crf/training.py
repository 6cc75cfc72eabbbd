"""How a feature CRF is trained: its loss as a function of its weights, and the optimizer that makes it small.

    sum over sentences of weight * (log Z - score of the labels)  +  c2 |w|^2            (+ c1 |w|_1 in OWL-QN)

Weights belong to pairs (attribute, label) and to transitions that occur in the data, as in CRFsuite, and to triples
(attribute of a step, label before, label) that do; there are none for the first and the last label, since templates see
the sentence's edges and CRFsuite has none either.

With order 1 the states of the chain are the labels, and a transition may have a weight. With order 2 the states are
histories (docs/decisions/0006-order-2.md): the step from state s to label c scores the weight of the two labels, and
that of the three if s is a pair with its own state and the three were seen in a row.

An objective has the sentences of one process. Where several train together, a process group adds up what occurs in all
of them, from which follows which features have weights, and then losses and gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.errors import DataError, ModelError, NoPathError
from trellis.features import AttributeIndex, Compiled, Extractor
from trellis.models.crf.model import (
    MISTAKE_DRIVEN,
    SUMMED,
    AttributeWeights,
    CRFConfig,
    CRFWeights,
    Earlier,
    HistoryWeights,
    Observed,
    owners_of,
    scores_per_token,
)
from trellis.models.data import (
    Labelled,
    check_held_out,
    check_tokens,
    dev_scores,
    history_states,
    labels_of_histories,
    most_common_pairs,
)
from trellis.models.posterior import best_labels
from trellis.models.tagger import FitOptions, sentences_at_once
from trellis.ragged import ranges
from trellis.store import Stored
from trellis.tags import StateMap
from trellis.training import (
    Descent,
    DevScores,
    History,
    Iterate,
    Objective,
    Perceptron,
    Resumption,
    averaged_perceptron,
    lbfgs,
    owlqn,
    retry_on_interrupt,
    run,
    sgd,
)
from trellis.training.online import Confidence, PassiveAggressive, arow, passive_aggressive
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
    """With order 2, the most pairs of labels that have a state of their own."""


def frequent_pairs(counted: CountedPairs, width: int, min_freq: float, group: ProcessGroup) -> PairTable:
    """The pairs that occur often enough in the sentences of all processes."""
    ends, labels, counts = counted
    keys, counts = group.add_by_key(owners_of(ends) * width + labels, counts)
    return pair_table(keys[(counts > 0) & (counts >= min_freq)], width, len(ends))


def pair_table(keys: IntArray, width: int, attributes: int) -> PairTable:
    """Pairs in order, each ``attribute * width + label``, as a table."""
    counts = np.bincount(keys // width, minlength=attributes)
    return np.cumsum(counts), (keys % width).astype(np.uint16)


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """The transitions that are possible, and those that have a weight."""

    legal: BoolArray  # [L, L]
    start: BoolArray  # [L]
    end: BoolArray  # [L]
    weighted: BoolArray  # [L, L]
    pairs: IntArray | None = None  # [P, 2] with order 2: those that have their own state
    after: BoolArray | None = None  # [P, L] which labels after a pair have a weight

    @property
    def num_labels(self) -> int:
        return len(self.legal)

    @property
    def labels(self) -> IntArray:
        """``(S,)`` the label of each state."""
        return np.arange(self.num_labels) if self.pairs is None else labels_of_histories(self.pairs, self.num_labels)

    def chain_tags(self, ids: IntArray, lengths: IntArray) -> IntArray:
        """The states of the chain, with order 2, of all labels."""
        assert self.pairs is not None
        states: IntArray = history_states(self.pairs, self.num_labels)[np.concatenate([[-1], ids[:-1]]), ids]
        first = (np.cumsum(lengths) - lengths)[lengths > 0]
        states[first] = ids[first]
        return states

    def native(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Masks of the transitions (S, S), first and last states (S,) that are possible."""
        labels, L = self.labels, self.num_labels
        legal = np.zeros((len(labels), len(labels)), dtype=np.uint8)
        legal[np.arange(len(labels))[:, None], self._next] = self.legal[labels]
        start = np.concatenate([self.start, np.zeros(len(labels) - L, dtype=np.bool_)])
        return legal, start.view(np.uint8), self.end[labels].view(np.uint8)

    def cells(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
        """Transitions with weights as from * S + to, the number of each weight, and how many weights there are."""
        labels, L, two = self.labels, self.num_labels, int(self.weighted.sum())
        numbers = np.full((L, L), -1)
        numbers[self.weighted] = np.arange(two)
        codes = np.arange(len(labels))[:, None] * len(labels) + self._next  # [S, L]
        has_weight = self.weighted[labels]
        cells, owners = codes[has_weight], numbers[labels][has_weight]
        three = 0
        if self.after is not None:
            three = int(self.after.sum())
            cells = np.concatenate([cells, codes[L:][self.after]])
            owners = np.concatenate([owners, two + np.arange(three)])
        return cells.astype(np.int32), owners.astype(np.int32), two + three

    def split(self, weights: FloatArray) -> tuple[FloatArray, HistoryWeights | None]:
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
        """The transitions with those that an earlier model has, whose labels are the first of these."""
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

    def weights_of(self, transitions: FloatArray, weighted: BoolArray, histories: HistoryWeights | None) -> FloatArray:
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
        states: IntArray = history_states(self.pairs, L)[labels]
        return states


def _places(pairs: IntArray, of: IntArray) -> IntArray:
    """The rows of these pairs among others in order."""
    base = int(pairs.max(initial=0)) + 1
    return np.searchsorted(pairs[:, 0] * base + pairs[:, 1], of[:, 0] * base + of[:, 1])


@dataclass(frozen=True, slots=True, eq=False)
class FlatLabels:
    """The labels of a corpus: their ids (N,), or, where some are partly known, which are `allowed` (N, L)."""

    ids: IntArray | None
    allowed: BoolArray | None
    lengths: IntArray
    num_labels: int

    def pairs(self) -> FloatArray:
        """How often each pair of neighbouring labels occurs; if labels are partly known, each possible pair."""
        L, later = self.num_labels, self._later(1)
        if self.ids is not None:
            codes = self.ids[later - 1] * L + self.ids[later]
            return np.bincount(codes, minlength=L * L).reshape(L, L).astype(np.float64)
        known = self._known()
        return known[later - 1].T @ known[later]

    def after(self, pairs: IntArray) -> FloatArray:
        """``(P, L)`` how often each label follows each of these pairs."""
        L, later = self.num_labels, self._later(2)
        if self.ids is not None:
            state = history_states(pairs, L)[self.ids[later - 2], self.ids[later - 1]] - L
            codes = state[state >= 0] * L + self.ids[later[state >= 0]]
            return np.bincount(codes, minlength=len(pairs) * L).reshape(-1, L).astype(np.float64)
        known, counts = self._known(), np.zeros((len(pairs), L))
        for start in range(0, len(later), _BLOCK):
            tokens = later[start : start + _BLOCK]
            histories = known[tokens - 2][:, pairs[:, 0]] * known[tokens - 1][:, pairs[:, 1]]  # [tokens, P]
            counts += histories.T @ known[tokens]
        return counts

    def _known(self) -> FloatArray:
        """``(N, L)`` the labels that a token may have; none if nothing is known about it."""
        assert self.allowed is not None
        return (self.allowed & ~self.allowed.all(axis=1, keepdims=True)).astype(np.float64)

    def _later(self, steps: int) -> IntArray:
        """The tokens that have this many before them in their sentence."""
        return np.flatnonzero(ranges(0, self.lengths) >= steps)


def select_transitions(
    selection: FeatureSelection, states: StateMap, labels: Callable[[], Iterable[FlatLabels]], group: ProcessGroup
) -> Transitions:
    """The transitions that are possible, and those that have a weight, given the labels of a corpus block by block."""
    L, limits = len(states), states.allowed_transitions()
    counts = group.add(sum((block.pairs() for block in labels()), np.zeros((L, L))))
    legal, start, end = limits.transitions, limits.start, limits.end
    if not selection.constraints:
        legal, start, end = (np.ones_like(mask) for mask in (legal, start, end))

    def weighted(counts: FloatArray, legal: BoolArray) -> BoolArray:
        occurs = np.ones_like(legal) if selection.all_transitions else (counts > 0) & (counts >= selection.min_freq)
        return legal & occurs & selection.transitions

    steps = Transitions(legal, start, end, weighted(counts, legal))
    if selection.pairs is None:
        return steps
    pairs = most_common_pairs(np.where(legal, counts, 0.0), selection.pairs).reshape(-1, 2)
    after = group.add(sum((block.after(pairs) for block in labels()), np.zeros((len(pairs), L))))
    return replace(steps, pairs=pairs, after=weighted(after, legal[pairs[:, 1]]).reshape(len(pairs), L))


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

    @property
    def size(self) -> int:
        """The number of weights."""
        return self.native.size

    @abstractmethod
    def _evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        """The loss without the L2 term; its gradient is written."""

    @abstractmethod
    def finalize(self) -> None:
        """Make ready what `evaluate` needs, once all weights are chosen, and free the rest."""

    def _set_transitions(self, transitions: Transitions) -> None:
        self.transitions = transitions
        if transitions.pairs is not None:
            self.native.set_chain(transitions.labels.astype(np.uint16), self._histories(transitions))
        self.native.set_transitions(*transitions.native(), *transitions.cells())

    def _histories(self, transitions: Transitions) -> IntArray | None:
        """The states of all tokens with order 2, if their labels are known and in memory."""
        return None

    def evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        """The loss with its L2 term; the gradient of both is written."""
        loss = self._evaluate(weights, gradient)
        if self.c2:
            loss += self.c2 * _native.add_decay(weights, 2.0 * self.c2, gradient)
        return loss

    def parameters(self, weights: FloatArray) -> CRFWeights:
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

    def weights_of(self, old: CRFWeights, old_states: StateMap) -> FloatArray:
        """The weights of an earlier model, whose features are added to those selected here; new weights are zero."""
        L = len(self.states)  # the labels of the earlier model come first, with the same numbers
        table, states = _joined(self.native.states(), old, old.labels.astype(np.int64), L)
        self.native.set_states(*table)
        self._set_transitions(self.transitions.joined(old.weighted, old.histories))
        weights = [states, self.transitions.weights_of(old.transitions, old.weighted, old.histories)]
        if self.steps is not None and old.edges is not None:
            pairs = np.ravel_multi_index(np.divmod(old.edges.labels, len(old_states)), (L, L))
            table, edges = _joined(self.native.edges(), old.edges, pairs, L * L)
            self.native.set_edges(self.steps, *table)
            weights.append(edges)
        return np.concatenate(weights)

    def _checked(self, result: tuple[int, int, float], name: Callable[[int], str]) -> float:
        """The loss, unless a sentence has none; `name` is how messages call a sentence."""
        status, sentence, loss = result
        if status == 0:
            return loss
        if status in (3, 5):
            scheme = self.states.tags.scheme.value
            raise NoPathError(f"{name(sentence)}: its labels break the {scheme} scheme, so they are impossible")
        raise DataError(f"{name(sentence)}: the scores overflow; feature values or weights are too large")


def _joined(pairs: PairTable, old: AttributeWeights, old_labels: IntArray, width: int) -> tuple[PairTable, FloatArray]:
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
        sentence_weights: FloatArray | None = None,
        token_weights: FloatArray | None = None,
        single: bool = False,
        group: ProcessGroup = SINGLE,
    ) -> None:
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
        if selection.all_states:
            self.native.choose_states(selection.min_freq, True)
        else:
            self.native.set_states(*frequent_pairs(self.native.count_states(), L, selection.min_freq, group))
        labels = FlatLabels(self._tags, allowed, labelled.lengths, L)
        self._set_transitions(select_transitions(selection, states, lambda: [labels], group))
        if self.steps is None:
            return
        if L > _MOST_LABELS:
            raise ModelError(
                f"templates of transitions with observations take at most {_MOST_LABELS} labels, got {L}: "
                "remove % from the B lines of the templates"
            )
        if selection.all_edges:
            self.native.choose_edges(self.steps, len(self.edge_index), selection.min_freq, True)
        else:
            counted = self.native.count_edges(self.steps, len(self.edge_index))
            self.native.set_edges(self.steps, *frequent_pairs(counted, L * L, selection.min_freq, group))

    def _histories(self, transitions: Transitions) -> IntArray | None:
        return None if self._tags is None else transitions.chain_tags(self._tags, self._labelled.lengths)

    def finalize(self) -> None:
        """Free what `evaluate` does not need, once all weights are chosen. No other algorithm works after that."""
        self.native.settle()

    def _evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        return self._checked(self.native.evaluate(weights, gradient), self._labelled.name)

    @property
    def examples(self) -> int:
        """The number of sentences."""
        return self.data.sentences

    def require_equal_tokens(self, algorithm: str) -> None:
        """Refuse weights of labels: an algorithm that only asks what is right or wrong cannot weigh tokens."""
        if self._weighted_tokens:
            raise ModelError(f"{algorithm} cannot train with label_weights: use lbfgs, owlqn or sgd")

    def descend(self, order: IntArray, descent: Descent) -> float:
        """One pass of mini-batch descent; the loss is the mean over the sentences, L2 included, times their number."""
        decay = 2.0 * self.c2 / self.examples
        square = float(descent.scale**2 * _native.dot(descent.weights, descent.weights))
        result, descent.done, descent.scale = self.native.descend(
            order, descent.weights, descent.rate, decay, descent.batch, descent.done, descent.scale
        )
        return self._checked(result, self._labelled.name) + self.c2 * square * len(order) / self.examples

    def loss_of(self, order: IntArray, weights: FloatArray) -> float:
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


def learn(
    objective: FeatureObjective,
    earlier: Earlier | None,
    settings: CRFConfig,
    extractor: Extractor,
    dev: Labelled | None,
    options: FitOptions,
) -> tuple[CRFWeights, History, CRFConfig]:
    """The weights that a model keeps, how they were found, and with which settings; all processes take part."""
    if settings.algorithm == "sgd" and settings.c1:
        raise ModelError("sgd does not support L1 regularisation: set c1 = 0, or use owlqn")
    if settings.algorithm in MISTAKE_DRIVEN and isinstance(objective, CRFObjective):
        objective.require_equal_tokens(settings.algorithm)
    start = np.zeros(objective.size) if earlier is None else objective.weights_of(earlier.weights, earlier.states)
    if settings.algorithm in SUMMED:
        objective.finalize()

    def optimize(summed: Objective) -> tuple[FloatArray, tuple[History, CRFConfig]]:
        """The weights, and the settings with the first step length of sgd."""
        resumption = Resumption(start, options.folder, settings.checkpoint_seconds)
        trained = run(
            _iterates(objective, summed, resumption.weights, settings, resumption.optimizer),
            resumption,
            max_iterations=settings.max_iterations,
            validate=None if dev is None else _validation(objective, extractor, dev),
            patience=settings.patience,
            progress=options.progress,
        )
        if not np.isfinite(trained.weights).all():
            raise DataError("training ended in weights that are not finite; feature values are too large")
        resolved, last = settings, resumption.last
        if settings.algorithm == "sgd" and last is not None and last.state is not None:
            resolved = replace(settings, learning_rate=float(last.state()["rate"]))
        return trained.weights, (trained.history, resolved)

    weights, (history, resolved) = options.group.run(objective, optimize)

    def pruned() -> CRFWeights:
        parameters = objective.parameters(weights).pruned(resolved.prune or 0.0)
        return parameters.single() if resolved.precision == "single" else parameters

    return retry_on_interrupt(pruned), history, resolved


def _iterates(
    objective: FeatureObjective, summed: Objective, start: FloatArray, c: CRFConfig, state: Stored | None
) -> Iterator[Iterate]:
    """The iterates of the optimizer, from its saved `state` if there is one; `summed` is the loss of all processes."""
    if c.algorithm in SUMMED:
        assert c.delta is not None
        assert c.period is not None
        minimise = partial(owlqn, c1=c.c1) if c.algorithm == "owlqn" else lbfgs
        return minimise(
            summed,
            start,
            memory=c.memory,
            epsilon=c.epsilon,
            delta=c.delta,
            period=c.period,
            max_linesearch=c.max_linesearch,
            state=state,
        )
    assert isinstance(objective, CRFObjective)
    if c.algorithm == "ap":
        return averaged_perceptron(objective, start, seed=c.seed, state=state)
    if c.algorithm == "pa":
        rule = PassiveAggressive(c.pa_type, c.aggressiveness, c.error_sensitive)
        return passive_aggressive(objective, start, rule, averaging=c.averaging, seed=c.seed, state=state)
    if c.algorithm == "arow":
        return arow(objective, start, variance=c.variance, gamma=c.gamma, seed=c.seed, state=state)
    assert c.delta is not None
    assert c.period is not None
    return sgd(
        objective,
        start,
        batch=c.batch_size,
        rate=c.learning_rate,
        period=c.period,
        delta=c.delta,
        seed=c.seed,
        state=state,
    )


def _validation(objective: FeatureObjective, extractor: Extractor, dev: Labelled) -> Callable[[FloatArray], DevScores]:
    """A function from weights to the score on the held-out sentences, which are compiled once."""
    states = objective.states
    check_held_out(dev, states.tags)
    cells = scores_per_token(len(objective.transitions.labels), steps=objective.steps is not None)
    size = sentences_at_once(len(states.tags), cells)
    parts = (dev.inputs[i : i + size] for i in range(0, len(dev.inputs), size))
    blocks = [Observed.of(extractor, part, objective.index, objective.edge_index) for part in parts]

    def validate(weights: FloatArray) -> DevScores:
        p = objective.parameters(weights)
        scores = (block.scores(p) for block in blocks)
        return dev_scores(dev, best_labels(scores, dev.inputs, states, p.state_labels), states.tags)

    return validate
