"""Raw texts as the inputs of a tagger, and documents put together from their sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from trellis.arrays import IntArray
from trellis.models.data import are_characters, tokens_of
from trellis.models.tagged import Answers, Tagged
from trellis.tags import Role, Scheme, SpanTable, TagSet, parse_label
from trellis.text import Sentence, Splitter, fold_tokens, learned_words, split_sentences, splitter


def inputs_of(given: Sequence[Any], how: Splitter, *, with_gaps: bool) -> tuple[list[Any], list[str | None]]:
    """Token lists or sentences for a model, and the raw text of each that is no more than a token list.

    Offsets are left for later, when they are asked for, unless the tokens alone do not tell them. With `with_gaps`,
    texts with white space inside become sentences, which know where it is.
    """
    inputs: list[Any] = []
    texts: list[str | None] = []
    for item in given:
        lazy = isinstance(item, str) and how.covers and not (with_gaps and len(item.split(None, 1)) > 1)
        texts.append(item if lazy else None)
        inputs.append(how.split(item) if lazy else how.sentence(item) if isinstance(item, str) else item)
    return inputs, texts


def parts_of(given: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
    """The sentences of all texts: the number of the text, where the sentence begins, and what it is."""
    for number, item in enumerate(given):
        if not isinstance(item, str):
            yield number, 0, item
            continue
        for start, end in split_sentences(item):
            yield number, start, item[start:end]


def joined(text: str, parts: Sequence[tuple[int, Tagged]]) -> Tagged:
    """A document from its tagged sentences and the places where they begin."""
    own = [(start, one.sentence, one.answers) for start, one in parts]
    tokens = [token for _, sentence, _ in own for token in sentence.tokens]
    offsets = [(start + a, start + b) for start, sentence, _ in own for a, b in sentence.offsets or ()]
    before = np.cumsum([0, *(len(sentence) for _, sentence, _ in own)])
    spans = [answers.spans for _, _, answers in own]
    first = own[0][2]
    begin, end, kind = (
        np.concatenate([getattr(table, name) + shift * n for table, n in zip(spans, before, strict=False)])
        for name, shift in (("begin", 1), ("end", 1), ("kind", 0))
    )
    return Tagged(
        Answers(
            (Sentence(tuple(tokens), text=text, offsets=tuple(offsets)),),
            (None,),
            first.separator,
            first.labels,
            np.concatenate([answers.ids for _, _, answers in own]),
            np.concatenate([answers.probabilities for _, _, answers in own]),
            SpanTable(np.zeros_like(begin), begin, end, kind, first.spans.kinds),
            np.concatenate([answers.span_probabilities for _, _, answers in own]),
            np.array([0, len(tokens)]),
            np.array([0, len(begin)]),
        ),
        0,
    )


@lru_cache(maxsize=32)
def segments(tags: TagSet) -> bool:
    """Whether the labels only say where words begin and end."""
    if tags.scheme is Scheme.PLAIN:
        return False
    parsed = [parse_label(label, tags.scheme, tags.style) for label in tags.labels]
    return all(role is not Role.O and not kind for role, kind in parsed)


def cuts_words(tags: TagSet, how: Splitter) -> bool:
    """Whether a model makes words of characters: its labels say where they begin and end, and maybe what they are."""
    return segments(tags) or (not how.separator and _leaves_nothing_out(tags))


@lru_cache(maxsize=32)
def _leaves_nothing_out(tags: TagSet) -> bool:
    """Whether every label puts its token into a span of several tokens or one."""
    return tags.scheme is not Scheme.PLAIN and all(role is not Role.O for role, _ in tags.parsed)


def documents(given: Sequence[Any], annotate: Callable[[Sequence[Any]], list[Tagged]]) -> list[Tagged]:
    """Each text as a whole, from its sentences."""
    parts = list(parts_of(given))
    tagged: list[list[tuple[int, Tagged]]] = [[] for _ in given]
    for (number, start, _), one in zip(parts, annotate([part for _, _, part in parts]), strict=True):
        tagged[number].append((start, one))
    blank = iter(annotate([item for item, own in zip(given, tagged, strict=True) if not own]))
    return [
        next(blank) if not own else joined(item, own) if isinstance(item, str) else own[0][1]
        for item, own in zip(given, tagged, strict=True)
    ]


def gaps_of(inputs: Sequence[Any], raw: Sequence[bool]) -> IntArray:
    """The tokens, numbered through the batch, that come after white space in the raw texts."""
    gaps, count = [np.empty(0, dtype=np.int64)], 0
    for item, is_raw in zip(inputs, raw, strict=True):
        if is_raw and isinstance(item, Sentence) and item.offsets is not None:
            ends = np.array(item.offsets, dtype=np.int64).reshape(-1, 2)
            gaps.append(count + 1 + np.flatnonzero(ends[1:, 0] > ends[:-1, 1]))
        count += len(tokens_of(item))
    return np.concatenate(gaps)


def folded(inputs: Sequence[Any]) -> Sequence[Any]:
    """The inputs as models see them that make no difference between full-width and half-width forms."""
    return [_folded(item) for item in inputs]


def _folded(item: Any) -> Any:
    tokens = tokens_of(item)
    try:
        changed = fold_tokens(tokens)
    except TypeError:  # not strings: the model says so, with the place
        return item
    if changed is tokens:
        return item
    return item._changed(tokens=tuple(changed)) if isinstance(item, Sentence) and item.columns else changed


def tokenizer_for(setting: Any, inputs: Sequence[Any]) -> Splitter:
    """The tokenizer that is asked for, or the one that makes such tokens of raw text."""
    if setting is not None:
        return splitter(setting)
    if are_characters(inputs):
        return splitter("characters")
    kinds = set(map(type, chain.from_iterable(map(tokens_of, inputs))))
    strings = all(issubclass(kind, str) for kind in kinds)  # else the model says so, with the place
    plain = splitter("words")
    return plain if not strings or _is_split_by(inputs, plain) else learned_words(inputs)


def _is_split_by(inputs: Sequence[Any], how: Splitter) -> bool:
    """Whether the tokens of all inputs are what this makes of their texts, as when a reader has used it."""
    return all(
        isinstance(item, Sentence) and item.offsets is not None and how.split(item.text or "") == list(item.tokens)
        for item in inputs
    )
