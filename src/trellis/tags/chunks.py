"""Reading spans from tags: the one place that decides where a span starts and ends.

All tags of a corpus become one array of small integers, with a break after each sequence. Whether a span starts
or ends between two neighbours depends only on both roles and on whether their types are equal, so a lookup in
a table [previous role, role, types equal] answers for every position at once. Two readings share that:

*Lenient* (:func:`lenient_chunks`) is what conlleval does with any input, also with illegal tags: a span ends
where the end table says so and begins at the last start before it.

*Strict* (:func:`strict_chunks`) counts only well-formed spans: runs that start as the scheme demands, continue
with inside steps, and end with a proper end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis import _native
from trellis.arrays import BoolArray, IntArray
from trellis.errors import TagError
from trellis.tags.labels import Role
from trellis.tags.schemes import Scheme, steps

Codes = NDArray[np.uint8] | NDArray[np.uint32]
Kinds = NDArray[np.int32]
Small = TypeVar("Small", np.uint8, np.bool_)
Tags = Sequence[Sequence[str]]


class Chunks(NamedTuple):
    """Spans of a flat corpus, sorted by end: token ``begin`` to token ``end - 1``; breaks count as tokens."""

    begin: IntArray
    end: IntArray
    kind: Kinds  # index into Alphabet.kinds


class ChunkTables(NamedTuple):
    """Where strict spans start, continue and end: tables [previous role, role, types equal]."""

    start: BoolArray
    inside: BoolArray
    end: BoolArray


class Alphabet(dict[object, int]):
    """Label -> code in order of first occurrence, and what each label means; code 0 is the break between sequences.

    ``parse`` gives a label's role and type. It runs once for each different label, never for each token.
    """

    def __init__(self, parse: Callable[[str], tuple[Role, str]], outside: str = "") -> None:
        super().__init__()
        self._parse = parse
        self._kind_ids: dict[str, int] = {outside: 0}
        self._roles = [Role.O]
        self._kinds = [0]

    def __missing__(self, label: object) -> int:
        """Register a label at its first occurrence."""
        if not isinstance(label, str) or not label:
            raise TagError(f"a tag must be a non-empty string, got {label!r:.80}")
        role, kind = self._parse(label)
        self._roles.append(role)
        self._kinds.append(self._kind_ids.setdefault(kind, len(self._kind_ids)))
        code = self[label] = len(self) + 1
        return code

    @property
    def kinds(self) -> list[str]:
        """The span types met so far; ``Chunks.kind`` indexes this list."""
        return list(self._kind_ids)

    @property
    def strange(self) -> bool:
        """Whether a letter that no scheme has was found: read leniently, its span may reach across sequences."""
        return max(self._roles) > Role.S

    def encode(self, sequences: Iterable[Sequence[str]]) -> Codes:
        """One flat array of codes, with a break after each sequence."""
        codes = _native.number_strings(sequences, self)
        return codes.astype(np.uint8) if len(self) < 256 else codes

    def kinds_of(self, codes: Codes) -> Kinds:
        """Type of each of these tokens."""
        return np.take(np.array(self._kinds, dtype=np.int32), codes)

    def steps(self, codes: Codes) -> NDArray[np.uint8]:
        """For each token the index of its step from the token before into a flattened table."""
        roles = _lookup(np.array(self._roles, dtype=np.uint8), codes)
        few = len(self._kind_ids) <= 256
        kinds = _lookup(np.array(self._kinds, dtype=np.uint8), codes) if few else self.kinds_of(codes)
        step = np.uint8(2) * roles  # for the first token this is all: a break, role 0, comes before it
        step[1:] += np.uint8(2 * len(Role)) * roles[:-1]
        step[1:] += kinds[1:] == kinds[:-1]
        return step


def _lookup(table: NDArray[Small], index: Codes) -> NDArray[Small]:
    """``table[index]``; for indices of one byte in the fastest way, the translation of bytes."""
    if index.dtype != np.uint8:
        return np.take(table, index)
    return np.frombuffer(index.tobytes().translate(table.tobytes().ljust(256, b"\0")), dtype=table.dtype)


@cache
def conlleval_tables() -> tuple[BoolArray, BoolArray]:
    """Start and end tables of conlleval, which seqeval's default mode follows."""
    in_span = [role for role in Role if role not in (Role.O, Role.DOT)]
    start = steps(Role, [Role.B, Role.S])
    start |= steps([Role.O, Role.E, Role.S], [Role.I, Role.E])
    start |= steps(Role, in_span, same=False)
    end = steps([Role.E, Role.S], Role)
    end |= steps([Role.B, Role.I], [Role.O, Role.B, Role.S])
    end |= steps(in_span, Role, same=False)
    return start, end


