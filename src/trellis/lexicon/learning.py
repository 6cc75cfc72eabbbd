"""Entries from a corpus: the spans of its sentences, and how often each occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from trellis.errors import DataError
from trellis.tags import Scheme, detect, spans_from_sequences
from trellis.text import Sentence

Key = tuple[str, str | None]
"""Surface and label."""


def spans_of_corpus(sentences: Iterable[Any], scheme: Scheme | None = None) -> Counter[Key]:
    """How often each surface is a span with each label; the label is None if spans have no types."""
    counts: Counter[Key] = Counter()
    for own in spans_of_sentences(list(sentences), scheme):
        counts.update(own)
    return counts


def spans_of_sentences(sentences: list[Any], scheme: Scheme | None = None) -> list[list[Key]]:
    """The surfaces and labels of the spans of each sentence."""
    for number, item in enumerate(sentences):
        if not isinstance(item, Sentence) or item.tags is None:
            raise DataError(f"sentence {number} has no tags: a lexicon is learned from sentences with tags")
    tags = [list(item.tags) for item in sentences]
    found = detect(tags, scheme=scheme)
    every = spans_from_sequences(tags, found.scheme, style=found.style)
    return [
        [(surface(item, span.start, span.end), span.label or None) for span in own]
        for item, own in zip(sentences, every, strict=True)
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
