"""The labels of a model (`TagSet`) with the constraints of their scheme, and the states of its chain (`StateMap`).

Labels never include START or STOP: where a sequence may begin and end is in two separate vectors.

A tag set also reads the spans of a whole batch as arrays (`SpanTable`), and knows the ways of writing them (`SpanWay`).
A span is an event about labels: its tokens carry certain tags, and its neighbours do not extend it. Most schemes write
a span in one way; IOB1 and IOE1 write it differently next to another span of its type, so they have two ways, which
exclude each other. The probability of a span is the sum over its ways.

Where illegal tags are possible, lenient reading finds a span in more of them: O I-PER O is a span, too. Inside a span
the roles are first, I ..., last; between two tokens of a span neither a start nor an end is read, so that

    first is B, I (E, S if it is the only token), and before I or E nothing goes on: no B or I of the same type
    last is I, E (B, S if it is the only token), and after B or I nothing goes on: no I or E of the same type
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise, product
from operator import index
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.arrays import BoolArray, IntArray
from trellis.errors import TagError, nearest, shown
from trellis.lazy import cached
from trellis.ragged import ranges
from trellis.tags.detection import detect
from trellis.tags.scheme import Role, Scheme, Style, legal_steps
from trellis.tags.spans import (
    Span,
    SpanTable,
    conlleval_tables,
    edge_roles,
    find_chunks,
    locate,
    make_label,
    parse_label,
    scheme_alphabet,
    spans_from_tags,
    tags_from_spans,
)


class SpanWay(NamedTuple):
    """One way of writing some spans of a table.

    The tokens of span ``rows[s]`` have the next ``end - begin`` of ``tags``; the token before it, if there is one,
    has a label in ``before[s]``, and the token after it one in ``after[s]``. None allows every label.
    """

    rows: IntArray  # [S]
    tags: IntArray  # flat
    before: BoolArray | None  # [S, L]
    after: BoolArray | None  # [S, L]


class LabelTable(NamedTuple):
    """The type and the role of each label of a tag set, as arrays over its ids."""

    kinds: tuple[str, ...]
    kind: IntArray  # [L]
    role: IntArray  # [L]
    ids: IntArray  # [K, roles]: the id of the label with a type and a role, -1 where there is none


_Sides = tuple[BoolArray | None, BoolArray | None]


def _ways_of_reading(table: SpanTable, labels: LabelTable) -> Iterator[SpanWay]:
    """All ways in which lenient reading finds the spans, legal or not."""
    sizes = table.end - table.begin
    single, longer = np.flatnonzero(sizes == 1), np.flatnonzero(sizes > 1)
    ends = [(single, role, role) for role in (Role.B, Role.I, Role.E, Role.S)]
    ends += [(longer, first, last) for first in (Role.B, Role.I) for last in (Role.I, Role.E)]
    same = labels.kind == np.arange(len(labels.kinds))[:, None]  # [K, L]
    goes_on_before = same & np.isin(labels.role, (Role.B, Role.I))
    goes_on_after = same & np.isin(labels.role, (Role.I, Role.E))
    for rows, first, last in ends:
        before = ~goes_on_before if first in (Role.I, Role.E) else None
        after = ~goes_on_after if last in (Role.B, Role.I) else None
        yield _way(table, labels, rows, (first, last, first), (before, after))


def _way(
    table: SpanTable, labels: LabelTable, rows: IntArray, roles: tuple[Role, Role, Role], sides: _Sides
) -> SpanWay:
    """These spans with the given roles of their first, last and only tokens, next to labels ``[K, L]`` of each type.

    Spans whose tags the tag set does not have are skipped, since they cannot occur.
    """
    sizes = (table.end - table.begin)[rows]
    tags = labels.ids[np.repeat(table.kind[rows], sizes), roles_of_spans(sizes, *roles)]
    possible = np.ones(len(rows), dtype=np.bool_)
    possible[np.repeat(np.arange(len(rows)), sizes)[tags < 0]] = False
    rows, tags = rows[possible], tags[np.repeat(possible, sizes)]
    before, after = (None if side is None else side[table.kind[rows]] for side in sides)
    return SpanWay(rows, tags, before, after)


def roles_of_spans(sizes: IntArray, first: Role, last: Role, only: Role) -> IntArray:
    """The role of each token of spans of these sizes, flat."""
    stops = np.cumsum(sizes)
    roles = np.full(int(sizes.sum()), Role.I, dtype=np.int64)
    roles[stops - sizes] = first
    roles[stops - 1] = np.where(sizes == 1, only, last)
    return roles


def _sides(labels: LabelTable, scheme: Scheme, adjoins_left: bool, adjoins_right: bool) -> _Sides:
    """For a span of each type ``[K, L]``: the labels before and after it that do not extend it."""
    same = (labels.kind == np.arange(len(labels.kinds))[:, None]) & (labels.role != Role.O)
    not_inner = ~(same & (labels.role == Role.I))
    match scheme:
        case Scheme.IO:
            return ~same, ~same
        case Scheme.IOB1:
            return same if adjoins_left else ~same, not_inner
        case Scheme.IOE1:
            return not_inner, same if adjoins_right else ~same
        case Scheme.IOB2:
            return None, not_inner
        case Scheme.IOE2:
            return not_inner, None
        case _:
            return None, None


def steps_between(table: BoolArray, roles: IntArray, kinds: Iterable[str]) -> BoolArray:
    """``table[previous role, role, types equal]`` for each pair of labels; row and column 0 are the sequence's edge."""
    numbers: dict[str, int] = {"": 0}
    kind = np.array([0, *(numbers.setdefault(kind, len(numbers)) for kind in kinds)], dtype=np.intp)
    role = np.concatenate([[Role.O], roles])
    same = (kind[:, None] == kind[None, :]).astype(np.intp)
    result: BoolArray = table[role[:, None], role[None, :], same]
    return result


