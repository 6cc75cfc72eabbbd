"""What a feature CRF learned: weights of attributes and of transitions, and the scores they give to sentences.

An attribute of a token has weights for labels. An attribute of the step into a token, made by a template that starts
with B or *, has weights for pairs of labels: that of the token before and its own. A pair (i, j) of L labels is written
as one number, i * L + j, so that both are the same kind of table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from trellis import _native, chain
from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.features import AttributeIndex, Compiled, Extractor
from trellis.lazy import cached
from trellis.models.states import labels_of, states_of
from trellis.ragged import check_lengths
from trellis.tags import StateMap
from trellis.training.objective import Vector


@dataclass(frozen=True, eq=False)
class AttributeWeights:
    """Weights of pairs (attribute, label), attribute by attribute."""

    index: AttributeIndex
    ends: IntArray  # [A] where the pairs of an attribute end
    labels: npt.NDArray[np.uint16]  # [pairs]
    weights: Vector  # [pairs]
    width: int  # how many labels there are

    @cached
    def ready(self) -> _native.Weights:
        """The weights of pairs as scoring looks them up; made when first asked for."""
        return _native.Weights(self.ends, self.labels, self.weights, self.width)

    @property
    def owners(self) -> IntArray:
        """The attribute of each pair."""
        return owners_of(self.ends)

    def of(self, attribute: int) -> dict[int, float]:
        """The weights of one attribute by label."""
        own = slice(int(self.ends[attribute - 1]) if attribute else 0, int(self.ends[attribute]))
        return dict(zip(self.labels[own].tolist(), self.weights[own].tolist(), strict=True))

    def single(self) -> Self:
        """With each weight as the nearest number of single precision, as files hold them in half the space."""
        return replace(self, weights=self.weights.astype(np.float32).astype(np.float64))

    def pruned(self, share: float = 0.0) -> Self:
        """Without weights that are zero or below this share of the largest, and attributes that have no other."""
        sizes = np.abs(self.weights)
        kept = (sizes > 0.0) & (sizes >= share * sizes.max(initial=0.0))
        if kept.all() and (np.diff(self.ends, prepend=0) > 0).all():
            return self
        counts = np.bincount(self.owners[kept], minlength=len(self.ends))
        alive = np.flatnonzero(counts)
        index = AttributeIndex(self.index.native.select(alive))
        ends, labels, weights = np.cumsum(counts[alive]), self.labels[kept], self.weights[kept]
        return replace(self, index=index, ends=ends, labels=labels, weights=weights)


@dataclass(frozen=True, slots=True, eq=False)
class HistoryWeights:
    """Pairs of labels that have their own state, and the weights of the labels after them."""

    pairs: IntArray  # [P, 2]
    rows: Vector  # [P, L] 0 where there is no weight
    weighted: BoolArray  # [P, L]


@dataclass(frozen=True, eq=False)
class CRFWeights(AttributeWeights):
    """Weights of the attributes of tokens, of transitions, and of the attributes of steps if there are such."""

    transitions: Vector  # [L, L]; minus infinity is forbidden
    weighted: BoolArray  # [L, L] which transitions have a weight; the others score 0
    start: Vector  # [L] 0, or minus infinity if no sentence may begin so
    end: Vector  # [L]
    edges: AttributeWeights | None = None  # of pairs of labels
    histories: HistoryWeights | None = None  # with order 2

    @property
    def state_labels(self) -> IntArray | None:
        """With order 2: the label of each state of the chain."""
        return None if self.histories is None else labels_of(self.histories.pairs, self.width)

    def single(self) -> Self:
        """The weights of steps as well."""
        return replace(super().single(), edges=None if self.edges is None else self.edges.single())

    def pruned(self, share: float = 0.0) -> Self:
        """The weights of steps as well."""
        return replace(super().pruned(share), edges=None if self.edges is None else self.edges.pruned(share))


class Earlier(NamedTuple):
    """What was learned before."""

    weights: CRFWeights
    states: StateMap


def scores_per_token(states: int, *, steps: bool) -> int:
    """How many scores a token of the chain has."""
    return states * (states + 1) if steps else states


def owners_of(ends: IntArray) -> IntArray:
    """The attribute of each pair, given where the pairs of an attribute end."""
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))


@dataclass(frozen=True, eq=False, slots=True)
class Observed:
    """Sentences as numbered attributes of their tokens, and of the steps between them if there are such."""

    tokens: Compiled
    steps: Compiled | None = None

    @classmethod
    def of(
        cls,
        extractor: Extractor,
        inputs: Sequence[Any],
        index: AttributeIndex,
        edges: AttributeIndex | None,
        *,
        grow: bool = False,
    ) -> Observed:
        """Of inputs, with the numbers of `index` and, for steps, of `edges`; new attributes get one with `grow`."""
        tokens = extractor.compile(inputs, index, grow=grow)
        return cls(tokens, None if edges is None else extractor.compile_edges(inputs, edges, grow=grow))

    def scores(self, p: CRFWeights) -> chain.ChainScores:
        """The scores of the sentences."""
        emissions = np.empty((self.tokens.tokens, p.width))
        _native.score_dataset(self.tokens, p.ready, emissions)
        return chained(emissions, check_lengths(np.diff(self.tokens.offsets)), p, self.steps)


def chained(emissions: FloatArray, lengths: IntArray, p: CRFWeights, steps: Compiled | None) -> chain.ChainScores:
    """The chain of these emissions with the transitions of the model, and the scores of steps if there are such."""
    if p.histories is not None:
        steps_of_states, start, end = chain_of(p.transitions, p.start, p.end, p.histories)
        return chain.ChainScores(emissions[:, p.state_labels], lengths, steps_of_states, start, end)
    edges = None
    if p.edges is not None and steps is not None:
        edges = np.empty((int(np.maximum(lengths - 1, 0).sum()), p.width, p.width))
        _native.score_edges(steps, p.edges.ready, edges)
    return chain.ChainScores(emissions, lengths, p.transitions, p.start, p.end, edges)


def chain_of(
    transitions: Vector, start: Vector, end: Vector, histories: HistoryWeights
) -> tuple[Vector, Vector, Vector]:
    """Transitions (S, S), start and end (S,) of the chain over histories, from those over labels."""
    L = len(start)
    labels = labels_of(histories.pairs, L)
    scores = transitions[labels]  # [S, L]
    scores[L:] += histories.rows
    steps = np.full((len(labels), len(labels)), -np.inf)
    np.put_along_axis(steps, states_of(histories.pairs, L)[labels], scores, axis=1)
    return steps, np.concatenate([start, np.full(len(histories.pairs), -np.inf)]), end[labels]
