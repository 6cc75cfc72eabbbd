"""Scores of one tag per token, as in part-of-speech tagging: accuracy, known and unknown words, each tag, confusions.

>>> scores = tagging_scores([["DET", "NOUN"]], [["DET", "VERB"]], tokens=[["the", "run"]], vocabulary={"the"})
>>> scores.accuracy, scores.known_accuracy, scores.unknown_accuracy
(0.5, 1.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.errors import DataError, number_of
from trellis.metrics.prf import SCORE_COLUMNS, Score, Tally, check_aligned, per_type, percent
from trellis.plots import HeatMap, Picture, Pictured, svg
from trellis.results import Grid, Report
from trellis.tags.spans import Tags

_MOST_LABELS = 1000


@dataclass(frozen=True)
class ConfusionMatrix(Pictured, Report):
    """``counts[i][j]`` tokens with gold tag ``labels[i]`` were tagged ``labels[j]``.

    If there are more than a thousand labels, it has the thousand most frequent ones.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def grid(self) -> Grid:
        """Rows are gold tags, columns predicted tags."""
        rows = ((label, *map(str, row)) for label, row in zip(self.labels, self.counts, strict=True))
        return Grid("Gold down, predicted across", ("gold", *self.labels), tuple(rows))

    def pictures(self) -> list[Picture]:
        counts = tuple(tuple(map(float, row)) for row in self.counts)
        return [HeatMap("Gold down, predicted across", self.labels, self.labels, counts, 0)]

    def _repr_html_(self) -> str:
        return svg(self.pictures())

    def worst(self, limit: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent confusions as (gold, predicted, count)."""
        table = np.array(self.counts, dtype=np.int64).reshape(len(self.labels), len(self.labels))
        np.fill_diagonal(table, 0)
        order = np.argsort(-table, axis=None, kind="stable")[:limit]
        cells = zip(*np.unravel_index(order, table.shape), strict=True)
        return [(self.labels[i], self.labels[j], int(table[i, j])) for i, j in cells if table[i, j]]


@dataclass(frozen=True)
class TaggingScores(Report):
    """Accuracies; the known and unknown ones are None if there are no such words, or no vocabulary."""

    accuracy: float
    known_accuracy: float | None
    unknown_accuracy: float | None
    sentence_accuracy: float  # share of sentences without a mistake
    tokens: int
    unknown_tokens: int | None
    tags: dict[str, Score]
    confusion: ConfusionMatrix

    def grid(self) -> Grid:
        """One row per tag; the accuracies are in the title."""
        parts = [f"accuracy {percent(self.accuracy)}", f"sentences {percent(self.sentence_accuracy)}"]
        if self.known_accuracy is not None:
            parts.append(f"known words {percent(self.known_accuracy)}")
        if self.unknown_accuracy is not None:
            parts.append(f"unknown words {percent(self.unknown_accuracy)}")
        rows = tuple((tag, *score.cells()) for tag, score in self.tags.items())
        return Grid(f"Tags of {number_of(self.tokens, 'token')}: {', '.join(parts)}", ("tag", *SCORE_COLUMNS), rows)


def tagging_scores(
    gold: Tags,
    predicted: Tags,
    *,
    tokens: Sequence[Sequence[str]] | None = None,
    vocabulary: Container[str] | None = None,
) -> TaggingScores:
    """Accuracy and its parts; known and unknown need the ``tokens`` and the training ``vocabulary``."""
    check_aligned(gold, predicted)
    labels = sorted(set().union(*gold, *predicted))
    ids = {label: index for index, label in enumerate(labels)}
    true, guess = (
        np.fromiter((ids[tag] for tags in side for tag in tags), dtype=np.int64) for side in (gold, predicted)
    )
    right = true == guess
    tally = Tally(labels, *(np.bincount(side, minlength=len(labels)) for side in (true[right], guess, true)))
    perfect = sum(list(a) == list(b) for a, b in zip(gold, predicted, strict=True))
    known_accuracy = unknown_accuracy = unknown_tokens = None
    if tokens is not None and vocabulary is not None:
        if [*map(len, tokens)] != [*map(len, gold)]:
            raise DataError("tokens and gold tags differ in length: expected one tag per token")
        known = np.array([word in vocabulary for sentence in tokens for word in sentence], dtype=np.bool_)
        known_accuracy, unknown_accuracy = _share(right[known]), _share(right[~known])
        unknown_tokens = int(np.count_nonzero(~known))
    return TaggingScores(
        _share(right) or 0.0,
        known_accuracy,
        unknown_accuracy,
        perfect / len(gold) if len(gold) else 0.0,
        len(right),
        unknown_tokens,
        per_type(tally),
        _confusion(tally, true, guess),
    )


def token_counts(gold: Tags, predicted: Tags) -> IntArray:
    """Right and all tokens of each sentence, [S, 2]: what resampling needs."""
    check_aligned(gold, predicted)
    pairs = zip(gold, predicted, strict=True)
    rows = [(sum(t == g for t, g in zip(a, b, strict=True)), len(a)) for a, b in pairs]
    return np.array(rows, dtype=np.int64).reshape(len(rows), 2)


def _confusion(tally: Tally, true: IntArray, guess: IntArray) -> ConfusionMatrix:
    """Counts of the most frequent labels against each other: a table of all could be larger than the corpus."""
    order = np.argsort(-(tally.gold + tally.predicted), kind="stable")
    frequent = np.sort(order[:_MOST_LABELS])
    size = len(frequent)
    index = np.full(len(tally.names), -1)
    index[frequent] = np.arange(size)
    rows, columns = index[true], index[guess]
    inside = (rows >= 0) & (columns >= 0)
    counts = np.bincount(rows[inside] * size + columns[inside], minlength=size**2).reshape(size, size)
    return ConfusionMatrix(tuple(tally.names[i] for i in frequent), tuple(map(tuple, counts.tolist())))


def _share(right: BoolArray) -> float | None:
    return int(np.count_nonzero(right)) / len(right) if len(right) else None
