"""Spans from tags, tags from spans, and whether tags are legal at all.

    >>> spans_from_tags(["B-PER", "I-PER", "O", "B-LOC"], Scheme.IOB2)
    [Span(start=0, end=2, label='PER'), Span(start=3, end=4, label='LOC')]

Every scheme except two can write any list of spans that do not overlap. IO cannot keep adjoining spans of one
type apart (they read back as one span), and PLAIN, where each token is its own span, can write only
spans of one token that leave no gap.

Where a span starts and ends is decided here alone. All tags of a corpus become one array of small integers, with a
break after each sequence. Whether a span starts or ends between two neighbours depends only on both roles and on
whether their types are equal, so a lookup in a table [previous role, role, types equal] answers for every position at
once. Two readings share that:

*Lenient* is what conlleval does with any input, also with illegal tags: a span ends where the end table says so and
begins at the last start before it.

*Strict* counts only well-formed spans: runs that start as the scheme demands, continue
with inside steps, and end with a proper end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis import _native
from trellis.arrays import BoolArray, IntArray
from trellis.errors import TagError
from trellis.tags.scheme import (
    ALL_LETTERS,
    SEPARATOR,
    Needs,
    Role,
    Scheme,
    Style,
    legal_steps,
    needs_after,
    needs_before,
    steps,
)

Codes = NDArray[np.uint8] | NDArray[np.uint32]
Kinds = NDArray[np.int32]
Small = TypeVar("Small", np.uint8, np.bool_)
Tags = Sequence[Sequence[str]]


class Span(NamedTuple):
    """Tokens ``start`` to ``end - 1`` with a type; the type is ``""`` if labels have none."""

    start: int
    end: int
    label: str


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


class ScoredSpan(NamedTuple):
    """A span with the exact probability that it begins and ends there and has that label."""

    span: Span
    probability: float


def parse_label(label: str, scheme: Scheme | None, style: Style = Style.PREFIX) -> tuple[Role, str]:
    """Role and type of a label; a label that the scheme does not have raises ``TagError``.

    A label is a letter and a type joined by a hyphen. Only the hyphen next to the letter separates: ``B-GPE-LOC`` has
    type ``GPE-LOC``. A bare letter (``B``) has the type ``""``, as in word segmentation. Without a scheme, the letters
    of all schemes are read, which works for the lenient rules since no letter has two roles.
    """
    if scheme is Scheme.PLAIN:
        return Role.S, label
    if style is Style.PREFIX:
        letter, separator, kind = label[:1], label[1:2], label[2:]
    else:
        letter, separator, kind = label[-1:], label[-2:-1], label[:-2]
    if len(label) != 1 and (separator != SEPARATOR or not kind):
        example = "B-PER" if style is Style.PREFIX else "PER-B"
        raise TagError(
            f"label {label!r:.80} is not of the {style.value} style: expected a form like {example!r} or 'B'"
        )
    letters = ALL_LETTERS if scheme is None else scheme.letters
    role = letters.get(letter)
    if role is None:
        name = "every scheme" if scheme is None else scheme.value
        expected = " ".join(letters)
        raise TagError(f"label {label!r:.80}: {name} lacks the letter {letter!r}, expected one of {expected}")
    if role is Role.O and kind:
        raise TagError(f"label {label!r:.80} puts a type on O, which means outside every span: expected 'O'")
    return role, kind


def try_parse_label(label: str, scheme: Scheme | None, style: Style = Style.PREFIX) -> tuple[Role, str] | None:
    """Role and type of a label; None for one that the scheme does not have."""
    try:
        return parse_label(label, scheme, style)
    except TagError:
        return None


def make_label(role: Role, kind: str, scheme: Scheme, style: Style = Style.PREFIX) -> str:
    """The label for a role and a type: the inverse of :func:`parse_label`."""
    if scheme is Scheme.PLAIN:
        return kind
    letter = scheme.letter(role)
    if not kind:
        return letter
    return f"{letter}{SEPARATOR}{kind}" if style is Style.PREFIX else f"{kind}{SEPARATOR}{letter}"


def scheme_alphabet(scheme: Scheme | None, style: Style = Style.PREFIX) -> Alphabet:
    """An empty alphabet whose labels are read by the scheme (None: by any)."""
    return Alphabet(partial(parse_label, scheme=scheme, style=style))


def spans_from_sequences(
    sequences: Sequence[Sequence[str]],
    scheme: Scheme | None,
    *,
    style: Style = Style.PREFIX,
    strict: bool = False,
) -> list[list[Span]]:
    """:func:`spans_from_tags` of many sequences at once, which is much faster than one by one.

    Lenient reading needs no scheme: None accepts the letters of all schemes.
    """
    alphabet = scheme_alphabet(scheme, style)
    chunks = find_chunks(alphabet, alphabet.encode(sequences), reading(scheme, strict=strict))
    owner, offset = locate(chunks, map(len, sequences))
    columns = owner, chunks.begin - offset, chunks.end - offset, chunks.kind.astype(np.int64)
    return SpanTable(*columns, tuple(alphabet.kinds)).split(len(sequences))


def spans_from_tags(
    tags: Sequence[str], scheme: Scheme, *, style: Style = Style.PREFIX, strict: bool = False
) -> list[Span]:
    """The spans of one tag sequence, by position.

    ``strict=False`` reads illegal tags as conlleval does (an I after O begins a span); ``strict=True``
    keeps only well-formed spans. Both agree on legal tags. To reject illegal tags instead, see
    ``validate_tags``.
    """
    return spans_from_sequences([tags], scheme, style=style, strict=strict)[0]


def tags_from_spans(spans: Iterable[Span], length: int, scheme: Scheme, *, style: Style = Style.PREFIX) -> list[str]:
    """The tags of a sequence of ``length`` tokens; a span that overlaps or leaves it is a ``TagError``."""
    ordered = sorted(Span(*span) for span in spans)
    for span in ordered:
        if not 0 <= span.start < span.end <= length:
            raise TagError(
                f"{span} does not lie in a sequence of {length} tokens: expected 0 <= start < end <= {length}"
            )
        if scheme is Scheme.PLAIN and span.end - span.start != 1:
            raise TagError(f"{span} has {span.end - span.start} tokens, and PLAIN can write only spans of one")
    for left, right in pairwise(ordered):
        if right.start < left.end:
            raise TagError(f"{left} and {right} overlap, and a token has one tag only")
    tags = [""] * length if scheme is Scheme.PLAIN else ["O"] * length
    for index, span in enumerate(ordered):
        adjoins_left = index > 0 and _adjoin(ordered[index - 1], span)
        adjoins_right = index + 1 < len(ordered) and _adjoin(span, ordered[index + 1])
        first, last, only = edge_roles(scheme, adjoins_left, adjoins_right)
        size = span.end - span.start
        roles = [only] if size == 1 else [first, *[Role.I] * (size - 2), last]
        tags[span.start : span.end] = [make_label(role, span.label, scheme, style) for role in roles]
    if "" in tags:
        raise TagError(
            f"PLAIN has no label for a token outside every span: token {tags.index('')} of {length} has none"
        )
    return tags


def edge_roles(scheme: Scheme, adjoins_left: bool = False, adjoins_right: bool = False) -> tuple[Role, Role, Role]:
    """The roles of the first, the last and the only token of a span; all others are I.

    ``adjoins_*``: a span of the same type touches it there.
    """
    first, last, only = _EDGES.get(scheme, (Role.B, Role.E, Role.S))
    if scheme is Scheme.IOB1 and adjoins_left:
        first = only = Role.B
    if scheme is Scheme.IOE1 and adjoins_right:
        last = only = Role.E
    return first, last, only


_EDGES = {
    Scheme.IO: (Role.I, Role.I, Role.I),
    Scheme.IOB1: (Role.I, Role.I, Role.I),
    Scheme.IOE1: (Role.I, Role.I, Role.I),
    Scheme.IOB2: (Role.B, Role.I, Role.B),
    Scheme.IOE2: (Role.I, Role.E, Role.E),
}


def _adjoin(left: Span, right: Span) -> bool:
    return left.end == right.start and left.label == right.label


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


def find_chunks(alphabet: Alphabet, codes: Codes, strict: ChunkTables | None = None) -> Chunks:
    """Spans of any tags by the rules of conlleval, or with the tables of strict reading only well-formed ones."""
    if strict is not None:
        return _strict_chunks(alphabet, codes, strict)
    start_table, end_table = conlleval_tables()
    step = alphabet.steps(codes)
    starts, ends = np.flatnonzero(_lookup(start_table, step)), np.flatnonzero(_lookup(end_table, step))
    alternate = len(starts) == len(ends) and (starts < ends).all() and (starts[1:] >= ends[:-1]).all()
    if not alternate:
        # Only letters that no scheme has cause this. A span that never started begins at 0.
        starts = np.concatenate([[0], starts])[np.searchsorted(starts, ends)]
    return Chunks(starts, ends, alphabet.kinds_of(codes[ends - 1]))


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
    """The tables that :func:`find_chunks` needs for strict reading, and none for lenient reading."""
    if not strict:
        return None
    if scheme is None:
        raise TagError("strict reading needs a scheme, for example scheme=Scheme.IOB2")
    return strict_tables(scheme)


def _strict_chunks(alphabet: Alphabet, codes: Codes, tables: ChunkTables) -> Chunks:
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


def locate(chunks: Chunks, lengths: Iterable[int]) -> tuple[IntArray, IntArray]:
    """For each span the sequence it lies in, and the flat position where that sequence begins."""
    offsets = np.cumsum([0, *(length + 1 for length in lengths)])
    owner = np.searchsorted(offsets, chunks.begin, side="right") - 1
    return owner, offsets[owner]


@dataclass(frozen=True)
class Violation:
    """One illegal step: ``tag`` at ``position`` after ``previous`` (None at the start), and why it is illegal.

    A sequence that stops too early is reported at its last position.
    """

    position: int
    tag: str
    previous: str | None
    reason: str


def validate_tags(tags: Sequence[str], scheme: Scheme, *, style: Style = Style.PREFIX) -> list[Violation]:
    """Every illegal label and step of one sequence, by position; an empty list means legal."""
    violations: list[Violation] = []
    legal = legal_steps(scheme)
    left: tuple[Role, str] | None = (Role.O, "")
    previous: str | None = None
    for position, tag in enumerate(tags):
        try:
            here: tuple[Role, str] | None = parse_label(tag, scheme, style)
        except TagError as error:
            violations.append(Violation(position, tag, previous, str(error)))
            here = None
        if left and here and not legal[left[0], here[0], int(left[1] == here[1])]:
            reason = _reason(left, here, scheme, style)
            violations.append(Violation(position, tag, previous, reason))
        left, previous = here, tag
    if left and previous is not None and not legal[left[0], Role.O, int(left[1] == "")]:
        earlier = tags[-2] if len(tags) > 1 else None
        violations.append(Violation(len(tags) - 1, previous, earlier, _reason(left, None, scheme, style)))
    return violations


def _reason(left: tuple[Role, str], here: tuple[Role, str] | None, scheme: Scheme, style: Style) -> str:
    """Why the step from ``left`` to ``here`` (None: the end) is illegal, naming what would be legal."""

    def spell(role: Role, kind: str) -> str:
        return make_label(role, kind, scheme, style)

    def either(needs: Needs, kind: str) -> str:
        return " or ".join(spell(role, kind) for role in sorted(needs.beside) if role in scheme.letters.values())

    needs = needs_after(scheme)
    if left[0] in needs.roles:
        came = "the sequence ends" if here is None else f"{spell(*here)} follows"
        if here is None or here[0] not in needs.beside or here[1] != left[1]:
            return f"{spell(*left)} must be followed by {either(needs, left[1])}, but {came}"
    assert here is not None
    return f"{spell(*here)} must follow {either(needs_before(scheme), here[1])}, not {spell(*left)}"


def convert_tags(
    tags: Sequence[str],
    source: Scheme,
    target: Scheme,
    *,
    style: Style = Style.PREFIX,
    target_style: Style | None = None,
    repair: bool = False,
) -> list[str]:
    """Tags of one scheme written in another one (and in another style, if ``target_style`` says so).

    Illegal tags are a ``TagError``, unless ``repair`` asks to read them as conlleval does.
    """
    if not repair:
        violations = validate_tags(tags, source, style=style)
        if violations:
            first = violations[0]
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            raise TagError(f"not legal {source.value} at position {first.position}: {first.reason}{more}")
    spans = spans_from_tags(tags, source, style=style)
    return tags_from_spans(spans, len(tags), target, style=target_style or style)
