"""Whole spans in a chain: conditions on them, and bonuses for them, exact in every answer.

**Span states.** Whether a span starts or ends at a token depends on its label and on the label beside it, as
`trellis.tags.TagSet.find_spans` reads them. `SpanStates` splits each state of a chain into versions that answer both
questions: it starts a span or not, it ends one or not.

    labels (IOB2)      B-PER  I-PER  O  B-LOC
    states             first  last   O  only

A step between two versions is allowed only if both say truly where spans begin and end. So paths correspond one to one
and keep their scores, and "tokens 2 to 4 are a span of type PER" becomes a condition on single tokens. Where the labels
tell it themselves (BIOES, BMES), each state has one version, and the chain stays as it is.

**Tracks.** A bonus for the span (begin, end, type) does not decompose over states either: inside a span, a state does
not say where the span began. So every (begin, type) at which a span of two tokens or more has a bonus opens a *track*:
copies of the states of that type which can be used from the begin to the end of the longest such span.

    tokens        he   lives  in   New    York   State  .
    plain         O    O      O    -      ...    ...    O
    track                          first  inner  exit           a span that is longer than the track goes on from here
                                          last   last           a span ends here: the bonus of (3, 5) or of (3, 6)

A span that begins where a track does must run on it. Where it ends, it collects the bonus of that end, if there is one;
if it is longer than the track, it returns to the plain states through the exit. That is a bijection between paths, so
log Z, best path, k best, marginals, samples and entropy stay exact and linear in the length. Emissions of minus
infinity say where a copy cannot be used; transitions are shared, and tracks of one type that do not overlap take turns
on the same copies. A span of one token needs no track: its bonus is added to its only state.

**Gaps.** In raw text, a span crosses white space only if it has a bonus, whatever that bonus is: plain states are cut
there, and a track behind a gap keeps only the ends that have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.chain import ChainScores
from trellis.ragged import offsets_of, ranges
from trellis.tags import AllowedTransitions, Role, TagSet


@dataclass(frozen=True, eq=False)
class SpanStates:
    """The states of a chain, each in the versions that say whether a span starts and whether one ends there."""

    state: IntArray  # [A] the state of the chain that this is a version of
    labels: IntArray  # [A] its label
    kind: IntArray  # [A] the type of its span, an index into `kinds`; -1 outside every span
    starts: BoolArray  # [A]
    ends: BoolArray  # [A]
    steps: AllowedTransitions  # between versions that say truly where spans begin and end
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, scores: ChainScores, tags: TagSet, state_labels: IntArray | None) -> SpanStates:
        """The versions of a chain's states that some path can visit, and at least one of each."""
        labels = np.arange(len(tags)) if state_labels is None else state_labels
        # Tables over states (S + 1, S + 1) from those over labels; row and column 0 are the edge of a sequence.
        rows = np.concatenate([[0], labels + 1])
        starts, ends = (table[np.ix_(rows, rows)] for table in tags.span_steps())
        possible = np.zeros(starts.shape, dtype=np.bool_)
        possible[1:, 1:], possible[0, 1:], possible[1:, 0] = (
            x > -np.inf for x in (scores.transitions, scores.start, scores.end)
        )
        # can_start[s, x]: some step into state s starts a span (x = 1) or does not (x = 0); can_end: a step out of it
        can_start = np.stack([(possible & (starts == x))[:, 1:].any(axis=0) for x in (False, True)], axis=1)
        can_end = np.stack([(possible & (ends == x))[1:].any(axis=1) for x in (False, True)], axis=1)
        for can in (can_start, can_end):
            can[~can.any(axis=1), 0] = True
        state, *versions = np.argwhere(can_start[:, :, None] & can_end[:, None, :]).T
        starting, ending = (x > 0 for x in versions)
        row = state + 1
        pairs = np.ix_(row, row)
        steps = AllowedTransitions(
            (starts[pairs] == starting) & (ends[pairs] == ending[:, None]),
            starts[0, row] == starting,
            ends[row, 0] == ending,
        )
        kinds = span_types(tags)
        kind = np.array([-1 if role is Role.O else kinds.index(name) for role, name in tags.parsed], dtype=np.int64)
        return cls(state, labels[state], kind[labels[state]], starting, ending, steps, kinds)

    def __len__(self) -> int:
        return len(self.state)

    def chain(self, scores: ChainScores) -> ChainScores:
        """The chain with these states; paths and their scores stay."""
        if len(self) == scores.num_labels:  # one version each: no step is to be ruled out
            return scores
        return _expanded(scores, self.state, self.steps, scores.emissions[:, self.state])

    def inside(self, size: int, kind: int | None) -> BoolArray:
        """``(size, A)``: the states with which `size` tokens are one whole span of this type; of any type for None."""
        fits = self.kind >= 0 if kind is None else self.kind == kind
        first, last = np.arange(size) == 0, np.arange(size) == size - 1
        result: BoolArray = fits & (self.starts == first[:, None]) & (self.ends == last[:, None])
        return result