class AllowedTransitions(NamedTuple):
    """``transitions[i, j]``: may j follow i; ``start[j]``, ``end[i]``: may a sequence begin or end with it."""

    transitions: BoolArray  # [L, L]
    start: BoolArray  # [L]
    end: BoolArray  # [L]


@dataclass(frozen=True)
class TagSet:
    """Labels with ids ``0..L-1``, and the scheme and style that they are written in."""

    labels: tuple[str, ...]
    scheme: Scheme = Scheme.PLAIN
    style: Style = Style.PREFIX
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)
    parsed: tuple[tuple[Role, str], ...] = field(init=False, repr=False, compare=False)
    """The role and the type that each label says."""
    _table: LabelTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        ids = {label: index for index, label in enumerate(self.labels)}
        if len(ids) < len(self.labels):
            twice = next(label for i, label in enumerate(self.labels) if ids[label] != i)
            raise TagError(f"label {shown(twice)} occurs twice in {shown(self.labels)}")
        object.__setattr__(self, "_ids", ids)
        parsed = tuple(parse_label(label, self.scheme, self.style) for label in self.labels)
        object.__setattr__(self, "parsed", parsed)
        kinds = tuple(dict.fromkeys(kind for _, kind in parsed))
        kind_ids = np.array([kinds.index(kind) for _, kind in parsed], dtype=np.int64)
        roles = np.array([role for role, _ in parsed], dtype=np.int64)
        by_role = np.full((len(kinds), len(Role)), -1, dtype=np.int64)
        by_role[kind_ids, roles] = np.arange(len(parsed))
        object.__setattr__(self, "_table", LabelTable(kinds, kind_ids, roles, by_role))

    @classmethod
    def from_sequences(
        cls,
        sequences: Iterable[Sequence[str]],
        *,
        scheme: Scheme | None = None,
        style: Style | None = None,
        complete: bool = False,
    ) -> TagSet:
        """The labels that occur, O first, then by type and role, in the best fitting scheme unless one is given.

        ``complete`` adds, for every type that occurs, the labels of the scheme that do not occur: a type
        seen only in single-token spans can then still be predicted over two tokens.
        """
        sequences = list(sequences)
        detection = detect(sequences, scheme=scheme, style=style)
        # Labels in another spelling stay as they are: what was given is what is predicted.
        scheme, style = Scheme.PLAIN if detection.spelling and scheme is None else detection.scheme, detection.style
        return cls.from_labels(set().union(*sequences), scheme, style, complete=complete)

    @classmethod
    def from_labels(
        cls, labels: Iterable[str], scheme: Scheme, style: Style = Style.PREFIX, *, complete: bool = False
    ) -> TagSet:
        """These labels in order; see `from_sequences`."""
        parsed = {parse_label(label, scheme, style) for label in labels}
        if complete and scheme is not Scheme.PLAIN:
            roles = {*scheme.letters.values()} - {Role.O}
            parsed |= {(role, kind) for _, kind in parsed if _ is not Role.O for role in roles}
        ordered = sorted(parsed, key=lambda item: (item[0] is not Role.O, item[1], item[0]))
        return cls(tuple(make_label(role, kind, scheme, style) for role, kind in ordered), scheme, style)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self._ids

    def id(self, label: str) -> int:
        """The id of a label; one that is not in the set raises ``TagError``."""
        return int(self.encode([label])[0])

    def encode(self, tags: Sequence[str]) -> IntArray:
        """Ids of one tag sequence."""
        try:
            return np.fromiter(map(self._ids.__getitem__, tags), dtype=np.int64, count=len(tags))
        except KeyError:
            position, tag = next((i, tag) for i, tag in enumerate(tags) if tag not in self._ids)
            near = nearest(str(tag)[:80], self.labels, always=True)
            hint = "" if near is None else f"; the nearest of its {len(self)} labels is {near!r}"
            raise TagError(f"label {tag!r:.80} at position {position} is not in the tag set{hint}") from None

    def decode(self, ids: Iterable[int] | NDArray[np.integer]) -> list[str]:
        """Tags of one sequence of ids."""
        numbers = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), dtype=np.intp)
        outside = np.flatnonzero((numbers < 0) | (numbers >= len(self)))
        if len(outside):
            position = int(outside[0])
            raise TagError(f"id {numbers[position]} at position {position} is not a label: expected 0..{len(self) - 1}")
        return [self.labels[number] for number in numbers.tolist()]

    def allowed_transitions(self) -> AllowedTransitions:
        """Masks for a chain, whose paths are then exactly the tag sequences that are legal in the scheme."""
        table = steps_between(legal_steps(self.scheme), self._table.role, (kind for _, kind in self.parsed))
        return AllowedTransitions(table[1:, 1:].copy(), table[0, 1:].copy(), table[1:, 0].copy())

    def span_steps(self) -> tuple[BoolArray, BoolArray]:
        """Between which labels `find_spans` reads that a span starts or ends, legal or not: two tables [L + 1, L + 1].

        ``starts[i, j]``: a span starts with j if it follows i; ``ends[i, j]``: a span ends with i if j follows it. Row
        and column 0 are the edge of a sequence; label i has the number i + 1.
        """
        kinds = [kind for _, kind in self.parsed]
        starts, ends = (steps_between(table, self._table.role, kinds) for table in conlleval_tables())
        return starts, ends

    def find_spans(self, ids: IntArray, lengths: IntArray) -> SpanTable:
        """The spans of flat label ids, as `spans_from_tags` reads them."""
        if self.scheme is Scheme.PLAIN:  # each token is a span
            sequence = np.repeat(np.arange(len(lengths)), lengths)
            begin = np.arange(len(ids)) - (np.cumsum(lengths) - lengths)[sequence]
            return SpanTable(sequence, begin, begin + 1, self._table.kind[ids], self._table.kinds)
        alphabet = scheme_alphabet(self.scheme, self.style)
        for label in self.labels:
            alphabet[label]  # code 0 is the break, so the label with id i has code i + 1
        codes = np.zeros(len(ids) + len(lengths), dtype=np.uint32)
        codes[np.arange(len(ids)) + np.repeat(np.arange(len(lengths)), lengths)] = ids + 1
        chunks = find_chunks(alphabet, codes.astype(np.uint8) if len(self) < 255 else codes)
        sequence, offset = locate(chunks, lengths)
        numbers = {kind: i for i, kind in enumerate(self._table.kinds)}
        kind = np.array([numbers.get(kind, -1) for kind in alphabet.kinds], dtype=np.int64)[chunks.kind]
        return SpanTable(sequence, chunks.begin - offset, chunks.end - offset, kind, self._table.kinds)

    def table_of_spans(self, spans: Sequence[Sequence[Span]], lengths: IntArray) -> SpanTable:
        """Spans of each sequence as a table; a span outside its sequence, or of no type of this set, is an error."""
        try:
            rows = [(b, *Span(*span)) for b, several in enumerate(spans) for span in several]
            rows = [(b, index(begin), index(end), label) for b, begin, end, label in rows]
        except TypeError:
            raise TagError(f"expected (start, end, label) for each span of each sequence, got {spans!r:.80}") from None
        kinds = {kind: i for i, kind in enumerate(self._table.kinds)}
        for b, begin, end, label in rows:
            if not 0 <= begin < end <= lengths[b]:
                raise TagError(f"{Span(begin, end, label)} does not lie in a sequence of {lengths[b]} tokens")
            if label not in kinds:
                raise TagError(f"{Span(begin, end, label)} has a type that no label of the tag set has")
        numbers = np.array([(b, begin, end, kinds[label]) for b, begin, end, label in rows], dtype=np.int64)
        columns = numbers.reshape(-1, 4).T
        return SpanTable(columns[0], columns[1], columns[2], columns[3], self._table.kinds)

    def ways_of_writing(self, table: SpanTable, lengths: IntArray, *, illegal: bool = False) -> list[SpanWay]:
        """The ways of writing spans, as events that exclude each other: a span's probability is the sum of theirs.

        With `illegal` also those tags which the scheme forbids and `find_spans` reads as the span all the same.
        """
        if illegal and self.scheme is not Scheme.PLAIN:
            return list(_ways_of_reading(table, self._table))
        has_left, has_right = table.begin > 0, table.end < lengths[table.sequence]
        every = np.ones(len(table.begin), dtype=np.bool_)
        lefts = [(False, every), (True, has_left)] if self.scheme is Scheme.IOB1 else [(False, every)]
        rights = [(False, every), (True, has_right)] if self.scheme is Scheme.IOE1 else [(False, every)]
        ways = []
        for (adjoins_left, left), (adjoins_right, right) in product(lefts, rights):
            roles = edge_roles(self.scheme, adjoins_left, adjoins_right)
            sides = _sides(self._table, self.scheme, adjoins_left, adjoins_right)
            ways.append(_way(table, self._table, np.flatnonzero(left & right), roles, sides))
        return ways


