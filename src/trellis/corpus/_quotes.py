"""Spans that also say which text they mark: it must stand at their offsets.

Tools written in JavaScript count UTF-16 code units: characters beyond U+FFFF, emoji above all, count as two.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from trellis.corpus._alignment import CharSpan
from trellis.corpus._errors import LineError
from trellis.errors import shown


class Quoted(NamedTuple):
    """A span with the text that it says it marks, or None."""

    span: CharSpan
    quote: str | None


def quoted(span: CharSpan, value: dict[str, Any]) -> Quoted:
    """A span with the ``text`` of the object that it was read from."""
    quote = value.get("text")
    return Quoted(span, quote if isinstance(quote, str) else None)


def placed(text: str, spans: Sequence[Quoted]) -> tuple[list[CharSpan], bool]:
    """The spans in characters, and whether they were given in UTF-16 code units."""
    wrong = next((own for own in spans if not _fits(text, own)), None)
    if wrong is None:
        return [own.span for own in spans], False
    converted = _from_utf16(text, spans)
    if converted is not None and all(_fits(text, own) for own in converted):
        return [own.span for own in converted], True
    (start, end, label), quote = wrong
    raise LineError(
        f"expected {shown(quote)}, the text of the span, at [{start}, {end}, {shown(label)}], "
        f"found {shown(text[start:end] if 0 <= start <= end else '')}"
    )


def _fits(text: str, own: Quoted) -> bool:
    """Whether the quote stands there; tools may trim it, and Label Studio writes the end of a line as backslash, n."""
    (start, end, _), quote = own
    if quote is None:
        return True
    found = text[start:end] if 0 <= start <= end else ""
    return found == quote or found.strip() == quote.replace("\\n", "\n").strip()


def _from_utf16(text: str, spans: Sequence[Quoted]) -> list[Quoted] | None:
    """The spans with offsets that count characters; None where one lies outside or within a character."""
    units = accumulate((1 + (char > "\uffff") for char in text), initial=0)
    character = {unit: number for number, unit in enumerate(units)}
    edges = [(character.get(own.span.start), character.get(own.span.end)) for own in spans]
    found = [
        Quoted(CharSpan(start, end, own.span.label), own.quote)
        for own, (start, end) in zip(spans, edges, strict=True)
        if start is not None and end is not None
    ]
    return found if len(found) == len(spans) else None