def span_types(tags: TagSet) -> tuple[str, ...]:
    """The types of spans; one empty type if they have none."""
    return tuple(dict.fromkeys(kind for role, kind in tags.parsed if role is not Role.O))


def cut_at_gaps(scores: ChainScores, gaps: IntArray, tags: TagSet, state_labels: IntArray | None) -> ChainScores:
    """The chain in which no word runs across the white space before these tokens, numbered through the batch.

    The token after a gap begins like the first of a sentence, the token before it ends like the last.
    """
    if not len(gaps):
        return scores
    legal = tags.allowed_transitions()
    allowed = np.ones((len(scores.emissions), len(tags)), dtype=np.bool_)
    allowed[gaps] &= legal.start
    allowed[gaps - 1] &= legal.end
    return scores.restricted(allowed if state_labels is None else allowed[:, state_labels])


def _expanded(scores: ChainScores, state: IntArray, steps: AllowedTransitions, emissions: AnyArray) -> ChainScores:
    """A chain of versions of states, with these emissions; only `steps` are possible."""
    forbidden = scores.emissions.dtype.type(-np.inf)
    return ChainScores(
        emissions,
        scores.lengths,
        np.where(steps.transitions, scores.transitions[np.ix_(state, state)], forbidden),
        np.where(steps.start, scores.start[state], forbidden),
        np.where(steps.end, scores.end[state], forbidden),
        None if scores.edges is None else scores.edges[:, state][:, :, state],
    )


class Bonuses(NamedTuple):
    """Bonuses of spans: tokens ``begin`` to ``end - 1`` of a sequence, as one span of this type."""

    sequence: IntArray  # [M]
    begin: IntArray  # [M]
    end: IntArray  # [M]
    kind: IntArray  # [M] an index into `SpanStates.kinds`
    bonus: FloatArray  # [M] in log odds; those of one span add up


class ChainPart(NamedTuple):
    """A chain for some sequences of a batch."""

    sequences: IntArray
    scores: ChainScores
    state_labels: IntArray | None
    """The label that each state stands for; None if the states are the labels."""