# States finer than labels: what a chain learns where another scheme than that of the data is easier to learn.
#
#     labels (IOB2)      B-PER  I-PER  O  B-LOC     what the data say, and what is answered
#     states (BIOES)     B-PER  E-PER  O  S-LOC     what is learned
#
# A state is a pair of both: the label it stands for, and its role in the scheme that is learned. A step is possible
# where both schemes allow it and agree about the spans that start and end there. So paths of states and legal
# sequences of labels correspond one to one, and the probability of anything said about labels is a sum over states.

FINER = (Scheme.IOB2, Scheme.IOE2, Scheme.BIOES, Scheme.BILOU, Scheme.BMES)
"""Schemes to learn in: the role of a token does not depend on the neighbours of its span."""
_FINEST = (Scheme.BIOES, Scheme.BILOU, Scheme.BMES)


def scheme_to_learn(tags: TagSet, wanted: str | None) -> Scheme:
    """The scheme asked for; unset, BIOES, or BMES where spans have no types; "data" is that of the labels."""
    if wanted is not None and wanted.strip().lower() == "data":
        return tags.scheme
    if wanted is None:
        return Scheme.BIOES if any(kind for _, kind in tags.parsed) else Scheme.BMES
    scheme = Scheme.parse(wanted)
    if scheme not in (tags.scheme, *FINER):
        names = ", ".join(one.value for one in FINER)
        raise TagError(f"learn_scheme must be data or one of {names}, got {wanted!r}")
    return scheme


