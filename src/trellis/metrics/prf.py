"""What all scores share: precision, recall and F from counts, for one type or an array of types at once.

precision = correct / predicted      recall = correct / gold      F = (1 + b^2) P R / (b^2 P + R)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.errors import DataError, number_of


def check_number(gold: Sequence[object], predicted: Sequence[object]) -> None:
    """Refuse two corpora that do not have the same number of sentences."""
    if len(gold) != len(predicted):
        raise DataError(
            f"gold has {number_of(len(gold), 'sentence')}, predicted has {len(predicted)}: expected the same number"
        )


def check_aligned(gold: Sequence[Sequence[object]], predicted: Sequence[Sequence[object]]) -> list[int]:
    """The length of each sentence; if the corpora differ in it, the error names the first such sentence."""
    check_number(gold, predicted)
    lengths, others = list(map(len, gold)), list(map(len, predicted))
    if lengths != others:
        index = next(i for i, (a, b) in enumerate(zip(lengths, others, strict=True)) if a != b)
        raise DataError(
            f"sentence {index} has {lengths[index]} gold tags and {others[index]} predicted tags: "
            "expected one of each per token"
        )
    return lengths


def percent(value: float | None) -> str:
    """A share as a percentage with two decimals, the way the field's scorers print it; nothing for None."""
    return "" if value is None else f"{100 * value:.2f}"


class Tally(NamedTuple):
    """How many spans of each type are in the gold tags, in the predicted tags, and in both; types by name."""

    names: list[str]
    correct: IntArray
    predicted: IntArray
    gold: IntArray


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1 with the counts behind them; ``gold`` is what reports call support."""

    precision: float
    recall: float
    f1: float
    correct: int
    predicted: int
    gold: int

    def cells(self) -> tuple[str, ...]:
        """Text for the columns of :data:`SCORE_COLUMNS`."""
        shares = (percent(self.precision), percent(self.recall), percent(self.f1))
        return (*shares, str(self.gold), str(self.predicted), str(self.correct))


SCORE_COLUMNS = ("precision", "recall", "F1", "gold", "predicted", "correct")


def divide(numerator: IntArray, denominator: IntArray, *, zero: float = 0.0) -> FloatArray:
    """The quotient, and ``zero`` if the denominator is 0."""
    empty = denominator == 0
    return np.where(empty, zero, numerator / np.where(empty, 1, denominator))


def f_measure(precision: FloatArray, recall: FloatArray, *, beta: float = 1.0) -> FloatArray:
    """F of precision and recall, 0 if both are 0; an infinite beta means recall."""
    if np.isposinf(beta):
        return recall
    weight = beta**2
    denominator = weight * precision + recall
    result: FloatArray = (1 + weight) * precision * recall / np.where(denominator == 0.0, 1.0, denominator)
    return result


def score(correct: int, predicted: int, gold: int) -> Score:
    """The figures of one set of counts; a division by zero gives 0."""
    counts = np.array([[correct], [predicted], [gold]], dtype=np.int64)
    precision, recall = divide(counts[0], counts[1]), divide(counts[0], counts[2])
    f1 = f_measure(precision, recall)
    return Score(float(precision[0]), float(recall[0]), float(f1[0]), correct, predicted, gold)


class Averages(NamedTuple):
    """Micro: all counts together; macro: the mean over types; weighted: by the number of gold spans."""

    micro: Score
    macro: Score
    weighted: Score


def per_type(tally: Tally) -> dict[str, Score]:
    """The score of each type, by name."""
    rows = zip(tally.names, tally.correct, tally.predicted, tally.gold, strict=True)
    return {name: score(int(correct), int(predicted), int(gold)) for name, correct, predicted, gold in rows}


def averages(tally: Tally) -> Averages:
    """The three averages people report; all zero if there is nothing to average."""
    totals = int(tally.correct.sum()), int(tally.predicted.sum()), int(tally.gold.sum())
    precision, recall = divide(tally.correct, tally.predicted), divide(tally.correct, tally.gold)
    figures = np.stack([precision, recall, f_measure(precision, recall)])
    even = np.ones(len(tally.names))
    return Averages(score(*totals), _mean(figures, even, totals), _mean(figures, tally.gold, totals))


def _mean(figures: FloatArray, weights: FloatArray | IntArray, totals: tuple[int, int, int]) -> Score:
    if weights.sum() == 0:
        return Score(0.0, 0.0, 0.0, *totals)
    precision, recall, f1 = np.average(figures, axis=1, weights=weights)
    return Score(float(precision), float(recall), float(f1), *totals)