def with_bonuses(
    scores: ChainScores,
    states: SpanStates,
    bonuses: Bonuses,
    state_labels: IntArray | None = None,
    *,
    numbers: IntArray | None = None,
    gaps: BoolArray | None = None,
) -> Iterator[ChainPart]:
    """Chains in which the score of a labelling is that of the given chain plus the bonuses of its spans.

    Sequences that need the same copies of states share a chain; those without a bonus or a gap keep the given one.

    Args:
        scores: the chain.
        states: its span states.
        bonuses: of spans.
        state_labels: the label that each state of the given chain stands for; None if the states are the labels.
        numbers: what the parts call each sequence; default: its number in the batch.
        gaps: ``(N,)`` the tokens behind white space that only spans with a bonus may cross.

    """
    B = len(scores.lengths)
    tracks = Tracks.of(bonuses, states)
    owner = np.repeat(np.arange(B), scores.lengths)
    needs = np.zeros((B, 1 + len(states.kinds)), dtype=np.int64)  # whether the chain changes, and copies of each type
    needs[tracks.sequence, 0] = 1
    if gaps is not None:
        needs[owner[gaps], 0] = 1
    np.maximum.at(needs, (tracks.sequence, 1 + tracks.kind), tracks.slot + 1)
    keys, group = np.unique(needs, axis=0, return_inverse=True)
    for number, key in enumerate(keys):
        sequences = np.flatnonzero(group.reshape(-1) == number)
        part = scores if len(keys) == 1 else scores.take(sequences)
        called = sequences if numbers is None else numbers[sequences]
        if not key[0]:
            yield ChainPart(called, part, state_labels)
            continue
        behind = np.empty(0, dtype=np.int64) if gaps is None else np.flatnonzero(gaps[np.isin(owner, sequences)])
        layout = TrackStates.of(states, key[1:])
        chain = layout.chain(part, of_sequences(tracks, sequences), behind)
        yield ChainPart(called, chain, states.labels[layout.base])


class Tracks(NamedTuple):
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
        of_several = np.zeros(len(states.kinds), dtype=np.bool_)  # types with spans of several tokens
        of_several[states.kind[(states.kind >= 0) & states.starts & ~states.ends]] = True
        possible = np.flatnonzero((bonuses.end - bonuses.begin == 1) | of_several[bonuses.kind])
        # by sequence, type and begin, the longest span of each begin first
        keys = (-bonuses.end, bonuses.begin, bonuses.kind, bonuses.sequence)
        order = possible[np.lexsort(tuple(key[possible] for key in keys))]
        sequence, begin, end, kind = (column[order] for column in bonuses[:4])
        M = len(sequence)
        begins = np.stack([sequence, kind, begin], axis=1)
        opens = np.ones(M, dtype=np.bool_)
        opens[1:] = (begins[1:] != begins[:-1]).any(axis=1)
        longest = end[opens][np.cumsum(opens) - 1]
        several = end - begin > 1
        opens &= several  # if the longest span of a begin has one token, there is no track
        slot = np.full(M, -1, dtype=np.int64)
        slot[opens] = _slots(sequence[opens] * len(states.kinds) + kind[opens], begin[opens], end[opens])
        opening = np.maximum.accumulate(np.where(opens, np.arange(M), 0))  # the row that opens the track of each row
        return cls(
            sequence, begin, end, kind, bonuses.bonus[order], longest, np.where(several, slot[opening], -1), opens
        )


R = TypeVar("R", Bonuses, Tracks)


def of_sequences(table: R, sequences: IntArray) -> R:
    """The rows of some sequences, given in ascending order, which are numbered in that order."""
    chosen = np.isin(table.sequence, sequences)
    columns: list[Any] = [column[chosen] for column in table]
    columns[0] = np.searchsorted(sequences, columns[0])
    return type(table)(*columns)


