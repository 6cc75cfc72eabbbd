"""Which transitions of a feature CRF are possible and have weights, chosen by the labels of the corpus.

With order 1 the states of the chain are the labels, and a transition may have a weight. With order 2 the states are
histories (see `trellis.models.states`): the step from state s to label c scores the weight of the two labels, and
that of the three if s is a pair with its own state and the three were seen in a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trellis.arrays import BoolArray, IntArray
from trellis.models.crf.attributes import FeatureSelection
from trellis.models.crf.weights import HistoryWeights
from trellis.models.states import labels_of, most_common, states_of
from trellis.ragged import ranges
from trellis.tags import StateMap
from trellis.training.objective import Vector
from trellis.training.process_group import SINGLE, ProcessGroup

_BLOCK = 4096  # tokens


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
        return np.arange(self.num_labels) if self.pairs is None else labels_of(self.pairs, self.num_labels)

    def chain_tags(self, ids: IntArray, lengths: IntArray) -> IntArray:
        """The states of flat labels."""
        assert self.pairs is not None
        states, first = states_of(self.pairs, self.num_labels), np.cumsum(lengths) - lengths
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
        found: IntArray = states_of(self.pairs, L)[labels]
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
            state = states_of(pairs, L)[self.ids[later - 2], self.ids[later - 1]] - L
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
    pairs = most_common(np.where(legal, counts, 0.0), selection.pairs).reshape(-1, 2)
    after = weighted(group.add(labels.after(pairs)), legal[pairs[:, 1]]).reshape(len(pairs), L)
    return Transitions(legal, start, end, steps.weighted, pairs, after)
