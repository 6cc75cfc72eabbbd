"""The answers of a model for the rows of a table, as flat arrays: no Python object per token on the way to Arrow.

rows      texts or sentences; with `sentences`, a text is a document of several parts, each tagged by itself
blocks    rows of together so many tokens, which the model answers at a time
refused   rows that cannot be tagged, each with its reason: found by asking about the rows of a block one by one
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.errors import TrellisError
from trellis.models import Tagger
from trellis.models.data import tokens_of
from trellis.models.raw_text import inputs_of, parts_of
from trellis.models.tagged import Answers
from trellis.ragged import offsets_of
from trellis.text import Sentence, splitter

Item = str | Sentence


@dataclass(frozen=True)
class Wanted:
    """What is asked about each row."""

    spans: bool
    probabilities: bool
    sentences: bool = False
    tokens: int = 20_000
    """Tokens that are answered at a time."""


@dataclass(frozen=True, eq=False)
class Block:
    """The answers for some rows: those of tokens and of spans flat, with the number of them in each row."""

    labels: tuple[str, ...]
    tokens: list[str]  # [N]
    lengths: IntArray  # [R]
    ids: IntArray  # [N]
    probabilities: FloatArray  # [N], or empty
    span_counts: IntArray  # [R]
    starts: list[int]  # [S], in characters of the row's text
    ends: list[int]  # [S]
    span_labels: list[str]  # [S]
    span_texts: list[str]  # [S]
    span_probabilities: FloatArray  # [S], or empty


@dataclass(frozen=True, eq=False)
class Answered:
    """Blocks of answers for the rows that are not refused, in order."""

    count: int
    blocks: list[Block]
    refused: dict[int, str]


def answer(tagger: Tagger[Any], items: Sequence[Item | TrellisError], question: Wanted) -> Answered:
    """The answers for all rows; an error in the place of a row is passed on as the reason for refusing it."""
    refused = {row: str(item) for row, item in enumerate(items) if isinstance(item, TrellisError)}
    blocks = []
    for rows in _blocks(items, question.tokens):
        kept, block = _answer_some(tagger, rows, items, question, refused)
        if kept:
            assert block is not None
            blocks.append(block)
    return Answered(len(items), blocks, refused)


def _blocks(items: Sequence[Item | TrellisError], tokens: int) -> Iterator[list[int]]:
    """The numbers of rows, in blocks; a text has about one token per five characters."""
    block: list[int] = []
    size = 0
    for row, item in enumerate(items):
        if isinstance(item, TrellisError):
            continue
        block.append(row)
        size += len(item) // 5 if isinstance(item, str) else len(item)
        if size >= tokens:
            yield block
            block, size = [], 0
    if block:
        yield block


def _answer_some(
    tagger: Tagger[Any], rows: list[int], items: Sequence[Any], question: Wanted, refused: dict[int, str]
) -> tuple[list[int], Block | None]:
    try:
        return rows, _answer(tagger, [items[row] for row in rows], question)
    except TrellisError:
        refused |= dict(_refusals(tagger, rows, items, question))
    kept = [row for row in rows if row not in refused]
    return kept, _answer(tagger, [items[row] for row in kept], question) if kept else None


def _refusals(
    tagger: Tagger[Any], rows: list[int], items: Sequence[Any], question: Wanted
) -> Iterator[tuple[int, str]]:
    """The rows that the model refuses by themselves."""
    for row in rows:
        try:
            _answer(tagger, [items[row]], question)
        except TrellisError as error:
            yield row, str(error)


def _answer(tagger: Tagger[Any], items: list[Item], question: Wanted) -> Block:
    how = splitter(tagger.tokenizer_)
    parts = list(parts_of(items)) if question.sentences else [(row, 0, item) for row, item in enumerate(items)]
    inputs, texts = inputs_of([item for _, _, item in parts], how, with_gaps=tagger.makes_words)
    posterior = tagger.posterior(inputs, raw=isinstance(items[0], str))
    answers = posterior.answers(texts, separator=how.separator, probabilities=question.probabilities)
    owners = np.array([row for row, _, _ in parts], dtype=np.int64)
    starts = [start for _, start, _ in parts]
    lengths, counts = (np.diff(own) for own in (answers.token_offsets, answers.span_offsets))
    return Block(
        answers.labels,
        list(chain.from_iterable(tokens_of(item) for item in inputs)),
        _per_row(owners, lengths, len(items)),
        answers.ids,
        answers.probabilities,
        _per_row(owners, counts if question.spans else np.zeros_like(counts), len(items)),
        *(_spans(answers, starts) if question.spans else ([], [], [], [])),
        answers.span_probabilities if question.spans else np.empty(0),
    )


def _per_row(owners: IntArray, counts: IntArray, rows: int) -> IntArray:
    """Sums over the parts of each row."""
    return np.bincount(owners, weights=counts, minlength=rows).astype(np.int64)


def _spans(answers: Answers, shifts: list[int]) -> tuple[list[int], list[int], list[str], list[str]]:
    """Start, end, label and text of all spans; offsets of tokens are found only where there are spans."""
    starts: list[int] = []
    ends: list[int] = []
    texts: list[str] = []
    begin, end = answers.spans.begin.tolist(), answers.spans.end.tolist()
    for part in np.flatnonzero(np.diff(answers.span_offsets)).tolist():
        sentence, shift, rows = answers.sentence(part), shifts[part], answers.spans_of(part)
        text, offsets = sentence.text or "", sentence.offsets or ()
        for row in range(rows.start, rows.stop):
            first, last = offsets[begin[row]][0], offsets[end[row] - 1][1]
            starts.append(first + shift)
            ends.append(last + shift)
            texts.append(text[first:last])
    kinds = answers.spans.kinds
    return starts, ends, [kinds[kind] for kind in answers.spans.kind.tolist()], texts


def row_slices(lengths: IntArray) -> list[slice]:
    """Where the tokens or spans of each row are."""
    ends = offsets_of(lengths).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]
