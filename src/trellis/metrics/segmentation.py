"""Word segmentation scores: precision, recall, F1, and recall of words in and out of the training vocabulary.

    recall = right / gold words      precision = right / predicted words      OOV rate = OOV / gold words
    OOV recall = right OOV / OOV     IV recall = right IV / IV                (OOV: not in the vocabulary)

By default a word is right if the SIGHAN bakeoff scorer says so, see :mod:`trellis.metrics.alignment`.

    >>> gold, predicted = [["我", "喜欢", "音乐"]], [["我", "喜", "欢", "音乐"]]
    >>> scores = segmentation_scores(gold, predicted, vocabulary={"我", "喜欢"})
    >>> scores.words.recall, scores.words.precision, scores.oov_recall, scores.iv_recall
    (0.6666666666666666, 0.5, 1.0, 0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trellis.arrays import IntArray
from trellis.errors import ConfigError, DataError, number_of
from trellis.metrics.alignment import common_words, same_offsets
from trellis.metrics.prf import SCORE_COLUMNS, Score, score
from trellis.metrics.report import Grid, Report, percent

Words = Sequence[Sequence[str]]
Alignment = Literal["diff", "offsets"]
_ALIGNMENTS: dict[str, Callable[[Sequence[str], Sequence[str]], list[int]]] = {
    "diff": common_words,
    "offsets": same_offsets,
}


@dataclass(frozen=True)
class SegmentationScores(Report):
    """Scores of words; vocabulary figures are None without a vocabulary; a recall is None also without such words."""

    words: Score
    oov_words: int | None
    oov_rate: float | None
    oov_recall: float | None
    iv_recall: float | None
    sentences: int

    def grid(self) -> Grid:
        """One row for all words, and two for the vocabulary if there is one."""
        rows = [("all", *self.words.cells())]
        if self.oov_words is not None:
            known = self.words.gold - self.oov_words
            for name, recall, count in (
                ("in vocabulary", self.iv_recall, known),
                ("out of vocabulary", self.oov_recall, self.oov_words),
            ):
                rows.append((name, "", percent(recall), "", str(count), "", ""))
        return Grid(f"Words of {number_of(self.sentences, 'sentence')}", ("words", *SCORE_COLUMNS), tuple(rows))


def segmentation_scores(
    gold: Words,
    predicted: Words,
    *,
    vocabulary: Container[str] | None = None,
    alignment: Alignment = "diff",
) -> SegmentationScores:
    """Scores of predicted words, one list of words per sentence; both sides must spell the same text."""
    right = _right_words(gold, predicted, alignment)
    correct = sum(map(len, right))
    words = score(correct, sum(map(len, predicted)), sum(map(len, gold)))
    if vocabulary is None:
        return SegmentationScores(words, None, None, None, None, len(gold))
    unknown = sum(word not in vocabulary for sentence in gold for word in sentence)
    pairs = zip(gold, right, strict=True)
    right_unknown = sum(sentence[place] not in vocabulary for sentence, places in pairs for place in places)
    known = words.gold - unknown
    return SegmentationScores(
        words,
        unknown,
        unknown / words.gold if words.gold else 0.0,
        right_unknown / unknown if unknown else None,
        (correct - right_unknown) / known if known else None,
        len(gold),
    )


def segmentation_counts(gold: Words, predicted: Words, *, alignment: Alignment = "diff") -> IntArray:
    """Right, predicted and gold words of each sentence, [S, 3]: what resampling needs."""
    right = _right_words(gold, predicted, alignment)
    rows = [[*map(len, row)] for row in zip(right, predicted, gold, strict=True)]
    return np.array(rows, dtype=np.int64).reshape(len(rows), 3)


def _right_words(gold: Words, predicted: Words, alignment: Alignment) -> list[list[int]]:
    """For each sentence the positions of the gold words that are right."""
    if alignment not in _ALIGNMENTS:
        raise ConfigError(f"unknown alignment {alignment!r}: expected one of {', '.join(_ALIGNMENTS)}")
    check_texts(gold, predicted)
    align = _ALIGNMENTS[alignment]
    return [align(true, guess) for true, guess in zip(gold, predicted, strict=True)]


def check_texts(gold: Words, predicted: Words) -> None:
    """Refuse words that do not spell the same texts."""
    if len(gold) != len(predicted):
        raise DataError(
            f"gold has {number_of(len(gold), 'sentence')}, predicted has {len(predicted)}: expected the same number"
        )
    for index, (true, guess) in enumerate(zip(gold, predicted, strict=True)):
        left, right = "".join(true), "".join(guess)
        if left != right:
            place = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
            place = min(len(left), len(right)) if place is None else place
            raise DataError(
                f"sentence {index}: gold and predicted words spell different texts from character {place}: "
                f"{left[place : place + 10]!r} and {right[place : place + 10]!r}"
            )
