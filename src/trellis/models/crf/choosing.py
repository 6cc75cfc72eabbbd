"""Which features get a weight: those that occur, often enough, unless all are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.models.crf.steps import Steps
from trellis.models.histories import most_common, states_of
from trellis.tags import TagStates
from trellis.training.objective import Vector
from trellis.training.processes import ALONE, Team

_BLOCK = 4096  # tokens


@dataclass(frozen=True, slots=True)
class Choice:
    """Which features get a weight."""

    min_freq: float
    all_states: bool
    all_transitions: bool
    transitions: bool
    constraints: bool
    all_edges: bool = False
    pairs: int | None = None
    """With order 2: at most this many pairs of labels have their own state."""


class SeenLabels(Protocol):
    """The labels of a corpus, counted."""

    def pairs(self) -> Vector:
        """How often each pair of neighbouring labels occurs."""

    def after(self, pairs: IntArray) -> Vector:
        """``(P, L)`` how often each label follows each of these pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
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
        places = np.arange(int(self.lengths.sum())) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        return np.flatnonzero(places >= steps)


def choose_steps(choice: Choice, states: TagStates, seen: SeenLabels, team: Team = ALONE) -> Steps:
    """The transitions that are possible, and those that have a weight, given what all processes have seen."""
    L, limits = len(states), states.allowed_transitions()
    counts = team.add(seen.pairs())
    legal, start, end = limits.transitions, limits.start, limits.end
    if not choice.constraints:
        legal, start, end = (np.ones_like(mask) for mask in (legal, start, end))

    def weighted(counts: Vector, legal: BoolArray) -> BoolArray:
        occurs = np.ones_like(legal) if choice.all_transitions else (counts > 0) & (counts >= choice.min_freq)
        return legal & occurs & choice.transitions

    steps = Steps(legal, start, end, weighted(counts, legal))
    if choice.pairs is None:
        return steps
    pairs = most_common(np.where(legal, counts, 0.0), choice.pairs).reshape(-1, 2)
    after = weighted(team.add(seen.after(pairs)), legal[pairs[:, 1]]).reshape(len(pairs), L)
    return Steps(legal, start, end, steps.weighted, pairs, after)
