"""Spans of a whole batch as arrays, and the ways in which a tag set writes them.

A span is an event about labels: its tokens carry certain tags, and its neighbours do not extend it. Most schemes write
a span in one way; IOB1 and IOE1 write it differently next to another span of its type, so they have two ways, which
exclude each other. The probability of a span is the sum over its ways.

Where illegal tags are possible, lenient reading finds a span in more of them: O I-PER O is a span, too. Inside a span
the roles are first, I ..., last; between two tokens of a span neither a start nor an end is read, so that

    first is B, I (E, S if it is the only token), and before I or E nothing goes on: no B or I of the same type
    last is I, E (B, S if it is the only token), and after B or I nothing goes on: no I or E of the same type
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.tags.labels import Role
from trellis.tags.schemes import Scheme
from trellis.tags.spans import Span, edge_roles


class SpanTable(NamedTuple):
    """Spans of a batch, sorted by sequence: tokens ``begin`` to ``end - 1`` with the type ``kinds[kind]``."""

    sequence: IntArray  # [S]
    begin: IntArray  # [S]
    end: IntArray  # [S]
    kind: IntArray  # [S]
    kinds: tuple[str, ...]

    def split(self, count: int) -> list[list[Span]]:
        """The spans of each of `count` sequences."""
        result: list[list[Span]] = [[] for _ in range(count)]
        columns = (self.sequence, self.begin, self.end, self.kind)
        for sequence, begin, end, kind in zip(*(column.tolist() for column in columns), strict=True):
            result[sequence].append(Span(begin, end, self.kinds[kind]))
        return result


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
    """What each label of a tag set says, as arrays over its ids."""

    kinds: tuple[str, ...]
    kind: IntArray  # [L]
    role: IntArray  # [L]
    ids: IntArray  # [K, roles]: the id of the label with a type and a role, -1 where there is none

    @classmethod
    def of(cls, parsed: Sequence[tuple[Role, str]]) -> LabelTable:
        """From the role and the type of each label."""
        kinds = tuple(dict.fromkeys(kind for _, kind in parsed))
        numbers = {kind: number for number, kind in enumerate(kinds)}
        kind = np.array([numbers[own] for _, own in parsed], dtype=np.int64)
        role = np.array([role for role, _ in parsed], dtype=np.int64)
        ids = np.full((len(kinds), len(Role)), -1, dtype=np.int64)
        ids[kind, role] = np.arange(len(parsed))
        return cls(kinds, kind, role, ids)


def ways_of_writing(table: SpanTable, labels: LabelTable, scheme: Scheme, lengths: IntArray) -> list[SpanWay]:
    """All ways of all spans; a way that needs a label that is not in the tag set is skipped, since it cannot occur."""
    has_left, has_right = table.begin > 0, table.end < lengths[table.sequence]
    every = np.ones(len(table.begin), dtype=np.bool_)
    lefts = [(False, every), (True, has_left)] if scheme is Scheme.IOB1 else [(False, every)]
    rights = [(False, every), (True, has_right)] if scheme is Scheme.IOE1 else [(False, every)]
    return [
        _way(table, labels, scheme, np.flatnonzero(left & right), adjoins_left, adjoins_right)
        for adjoins_left, left in lefts
        for adjoins_right, right in rights
    ]


def ways_of_reading(table: SpanTable, labels: LabelTable) -> list[SpanWay]:
    """All ways in which lenient reading finds the spans, legal or not."""
    sizes = table.end - table.begin
    single, longer = np.flatnonzero(sizes == 1), np.flatnonzero(sizes > 1)
    ends = [(single, role, role) for role in (Role.B, Role.I, Role.E, Role.S)]
    ends += [(longer, first, last) for first in (Role.B, Role.I) for last in (Role.I, Role.E)]
    return [_reading_way(table, labels, rows, first, last) for rows, first, last in ends]


def _reading_way(table: SpanTable, labels: LabelTable, rows: IntArray, first: Role, last: Role) -> SpanWay:
    kind, sizes = table.kind[rows], (table.end - table.begin)[rows]
    stops = np.cumsum(sizes)
    roles = np.full(int(sizes.sum()), Role.I, dtype=np.int64)
    roles[stops - sizes], roles[stops - 1] = first, last
    rows, tags = _possible(rows, labels.ids[np.repeat(kind, sizes), roles], sizes)
    kind = table.kind[rows]
    same = labels.kind == np.arange(len(labels.kinds))[:, None]  # [K, L]
    goes_on_before = same & np.isin(labels.role, (Role.B, Role.I))
    goes_on_after = same & np.isin(labels.role, (Role.I, Role.E))
    before = ~goes_on_before[kind] if first in (Role.I, Role.E) else None
    after = ~goes_on_after[kind] if last in (Role.B, Role.I) else None
    return SpanWay(rows, tags, before, after)


def _possible(rows: IntArray, tags: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """The spans whose tags the tag set has, and these tags."""
    possible = np.ones(len(rows), dtype=np.bool_)
    possible[np.repeat(np.arange(len(rows)), sizes)[tags < 0]] = False
    return (rows, tags) if possible.all() else (rows[possible], tags[np.repeat(possible, sizes)])


def _way(
    table: SpanTable, labels: LabelTable, scheme: Scheme, rows: IntArray, adjoins_left: bool, adjoins_right: bool
) -> SpanWay:
    kind, sizes = table.kind[rows], (table.end - table.begin)[rows]
    tags = labels.ids[np.repeat(kind, sizes), roles_of_spans(sizes, scheme, adjoins_left, adjoins_right)]
    rows, tags = _possible(rows, tags, sizes)
    kind = table.kind[rows]
    before, after = _sides(labels, scheme, adjoins_left, adjoins_right)
    return SpanWay(rows, tags, None if before is None else before[kind], None if after is None else after[kind])


def roles_of_spans(
    sizes: IntArray, scheme: Scheme, adjoins_left: bool = False, adjoins_right: bool = False
) -> IntArray:
    """The role of each token of spans of these sizes, flat."""
    first, last, only = edge_roles(scheme, adjoins_left, adjoins_right)
    stops = np.cumsum(sizes)
    roles = np.full(int(sizes.sum()), Role.I, dtype=np.int64)
    roles[stops - sizes] = first
    roles[stops - 1] = np.where(sizes == 1, only, last)
    return roles


def _sides(
    labels: LabelTable, scheme: Scheme, adjoins_left: bool, adjoins_right: bool
) -> tuple[BoolArray | None, BoolArray | None]:
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
