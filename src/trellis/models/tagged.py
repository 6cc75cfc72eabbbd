"""What a tagger says about one text: tags, spans by character, and how sure it is of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from trellis.errors import ModelError
from trellis.tags import Span
from trellis.text import Sentence, hue

_MARK = (
    '<mark style="background:hsl({hue},70%,85%);color:#111;padding:.1em .3em;border-radius:.3em" '
    'title="{label} {probability:.3f}">{text}'
    '<sub style="font-size:.7em;opacity:.75"> {label} {probability:.2f}</sub></mark>'
)


@dataclass(frozen=True, slots=True)
class Labelling:
    """One way to label a sentence, with its exact probability."""

    tags: list[str]
    probability: float


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """A span with the exact probability that it begins and ends there and has that label."""

    span: Span
    probability: float


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters ``start`` to ``end - 1`` of a text, their label, and the exact probability of that very span."""

    start: int
    end: int
    label: str
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tagged text; iterating over it gives its spans, and notebooks show them in colour."""

    sentence: Sentence
    """Tokens with tags, text and offsets."""
    probabilities: tuple[float, ...]
    """The exact probability of each token's tag."""
    spans: tuple[TextSpan, ...]
    """By position; where tags stand alone (parts of speech), each token is one."""

    @property
    def text(self) -> str:
        """The text that offsets point into."""
        return self.sentence.text or ""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens."""
        return tuple(self.sentence.tokens)

    @property
    def tags(self) -> tuple[str, ...]:
        """One tag a token."""
        return tuple(self.sentence.tags or ())

    @property
    def words(self) -> list[str]:
        """The texts of the spans, and each token outside them: the words of a segmented text."""
        return [text for _, text in self._pieces()]

    def __iter__(self) -> Iterator[TextSpan]:
        """The spans."""
        return iter(self.spans)

    def __len__(self) -> int:
        """How many spans."""
        return len(self.spans)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "offsets": [list(pair) for pair in self.sentence.offsets or ()],
            "tags": list(self.tags),
            "probabilities": list(self.probabilities),
            "spans": [asdict(span) for span in self.spans],
        }

    def _pieces(self) -> Iterator[tuple[TextSpan | None, str]]:
        """Spans, and the tokens that lie outside all of them, in order."""
        starts = {span.start: span for span in self.spans}
        end = 0
        for token, (start, stop) in zip(self.tokens, self.sentence.offsets or (), strict=True):
            if start in starts:
                end = starts[start].end
                yield starts[start], starts[start].text
            elif stop > end:
                yield None, token

    def _repr_html_(self) -> str:
        """The text with its spans marked."""
        parts, end = [], 0
        for span in self.spans:
            parts.append(escape(self.text[end : span.start]))
            parts.append(
                _MARK.format(
                    hue=hue(span.label),
                    label=escape(span.label, quote=True),
                    probability=span.probability,
                    text=escape(span.text),
                )
            )
            end = span.end
        parts.append(escape(self.text[end:]))
        return f'<div style="line-height:2">{"".join(parts)}</div>'


def tagged(
    sentence: Sentence, tags: Sequence[str], probabilities: Sequence[float], spans: Sequence[ScoredSpan]
) -> Tagged:
    """Put the answers for one sentence together; spans by token become spans by character."""
    whole = sentence.with_tags(tags)
    if whole.text is None or whole.offsets is None:
        raise ModelError("a sentence without text and offsets has no spans by character")
    found = []
    for item in spans:
        start, end = whole.offsets[item.span.start][0], whole.offsets[item.span.end - 1][1]
        found.append(TextSpan(start, end, item.span.label, whole.text[start:end], item.probability))
    return Tagged(whole, tuple(probabilities), tuple(found))
