"""Which transitions of a feature CRF are possible and have weights, and the chain that they make.

With order 1 the states of the chain are the labels, and a transition may have a weight. With order 2 the states are
histories (see `trellis.models.histories`): the step from state s to label c scores the weight of the two labels, and
that of the three if s is a pair with its own state and the three were seen in a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from trellis.arrays import BoolArray, IntArray
from trellis.models.histories import labels_of, states_of
from trellis.training.objective import Vector


@dataclass(frozen=True, slots=True, eq=False)
class HistoryWeights:
    """Pairs of labels that have their own state, and the weights of the labels after them."""

    pairs: IntArray  # [P, 2]
    rows: Vector  # [P, L] 0 where there is no weight
    weighted: BoolArray  # [P, L]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
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

    def joined(self, weighted: BoolArray, histories: HistoryWeights | None) -> Steps:
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


def _places(pairs: IntArray, of: IntArray) -> IntArray:
    """Where pairs stand among others in order."""
    base = int(pairs.max(initial=0)) + 1
    return np.searchsorted(pairs[:, 0] * base + pairs[:, 1], of[:, 0] * base + of[:, 1])