def lenient_chunks(alphabet: Alphabet, codes: Codes) -> Chunks:
    """Spans by the rules of conlleval, for any tags."""
    start_table, end_table = conlleval_tables()
    step = alphabet.steps(codes)
    starts, ends = np.flatnonzero(_lookup(start_table, step)), np.flatnonzero(_lookup(end_table, step))
    if not _alternate(starts, ends):
        # Only letters that no scheme has cause this. A span that never started begins at 0.
        starts = np.concatenate([[0], starts])[np.searchsorted(starts, ends)]
    return Chunks(starts, ends, alphabet.kinds_of(codes[ends - 1]))


def _alternate(starts: IntArray, ends: IntArray) -> bool:
    """Whether each start is followed by its end before the next start."""
    return len(starts) == len(ends) and bool((starts < ends).all() and (starts[1:] >= ends[:-1]).all())


@cache
def strict_tables(scheme: Scheme) -> ChunkTables:
    """The tables of strict reading, the same as seqeval's strict mode on every input, except for IOE1.

    In IOE1 a span of one token before another span of its type is a lone E, which seqeval does not accept as
    a start; here it is one.
    """
    b, i, e, s = Role.B, Role.I, Role.E, Role.S
    match scheme:
        case Scheme.IO:
            inside = steps([i], [i], same=True)
            return ChunkTables(steps(Role, [i]) & ~inside, inside, steps([i], Role) & ~inside)
        case Scheme.IOB1:
            inside = steps([b, i], [i], same=True)
            start = (steps(Role, [i]) & ~inside) | steps([b, i], [b], same=True) | steps([b], [i])
            end = steps([b, i], Role) & ~inside & ~steps([b], [b], same=False)
            return ChunkTables(start, inside, end)
        case Scheme.IOB2:
            inside = steps([b, i], [i], same=True)
            return ChunkTables(steps(Role, [b]), inside, steps([b, i], Role) & ~inside)
        case Scheme.IOE1:
            inside = steps([i], [i, e], same=True)
            end = (steps([i], Role) & ~inside) | steps([e], [i, e], same=True)
            return ChunkTables(steps(Role, [i, e]) & ~inside, inside, end)
        case Scheme.IOE2:
            inside = steps([i], [i, e], same=True)
            return ChunkTables(steps(Role, [i, e]) & ~inside, inside, steps([e], Role))
        case _:
            inside = steps([b, i], [i, e], same=True)
            return ChunkTables(steps(Role, [b, s]), inside, steps([e, s], Role))


def reading(scheme: Scheme | None, *, strict: bool) -> ChunkTables | None:
    """What :func:`find_chunks` needs for strict or lenient reading; only the strict one needs a scheme."""
    if not strict:
        return None
    if scheme is None:
        raise TagError("strict reading needs a scheme, for example scheme=Scheme.IOB2")
    return strict_tables(scheme)


def strict_chunks(alphabet: Alphabet, codes: Codes, tables: ChunkTables) -> Chunks:
    """Well-formed spans only.

    A run is a token and the inside steps that follow it. Its span begins at the first start in the run and ends with
    the run, and counts if the step out of the run is a proper end.
    """
    step = alphabet.steps(codes)
    is_start, is_inside = _lookup(tables.start, step), _lookup(tables.inside, step)
    # The step out of a run that may hold a span; each sequence closes with a break, so every start meets one.
    leaves = np.flatnonzero((is_start | is_inside)[:-1] & ~is_inside[1:]) + 1
    starts = np.flatnonzero(is_start)
    ends = leaves[np.searchsorted(leaves, starts, side="right")]
    keep = np.take(tables.end, step[ends])
    keep[1:] &= ends[1:] != ends[:-1]  # only the first start of a run
    return Chunks(starts[keep], ends[keep], alphabet.kinds_of(codes[starts[keep]]))


def find_chunks(alphabet: Alphabet, codes: Codes, strict: ChunkTables | None = None) -> Chunks:
    """Strict reading by these tables, lenient reading without."""
    return lenient_chunks(alphabet, codes) if strict is None else strict_chunks(alphabet, codes, strict)


def locate(chunks: Chunks, lengths: Iterable[int]) -> tuple[IntArray, IntArray]:
    """For each span the sequence it lies in, and the flat position where that sequence begins."""
    offsets = np.cumsum([0, *(length + 1 for length in lengths)])
    owner = np.searchsorted(offsets, chunks.begin, side="right") - 1
    return owner, offsets[owner]
