"""Spans of characters as spans of tokens, and what to do about a span that cuts a token.

split    the token is split there: nothing of the annotation is lost
expand   the span takes the whole token
skip     the sentence is left out
error    the sentence is refused
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from trellis.corpus._errors import LeftOut, LineError
from trellis.errors import DataError, shown
from trellis.tags import Span
from trellis.text import Offsets

Align = Literal["split", "expand", "skip", "error"]
Note = Callable[[str, str], None]
"""Told of each change: its kind, and what it was."""


class CharSpan(NamedTuple):
    """Characters ``start`` to ``end - 1`` with a label."""

    start: int
    end: int
    label: str


def check_align(how: str) -> None:
    """Refuse anything but the four ways."""
    if how not in get_args(Align):
        raise DataError(f"align must be 'split', 'expand', 'skip' or 'error', got {how!r:.80}")


def aligned(
    text: str, offsets: Sequence[Offsets], spans: Sequence[CharSpan], how: Align, note: Note
) -> tuple[Sequence[Offsets], list[Span]]:
    """The tokens, split where they have to be, and the spans over them."""
    for span in spans:
        if not 0 <= span.start < span.end <= len(text):
            size = len(text)
            raise LineError(
                f"{_name(span)} does not lie in the text of {size} characters: expected 0 <= start < end <= {size}"
            )
    if how == "split":
        offsets = _split(text, offsets, sorted({edge for span in spans for edge in span[:2]}), note)
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    return offsets, [_token_span(span, text, starts, ends, how, note) for span in spans]


def _split(text: str, offsets: Sequence[Offsets], edges: list[int], note: Note) -> list[Offsets]:
    """The tokens, each cut at the edges that lie within it."""
    result: list[Offsets] = []
    for start, end in offsets:
        inner = edges[bisect_right(edges, start) : bisect_left(edges, end)]
        marks = [start, *inner, end]
        result += pairwise(marks)
        if inner:
            parts = " ".join(text[a:b] for a, b in pairwise(marks))
            note("tokens split where a span cuts them", f"{shown(text[start:end])} became {shown(parts)}")
    return result


def _token_span(span: CharSpan, text: str, starts: list[int], ends: list[int], how: Align, note: Note) -> Span:
    """The tokens that a character span covers."""
    first, last = bisect_right(ends, span.start), bisect_left(starts, span.end) - 1
    if first > last:
        raise LineError(f"{_name(span)} covers no token, only {shown(text[span.start : span.end])}")
    for index, cut in ((first, starts[first] < span.start), (last, ends[last] > span.end)):
        if cut:
            _settle(span, text[starts[index] : ends[index]], (starts[index], ends[index]), how)
    if starts[first] < span.start or ends[last] > span.end:
        whole = text[starts[first] : ends[last]]
        note("spans expanded to whole tokens", f"{shown(text[span.start : span.end])} became {shown(whole)}")
    return Span(first, last + 1, span.label)


def _settle(span: CharSpan, token: str, place: Offsets, how: Align) -> None:
    if how == "skip":
        raise LeftOut("sentences with a span that cuts a token")
    if how == "error":
        raise LineError(
            f"{_name(span)} cuts the token {shown(token)} at [{place[0]}, {place[1]}]; expected spans to begin and end "
            "with a token: align 'split' splits the token, 'expand' takes all of it, 'skip' leaves the sentence out"
        )


def _name(span: CharSpan) -> str:
    return f"the span [{span.start}, {span.end}, {shown(span.label)}]"
