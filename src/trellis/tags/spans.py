"""Spans to tags and tags to spans.

    >>> spans_from_tags(["B-PER", "I-PER", "O", "B-LOC"], Scheme.IOB2)
    [Span(start=0, end=2, label='PER'), Span(start=3, end=4, label='LOC')]

Every scheme except two can write any list of spans that do not overlap. IO cannot keep adjoining spans of one
type apart (they read back as one span), and PLAIN, where each token is its own span, can write only
spans of one token that leave no gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from trellis.errors import TagError
from trellis.tags.chunks import Alphabet, find_chunks, locate, reading
from trellis.tags.labels import Role, Style, join_label, split_label
from trellis.tags.schemes import ALL_LETTERS, Scheme


class Span(NamedTuple):
    """Tokens ``start`` to ``end - 1`` with a type; the type is ``""`` if labels have none."""

    start: int
    end: int
    label: str


class ScoredSpan(NamedTuple):
    """A span with the exact probability that it begins and ends there and has that label."""

    span: Span
    probability: float


def parse_label(label: str, scheme: Scheme | None, style: Style = Style.PREFIX) -> tuple[Role, str]:
    """Role and type of a label; a label that the scheme does not have raises ``TagError``.

    Without a scheme the letters of all schemes are read, which works for the lenient rules since no letter
    has two roles.
    """
    if scheme is Scheme.PLAIN:
        return Role.S, label
    letter, kind = split_label(label, style)
    letters = ALL_LETTERS if scheme is None else scheme.letters
    role = letters.get(letter)
    if role is None:
        name = "every scheme" if scheme is None else scheme.value
        expected = " ".join(letters)
        raise TagError(f"label {label!r:.80}: {name} lacks the letter {letter!r}, expected one of {expected}")
    if role is Role.O and kind:
        raise TagError(f"label {label!r:.80} puts a type on O, which means outside every span: expected 'O'")
    return role, kind


def make_label(role: Role, kind: str, scheme: Scheme, style: Style = Style.PREFIX) -> str:
    """The label for a role and a type: the inverse of :func:`parse_label`."""
    if scheme is Scheme.PLAIN:
        return kind
    return join_label(scheme.letter(role), kind, style)


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
    kinds = alphabet.kinds
    result: list[list[Span]] = [[] for _ in sequences]
    columns = (owner, chunks.begin - offset, chunks.end - offset, chunks.kind)
    for sequence, start, end, kind in zip(*(column.tolist() for column in columns), strict=True):
        result[sequence].append(Span(start, end, kinds[kind]))
    return result


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
    ordered = _checked(spans, length, scheme)
    tags = [""] * length if scheme is Scheme.PLAIN else ["O"] * length
    for index, span in enumerate(ordered):
        adjoins_left = index > 0 and _adjoin(ordered[index - 1], span)
        adjoins_right = index + 1 < len(ordered) and _adjoin(span, ordered[index + 1])
        for role, place in roles_of_span(span.end - span.start, scheme, adjoins_left, adjoins_right):
            tags[span.start + place] = make_label(role, span.label, scheme, style)
    if "" in tags:
        raise TagError(
            f"PLAIN has no label for a token outside every span: token {tags.index('')} of {length} has none"
        )
    return tags


def roles_of_span(length: int, scheme: Scheme, adjoins_left: bool, adjoins_right: bool) -> Iterable[tuple[Role, int]]:
    """Role and place of each token of a span; ``adjoins_*``: a span of the same type touches it there."""
    first, last, only = edge_roles(scheme, adjoins_left, adjoins_right)
    if length == 1:
        return [(only, 0)]
    return [(first, 0), *((Role.I, place) for place in range(1, length - 1)), (last, length - 1)]


def edge_roles(scheme: Scheme, adjoins_left: bool, adjoins_right: bool) -> tuple[Role, Role, Role]:
    """The roles of the first, the last and the only token of a span; see `roles_of_span`."""
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


def _checked(spans: Iterable[Span], length: int, scheme: Scheme) -> list[Span]:
    """The spans in order; all must be inside the sequence, and none may overlap."""
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
    return ordered