@dataclass(frozen=True, eq=False)
class StateMap:
    """The states of a chain that answers with the labels of `tags` and learns them in `scheme`."""

    tags: TagSet
    scheme: Scheme
    labels: IntArray  # [S] the label each state stands for
    roles: IntArray  # [S] its role in the scheme that is learned

    @classmethod
    def of(cls, tags: TagSet, scheme: Scheme | None = None) -> StateMap:
        """The states for learning in `scheme`; those of an earlier set of labels stay the first of a longer one.

        Where the labels tell apart as much themselves, or have no scheme, the states are the labels.
        """
        if scheme in (None, tags.scheme) or tags.scheme in (Scheme.PLAIN, *_FINEST):
            roles = np.array([role for role, _ in tags.parsed], dtype=np.int64)
            return cls(tags, tags.scheme, np.arange(len(tags)), roles)
        numbers = {parsed: label for label, parsed in enumerate(tags.parsed)}
        kinds = dict.fromkeys(kind for role, kind in tags.parsed if role is not Role.O)
        # Spans of each type in every situation that the labels can write, as pairs of label and role; O by itself.
        examples = [[(numbers[Role.O, ""], Role.O)]] if (Role.O, "") in numbers else []
        examples += [
            [(numbers[role, kind], learned) for role, learned in situation]
            for kind, situation in product(kinds, _situations(tags.scheme, scheme))
            if all((role, kind) in numbers for role, _ in situation)
        ]
        newest_label: dict[tuple[int, Role], int] = {}
        for pairs in examples:
            newest = max(label for label, _ in pairs)
            newest_label |= {pair: min(newest, newest_label.get(pair, newest)) for pair in pairs}
        ordered = sorted(newest_label, key=lambda pair: (newest_label[pair], *pair))
        columns = np.array(ordered, dtype=np.int64).reshape(-1, 2).T
        return cls(tags, scheme, columns[0].copy(), columns[1].copy())

    def __len__(self) -> int:
        """S, the number of states."""
        return len(self.labels)

    @property
    def finer(self) -> IntArray | None:
        """The label that each state stands for; None where the states are the labels."""
        return None if self.scheme is self.tags.scheme else self.labels

    @cached
    def names(self) -> tuple[str, ...]:
        """A name for each state: its label in the scheme that is learned."""
        if self.finer is None:
            return self.tags.labels
        kinds = [self.tags.parsed[label][1] for label in self.labels]
        roles = [Role(role) for role in self.roles.tolist()]
        names = [make_label(*pair, self.scheme, self.tags.style) for pair in zip(roles, kinds, strict=True)]
        labels = [self.tags.labels[label] for label in self.labels]
        return tuple(f"{a} ({b})" if names.count(a) > 1 else a for a, b in zip(names, labels, strict=True))

    def encode(self, ids: IntArray, lengths: IntArray) -> IntArray:
        """The states of flat label ids, which are legal where the states are finer."""
        if self.finer is None:
            return ids
        spans = self.tags.find_spans(ids, lengths)
        sizes, starts = spans.end - spans.begin, (np.cumsum(lengths) - lengths)[spans.sequence] + spans.begin
        roles = np.full(len(ids), Role.O, dtype=np.int64)
        roles[ranges(starts, sizes)] = roles_of_spans(sizes, *edge_roles(self.scheme))
        return self._numbers[ids, roles]

    def allowed(self, labels: BoolArray) -> BoolArray:
        """``(N, L)`` by label as ``(N, S)`` by state."""
        return labels if self.finer is None else np.take(labels, self.labels, axis=1)

    def allowed_transitions(self) -> AllowedTransitions:
        """The steps that both schemes allow, and in which they agree where spans start and end."""
        limits = self.tags.allowed_transitions()
        if self.finer is None:
            return limits
        kinds = [self.tags.parsed[label][1] for label in self.labels]
        label_roles = np.array([self.tags.parsed[label][0] for label in self.labels], dtype=np.int64)
        steps = steps_between(legal_steps(self.scheme), self.roles, kinds)
        for table in conlleval_tables():
            steps &= steps_between(table, self.roles, kinds) == steps_between(table, label_roles, kinds)
        both = np.ix_(self.labels, self.labels)
        return AllowedTransitions(
            steps[1:, 1:] & limits.transitions[both],
            steps[0, 1:] & limits.start[self.labels],
            steps[1:, 0] & limits.end[self.labels],
        )

    @cached
    def _numbers(self) -> IntArray:
        """``(L, roles)``: the state with a label and a role, -1 where there is none."""
        numbers = np.full((len(self.tags), len(Role)), -1, dtype=np.int64)
        numbers[self.labels, self.roles] = np.arange(len(self))
        return numbers


@cache
def _situations(written: Scheme, learned: Scheme) -> tuple[tuple[tuple[Role, Role], ...], ...]:
    """Pairs of roles in both schemes, token by token: spans of 1 to 3 tokens with and without neighbours of their type.

    In IO, spans that adjoin cannot be told apart, so there is nothing to be learned from these.
    """
    situations = []
    for sizes in product((0, 1), (1, 2, 3), (0, 1)):
        edges = [0, *accumulate(sizes)]
        spans = [Span(begin, end, "X") for begin, end in pairwise(edges) if begin < end]
        one, two = (tags_from_spans(spans, edges[-1], scheme) for scheme in (written, learned))
        if spans_from_tags(one, written) == spans:
            roles = zip(
                (parse_label(tag, written)[0] for tag in one),
                (parse_label(tag, learned)[0] for tag in two),
                strict=True,
            )
            situations.append(tuple(roles))
    return tuple(situations)
