"""Entries from a corpus: the spans of its sentences, and how often each occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from trellis.errors import DataError
from trellis.tags import Detection, detect, spans_from_sequences
from trellis.text import Sentence

Key = tuple[str, str | None]
"""Surface and label."""


def spans_of_corpus(sentences: Iterable[Any]) -> Counter[Key]:
    """How often each surface is a span with each label; the label is None if spans have no types."""
    every = list(sentences)
    for number, item in enumerate(every):
        if not isinstance(item, Sentence) or item.tags is None:
            raise DataError(f"sentence {number} has no tags: a lexicon is learned from sentences with tags")
    tags = [list(item.tags) for item in every]
    counts: Counter[Key] = Counter()
    for own in spans_with_surfaces(every, tags, detect(tags)):
        counts.update(own)
    return counts


def spans_with_surfaces(inputs: Sequence[Any], tags: Sequence[Sequence[str]], found: Detection) -> list[list[Key]]:
    """The surfaces and labels of the spans of each input."""
    every = spans_from_sequences(tags, found.scheme, style=found.style)
    return [
        [(surface(item, span.start, span.end), span.label or None) for span in own]
        for item, own in zip(inputs, every, strict=True)
    ]


def surface(item: Any, start: int, end: int) -> str:
    """The tokens of a span as one string: as in the text, if there is one, else with blanks unless all are characters.

    >>> surface(["New", "York", "is", "big"], 0, 2), surface(["北", "京", "大"], 0, 2)
    ('New York', '北京')
    """
    tokens = item.tokens if isinstance(item, Sentence) else item
    if isinstance(item, Sentence) and item.text is not None and item.offsets is not None:
        return item.text[item.offsets[start][0] : item.offsets[end - 1][1]]
    separator = "" if all(len(token) == 1 for token in tokens) else " "
    return separator.join(tokens[start:end])
