"""A bonus for whole spans, exact in every answer of a chain: the spans that it may be paid to run on tracks.

A bonus for the span (begin, end, type) does not decompose over tags: while a path is inside a span, its tags do not say
where the span began. So every (begin, type) at which a span of two tokens or more is to be rewarded opens a *track*:
copies of the states of that type which are alive from the begin to the end of the longest such span.

    tokens        he   lives  in   New    York   State  .
    plain         O    O      O    -      ...    ...    O
    track                          first  inner  exit           a span that goes on behind its longest end leaves here
                                          last   last           ends here: the bonus of (3, 5) or of (3, 6)

A span that begins where a track does must run on it. Where it ends, it collects the bonus of that end, if there is one;
if it goes on behind the longest end, it returns to the plain states through the exit. That is a bijection between
paths, so log Z, best path, k best, marginals, samples and entropy stay exact and linear in the length. What is alive
where is in the emissions; transitions are shared, and tracks of one type that do not overlap take turns on the same
copies. A span of one token needs no track: its bonus is paid to its only state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.chain import ChainScores
from trellis.lazy import cached
from trellis.lexicon.span_states import PossibleSteps, SpanStates, expanded
from trellis.ragged import offsets_of, ranges


class Bonuses(NamedTuple):
    """Bonuses of spans: tokens ``begin`` to ``end - 1`` of a sequence, as one span of this type."""

    sequence: IntArray  # [M]
    begin: IntArray  # [M]
    end: IntArray  # [M]
    kind: IntArray  # [M] an index into `SpanStates.kinds`
    bonus: FloatArray  # [M] in log odds; those of one span add up

    def of_sequences(self, sequences: IntArray) -> Bonuses:
        """The bonuses of some sequences, given in ascending order, which are numbered in that order."""
        place = np.searchsorted(sequences, self.sequence)
        kept = (place < len(sequences)) & (sequences[np.minimum(place, len(sequences) - 1)] == self.sequence)
        return Bonuses(place[kept], *(column[kept] for column in self[1:]))


class Gaps(NamedTuple):
    """White space before tokens of sequences, which only spans with a bonus may run across."""

    sequence: IntArray  # [G]
    place: IntArray  # [G] of the token behind it

    @classmethod
    def of(cls, rows: IntArray, lengths: IntArray) -> Gaps:
        """Before the tokens with these numbers in the batch, in ascending order."""
        offsets = offsets_of(lengths)
        sequence = np.searchsorted(offsets, rows, side="right") - 1
        return cls(sequence, rows - offsets[sequence])

    @classmethod
    def none(cls) -> Gaps:
        """No white space, or none that matters."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def of_sequences(self, sequences: IntArray) -> Gaps:
        """Those of some sequences, in ascending order, which are numbered in that order."""
        kept = np.isin(self.sequence, sequences)
        return Gaps(np.searchsorted(sequences, self.sequence[kept]), self.place[kept])


