"""The answers of a model for rows of texts or sentences, in flat arrays: no Python object per token before Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.errors import TrellisError
from trellis.models import Tagger
from trellis.models.answers import Answers, parts_of
from trellis.models.data import inputs_of, tokens_of
from trellis.ragged import offsets_of
from trellis.text import Sentence, splitter

Item = str | Sentence


@dataclass(frozen=True, eq=False)
class AnswerBlock:
    """The answers for R consecutive rows: N tokens and S spans, flat, with the number of them in each row."""

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
class RowAnswers:
    """Blocks of answers for the rows that could be tagged, in order, and the reason for each row that could not."""

    count: int
    blocks: list[AnswerBlock]
    refused: dict[int, str]

    def without_refused(self) -> RowAnswers:
        """The answers as those of a table that has only the rows that could be tagged."""
        return RowAnswers(self.count - len(self.refused), self.blocks, {})


def answer_rows(
    tagger: Tagger[Any],
    items: Sequence[Item | TrellisError],
    *,
    spans: bool,
    probabilities: bool,
    sentences: bool = False,
    batch_tokens: int = 20_000,
) -> RowAnswers:
    """The answers for all rows; an error in the place of a row is the reason for refusing it.

    With `sentences`, each text is split into sentences, which are tagged one by one. If the model refuses a block of
    rows, its rows are tried one by one, to find those that it refuses.
    """

    def answer(rows: list[int]) -> AnswerBlock:
        return _answer_block(tagger, [items[row] for row in rows], spans, probabilities, sentences)  # type: ignore[misc]

    refused = {row: str(item) for row, item in enumerate(items) if isinstance(item, TrellisError)}
    blocks = []
    for rows in _blocks(items, batch_tokens):
        try:
            blocks.append(answer(rows))
            continue
        except TrellisError:
            for row in rows:
                try:
                    answer([row])
                except TrellisError as error:
                    refused[row] = str(error)
        good = [row for row in rows if row not in refused]
        if good:
            blocks.append(answer(good))
    return RowAnswers(len(items), blocks, refused)


def _blocks(items: Sequence[Item | TrellisError], tokens: int) -> Iterator[list[int]]:
    """The numbers of rows, in blocks of about this many tokens; a text has about one token per five characters."""
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


def _answer_block(
    tagger: Tagger[Any], items: list[Item], spans: bool, probabilities: bool, sentences: bool
) -> AnswerBlock:
    how = splitter(tagger.tokenizer_)
    # A part is what is tagged at once: a row, or a sentence of it, with where it starts in the row's text.
    parts = list(parts_of(items)) if sentences else [(row, 0, item) for row, item in enumerate(items)]
    inputs, texts = inputs_of([item for _, _, item in parts], how, with_gaps=tagger.makes_words)
    posterior = tagger.posterior(inputs, raw=isinstance(items[0], str))
    answers = posterior.answers(texts, separator=how.separator, probabilities=probabilities)
    rows = np.array([row for row, _, _ in parts], dtype=np.int64)

    def per_row(offsets: IntArray) -> IntArray:
        return np.bincount(rows, weights=np.diff(offsets), minlength=len(items)).astype(np.int64)

    return AnswerBlock(
        answers.labels,
        list(chain.from_iterable(tokens_of(item) for item in inputs)),
        per_row(answers.token_offsets),
        answers.ids,
        answers.probabilities,
        per_row(answers.span_offsets if spans else np.zeros_like(answers.span_offsets)),
        *(_spans(answers, [start for _, start, _ in parts]) if spans else ([], [], [], [])),
        answers.span_probabilities if spans else np.empty(0),
    )


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
    """Where the tokens or spans of each row are in flat arrays."""
    return [slice(start, end) for start, end in pairwise(offsets_of(lengths).tolist())]