def _slots(owner: IntArray, begin: IntArray, end: IntArray) -> IntArray:
    """The first copies that are free, for tracks sorted by owner and begin.

    A track may begin on the last token of another: there one is in its first state, the other in its last or its exit.
    """
    slots: list[int] = []
    previous, ends = -1, list[int]()  # ends: where the last track on each copy ends
    for number, first, last in zip(owner.tolist(), begin.tolist(), end.tolist(), strict=True):
        if number != previous:
            previous, ends = number, []
        slot = next((slot for slot, free_from in enumerate(ends) if free_from <= first + 1), len(ends))
        ends[slot : slot + 1] = [last]
        slots.append(slot)
    return np.array(slots, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TrackStates:
    """The states of a chain with tracks: the plain ones, then copies for each type and slot."""

    states: SpanStates
    base: IntArray  # [A] the plain state that each is a copy of
    slot: IntArray  # [A] -1 for plain states
    exits: BoolArray  # [A] from here a span goes on in plain states

    @classmethod
    def of(cls, states: SpanStates, depths: IntArray) -> TrackStates:
        """The plain states and this many copies of the states of each type."""
        A = len(states)
        parts = [(np.arange(A), np.full(A, -1), np.zeros(A, dtype=np.bool_))]
        for kind, depth in enumerate(depths.tolist()):
            of_kind = states.kind == kind
            copied = np.flatnonzero(of_kind & ~(states.starts & states.ends))
            exits = np.flatnonzero(of_kind & ~states.starts & ~states.ends)
            copies, is_exit = np.concatenate([copied, exits]), np.arange(len(copied) + len(exits)) >= len(copied)
            parts += [(copies, np.full(len(copies), slot), is_exit) for slot in range(depth)]
        return cls(states, *(np.concatenate(column) for column in zip(*parts, strict=True)))

    def chain(self, scores: ChainScores, tracks: Tracks, behind: IntArray) -> ChainScores:
        """The chain of these states, with bonuses; tokens `behind` gaps, numbered through the batch."""
        kinds = self.states.kind[self.base]
        starts, ends = (x[self.base] for x in (self.states.starts, self.states.ends))
        is_plain, state = self.slot < 0, self.states.state[self.base]
        first = offsets_of(scores.lengths)[tracks.sequence]
        plain = scores.emissions[:, state]
        emissions = np.where(is_plain, plain, plain.dtype.type(-np.inf))

        def close(tokens: IntArray, which: BoolArray) -> None:
            emissions[np.ix_(tokens, np.flatnonzero(which))] = -np.inf

        close(behind, is_plain & (kinds >= 0) & ~starts)
        close(behind - 1, is_plain & (kinds >= 0) & ~ends)
        passed = np.cumsum(np.bincount(behind, minlength=len(plain)))  # gaps up to each token
        for kind, slot in sorted(set(zip(tracks.kind.tolist(), tracks.slot.tolist(), strict=True))):
            rows, copies = (tracks.kind == kind) & (tracks.slot == slot), (kinds == kind) & (self.slot == slot)
            last = first[rows] + tracks.end[rows] - 1  # the last tokens of spans with a bonus
            if slot >= 0:
                opening = np.flatnonzero(rows & tracks.opens)
                begin, longest = (first[opening] + x[opening] for x in (tracks.begin, tracks.longest))
                later = ranges(begin + 1, longest - begin - 1)
                inner = copies & ~starts & ~ends
                usable = (
                    (copies & starts, begin),
                    (copies & ~starts & ends, later),
                    (inner & ~self.exits, ranges(begin + 1, longest - begin - 2)),
                    (inner & self.exits, longest - 1),
                )
                for which, tokens in usable:
                    cells = np.ix_(tokens, np.flatnonzero(which))
                    emissions[cells] = plain[cells]
                close(begin, is_plain & (kinds == kind) & starts & ~ends)  # a span that begins here runs on the track
                # behind a gap, a span may end only with a bonus, and not outgrow its track
                crossed = passed[later] > np.repeat(passed[begin], longest - begin - 1)
                close(later[crossed & ~np.isin(later, last)], copies & ~starts & ends)
                close((longest - 1)[passed[longest - 1] > passed[begin]], inner & self.exits)
            for column in np.flatnonzero(copies & ends & (starts == (slot < 0))).tolist():
                np.add.at(emissions[:, column], last, tracks.bonus[rows])
        # A span goes on where it is: on its track, or in plain states, which the exit leads back to.
        goes_on = (kinds >= 0) & ~starts
        stays = np.where(self.exits, -1, self.slot)[:, None] == self.slot
        steps = self.states.steps
        allowed = AllowedTransitions(
            steps.transitions[np.ix_(self.base, self.base)] & (~goes_on | stays),
            steps.start[self.base],
            steps.end[self.base],
        )
        return _expanded(scores, state, allowed, emissions)