class ChainPart(NamedTuple):
    """A chain for some sequences of a batch."""

    sequences: IntArray
    scores: ChainScores
    state_labels: IntArray | None
    """The label that each state stands for; None if the states are the labels."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """Bonuses, each with the track that its span runs on."""

    sequence: IntArray  # [M]
    begin: IntArray  # [M]
    end: IntArray  # [M]
    kind: IntArray  # [M]
    bonus: FloatArray  # [M]
    longest: IntArray  # [M] where the track ends
    slot: IntArray  # [M] which copies it runs on: tracks of one sequence and type that overlap have others; -1 for none
    opens: BoolArray  # [M] whether this is the first bonus of its track

    @classmethod
    def of(cls, bonuses: Bonuses, states: SpanStates) -> Tracks:
        """The tracks of these bonuses; those that no path could collect are left out."""
        long = bonuses.end - bonuses.begin > 1
        of_several = np.zeros(len(states.kinds), dtype=np.bool_)
        of_several[states.kind[(states.kind >= 0) & states.starts & ~states.ends]] = True
        kept = np.flatnonzero(~long | of_several[bonuses.kind])
        order = kept[np.lexsort(tuple(x[kept] for x in (-bonuses.end, bonuses.begin, bonuses.kind, bonuses.sequence)))]
        sequence, begin, end, kind = (column[order] for column in bonuses[:4])
        place = np.stack([sequence, kind, begin], axis=1)
        opens = np.ones(len(order), dtype=np.bool_)
        opens[1:] = (place[1:] != place[:-1]).any(axis=1)  # the longest span of each begin comes first
        track = np.cumsum(opens) - 1
        longest, several = end[opens][track], end - begin > 1
        slot = np.full(len(order), -1, dtype=np.int64)
        opens &= several  # a track whose longest span is one token is none
        slot[opens] = _slots(sequence[opens] * len(states.kinds) + kind[opens], begin[opens], end[opens])
        slot = np.where(several, slot[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))], -1)
        return cls(sequence, begin, end, kind, bonuses.bonus[order], longest, slot, opens)

    def of_sequences(self, sequences: IntArray) -> Self:
        """The tracks of some sequences, which are numbered in the order given."""
        numbers = np.full(int(max(self.sequence.max(initial=-1), sequences.max(initial=-1))) + 1, -1, dtype=np.int64)
        numbers[sequences] = np.arange(len(sequences))
        kept = numbers[self.sequence] >= 0
        columns = {name: column[kept] for name, column in vars(self).items()}
        return type(self)(**columns | {"sequence": numbers[columns["sequence"]]})

    def depths(self, count: int, kinds: int) -> IntArray:
        """``(B, K)``: how many copies of the states of each type each of `count` sequences needs."""
        result = np.zeros((count, kinds), dtype=np.int64)
        np.maximum.at(result, (self.sequence, self.kind), self.slot + 1)
        return result


def _slots(owner: IntArray, begin: IntArray, end: IntArray) -> IntArray:
    """The first copies that are free, for tracks sorted by owner and begin.

    A track may begin on the last token of another: there one is in its first state, the other in its last or its exit.
    """
    slots: list[int] = []
    before = -1
    ends: list[int] = []
    for own, first, last in zip(owner.tolist(), begin.tolist(), end.tolist(), strict=True):
        if own != before:
            before, ends = own, []
        for slot, taken in enumerate(ends):
            if taken <= first + 1:
                ends[slot] = last
                break
        else:
            slot = len(ends)
            ends.append(last)
        slots.append(slot)
    return np.array(slots, dtype=np.int64)


def rewarded(
    scores: ChainScores,
    states: SpanStates,
    bonuses: Bonuses,
    state_labels: IntArray | None = None,
    numbers: IntArray | None = None,
    gaps: Gaps | None = None,
) -> Iterator[ChainPart]:
    """Chains with the bonuses, of sequences that need the same copies together; others as they are.

    The score of a labelling is that of the chain and the bonuses of its spans. Spans across a gap are forbidden unless
    they have a bonus, whatever it is. The parts are about each sequence of the batch once, and call it by its entry in
    `numbers`, by default its place; `state_labels` are those of the chain as it is.
    """
    tracks, gaps = Tracks.of(bonuses, states), gaps or Gaps.none()
    touched = np.zeros(len(scores.lengths), dtype=np.int64)
    touched[tracks.sequence] = touched[gaps.sequence] = 1
    needs = np.column_stack([touched, tracks.depths(len(touched), len(states.kinds))])
    keys, group = np.unique(needs, axis=0, return_inverse=True)
    for number, key in enumerate(keys):
        sequences = np.flatnonzero(group.reshape(-1) == number)
        part = scores if len(keys) == 1 else scores.take(sequences)
        called = sequences if numbers is None else numbers[sequences]
        if not key[0]:
            yield ChainPart(called, part, state_labels)
            continue
        layout = TrackStates.of(states, key[1:])
        chain = layout.chain(part, tracks.of_sequences(sequences), gaps.of_sequences(sequences))
        yield ChainPart(called, chain, states.labels[layout.base])


@dataclass(frozen=True, eq=False)
class TrackStates:
    """The states of a chain with tracks: the plain ones, then copies for each type and slot."""

    states: SpanStates
    base: IntArray  # [A] the plain state that each is a copy of
    slot: IntArray  # [A] -1 for plain states
    leaves: BoolArray  # [A] the exit: from here a span goes on in plain states

    @classmethod
    def of(cls, states: SpanStates, depths: IntArray) -> TrackStates:
        """The plain states and this many copies of the states of each type."""
        A = len(states)
        parts = [(np.arange(A), np.full(A, -1), np.zeros(A, dtype=np.bool_))]
        for kind, depth in enumerate(depths.tolist()):
            mine = states.kind == kind
            copied = np.flatnonzero(mine & ~(states.starts & states.ends))
            exits = np.flatnonzero(mine & ~states.starts & ~states.ends)
            both, leaves = np.concatenate([copied, exits]), np.arange(len(copied) + len(exits)) >= len(copied)
            parts += [(both, np.full(len(both), slot), leaves) for slot in range(depth)]
        return cls(states, *(np.concatenate(column) for column in zip(*parts, strict=True)))

    @cached
    def kind(self) -> IntArray:
        """``[A]`` the type of each state's span, -1 outside."""
        return self.states.kind[self.base]

    @cached
    def starts(self) -> BoolArray:
        """``[A]`` whether a span starts in each state."""
        return self.states.starts[self.base]

    @cached
    def ends(self) -> BoolArray:
        """``[A]`` whether a span ends in each state."""
        return self.states.ends[self.base]

    @property
    def steps(self) -> PossibleSteps:
        """A span goes on where it is: on its track, or in plain states, which the exit leads back to."""
        goes_on = (self.kind >= 0) & ~self.starts
        stays = np.where(self.leaves, -1, self.slot)[:, None] == self.slot
        own = self.states.steps
        transitions = own.transitions[np.ix_(self.base, self.base)] & (~goes_on | stays)
        return PossibleSteps(transitions, own.start[self.base], own.end[self.base])

    def chain(self, scores: ChainScores, tracks: Tracks, gaps: Gaps) -> ChainScores:
        """The chain of these states, with bonuses."""
        offsets = offsets_of(scores.lengths)
        own, first, behind = self.states.own[self.base], offsets[tracks.sequence], offsets[gaps.sequence] + gaps.place
        plain = scores.emissions[:, own]
        emissions = np.where(self.slot < 0, plain, plain.dtype.type(-np.inf))
        self._part(emissions, behind)
        passed = np.cumsum(np.bincount(behind, minlength=len(plain)))  # gaps up to each token
        for kind, slot in sorted(set(zip(tracks.kind.tolist(), tracks.slot.tolist(), strict=True))):
            chosen = (tracks.kind == kind) & (tracks.slot == slot)
            mine = (self.kind == kind) & (self.slot == slot)
            rows = first[chosen] + tracks.end[chosen] - 1
            if slot >= 0:
                opening = np.flatnonzero(chosen & tracks.opens)
                begin, longest = (first[opening] + x[opening] for x in (tracks.begin, tracks.longest))
                self._open(emissions, plain, kind, mine, begin, longest)
                self._cut(emissions, mine, _Runs(begin, longest, rows, passed))
            paid = mine & self.ends & (self.starts if slot < 0 else ~self.starts)
            for column in np.flatnonzero(paid).tolist():
                np.add.at(emissions[:, column], rows, tracks.bonus[chosen])
        return expanded(scores, own, self.steps, emissions)

    def _part(self, emissions: AnyArray, behind: IntArray) -> None:
        """Close the plain states of spans that would run across gaps before these tokens."""
        spans = (self.slot < 0) & (self.kind >= 0)
        emissions[np.ix_(behind, np.flatnonzero(spans & ~self.starts))] = -np.inf
        emissions[np.ix_(behind - 1, np.flatnonzero(spans & ~self.ends))] = -np.inf

    def _cut(self, emissions: AnyArray, mine: BoolArray, runs: _Runs) -> None:
        """On tracks, close the ends behind a gap that have no bonus, and the exits there."""
        inside = mine & ~self.starts
        emissions[np.ix_(runs.ends_behind_gaps(), np.flatnonzero(inside & self.ends))] = -np.inf
        emissions[np.ix_(runs.exits_behind_gaps(), np.flatnonzero(inside & self.leaves))] = -np.inf

    def _open(
        self, emissions: AnyArray, plain: AnyArray, kind: int, mine: BoolArray, begin: IntArray, longest: IntArray
    ) -> None:
        """Make copies alive where their tracks run, and close the plain states in which their spans would begin."""
        inner = mine & ~self.starts & ~self.ends
        alive = (
            (mine & self.starts, begin),
            (mine & ~self.starts & self.ends, ranges(begin + 1, longest - begin - 1)),
            (inner & ~self.leaves, ranges(begin + 1, longest - begin - 2)),
            (inner & self.leaves, longest - 1),
        )
        for which, rows in alive:
            places = np.ix_(rows, np.flatnonzero(which))
            emissions[places] = plain[places]
        closed = (self.slot < 0) & (self.kind == kind) & self.starts & ~self.ends
        emissions[np.ix_(begin, np.flatnonzero(closed))] = -np.inf


class _Runs(NamedTuple):
    """Where tracks run, as tokens of the batch."""

    begin: IntArray
    longest: IntArray
    paid: IntArray  # the last tokens of spans with a bonus
    passed: IntArray  # [N] how many gaps there are up to each token

    def ends_behind_gaps(self) -> IntArray:
        """Tokens behind a gap in a track at which no span with a bonus ends."""
        later = self.longest - self.begin - 1
        rows = ranges(self.begin + 1, later)
        before = np.repeat(self.passed[self.begin], later)
        return rows[(self.passed[rows] > before) & ~np.isin(rows, self.paid)]

    def exits_behind_gaps(self) -> IntArray:
        """The last tokens of tracks that have a gap."""
        last = self.longest - 1
        return last[self.passed[last] > self.passed[self.begin]]
