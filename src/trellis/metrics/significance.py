"""How sure is a figure, and is one system really better? Answers from resampling sentences.

Sentences are the unit: tags inside one depend on each other. The input is counts per sentence, [S, K],
as from ``entity_counts``, and a statistic of their sums; :func:`f1` and :func:`accuracy` are
ready-made.

*Bootstrap interval*: draw S sentences with replacement many times; the middle 95 % of the statistic is
the interval.

*Approximate randomisation*: if two systems were equally good, swapping their outputs on any sentence
would change nothing. The p-value is how often random swaps give a difference at least as large as the
real one (Noreen 1989).

*Paired bootstrap*: how often the difference of a resampled test set is on the other side of twice the
real one (Berg-Kirkpatrick et al. 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.errors import ConfigError, DataError
from trellis.metrics.prf import divide, f_measure, percent
from trellis.results import Grid, Report

Statistic = Callable[[IntArray], FloatArray]  # sums [..., K] -> figures [...]
Method = Literal["randomisation", "bootstrap"]
_CELLS_AT_ONCE = 4_000_000  # keeps the matrix of draws at some tens of megabytes


def f1(sums: IntArray) -> FloatArray:
    """F1 of (correct, predicted, gold) sums."""
    return f_measure(divide(sums[..., 0], sums[..., 1]), divide(sums[..., 0], sums[..., 2]))


def accuracy(sums: IntArray) -> FloatArray:
    """Accuracy of (right, all) sums."""
    return divide(sums[..., 0], sums[..., 1])


@dataclass(frozen=True)
class Interval(Report):
    """A figure and the interval that holds it with the given confidence."""

    value: float
    low: float
    high: float
    confidence: float
    samples: int

    def grid(self) -> Grid:
        """One row."""
        row = (percent(self.value), percent(self.low), percent(self.high))
        title = f"{self.confidence:.0%} bootstrap interval, {self.samples} samples"
        return Grid(title, ("value", "low", "high"), (row,))


@dataclass(frozen=True)
class Significance(Report):
    """Two systems on the same sentences, and the p-value of their difference (two-sided)."""

    first: float
    second: float
    difference: float  # second - first
    p_value: float
    method: str
    samples: int

    def grid(self) -> Grid:
        """One row."""
        row = (percent(self.first), percent(self.second), percent(self.difference), f"{self.p_value:.4f}")
        title = f"Paired {self.method}, {self.samples} samples"
        return Grid(title, ("first", "second", "difference", "p-value"), (row,))


def bootstrap_interval(
    counts: IntArray,
    statistic: Statistic = f1,
    *,
    confidence: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> Interval:
    """The percentile bootstrap interval of a statistic; the same seed gives the same interval."""
    _check(counts, samples)
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must lie between 0 and 1, got {confidence}")
    draws = np.concatenate([statistic(w @ counts) for w in _resamples(len(counts), samples, seed)])
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(float(statistic(counts.sum(axis=0))), float(low), float(high), confidence, samples)


def paired_significance(
    first: IntArray,
    second: IntArray,
    statistic: Statistic = f1,
    *,
    method: Method = "randomisation",
    samples: int = 10_000,
    seed: int = 0,
) -> Significance:
    """Whether the difference of two systems on the same sentences is more than chance."""
    _check(first, samples)
    if first.shape != second.shape:
        raise DataError(f"counts must be of the same sentences, got shapes {first.shape} and {second.shape}")
    values = float(statistic(first.sum(axis=0))), float(statistic(second.sum(axis=0)))
    difference = values[1] - values[0]
    if method == "randomisation":
        random, (one, two), parts = np.random.default_rng(seed), (first.sum(axis=0), second.sum(axis=0)), []
        for size in _batches(len(first), samples):
            swapped = one + random.integers(0, 2, (size, len(first))) @ (second - first)
            parts.append(statistic(one + two - swapped) - statistic(swapped))
        differences = np.concatenate(parts)
    elif method == "bootstrap":
        draws = _resamples(len(first), samples, seed)
        differences = np.concatenate([statistic(w @ second) - statistic(w @ first) for w in draws]) - difference
    else:
        raise ConfigError(f"unknown method {method!r}: expected 'randomisation' or 'bootstrap'")
    # Rounding must not decide whether a difference equals the real one; the real one counts as a sample.
    beyond = int(np.count_nonzero(np.abs(differences) >= abs(difference) - 1e-12))
    return Significance(*values, difference, (beyond + 1) / (samples + 1), method, samples)


def _resamples(sentences: int, samples: int, seed: int) -> Iterator[IntArray]:
    """How often each sentence is drawn, [samples, S] in batches."""
    rng = np.random.default_rng(seed)
    for size in _batches(sentences, samples):
        yield rng.multinomial(sentences, np.full(sentences, 1 / sentences), size=size)


def _batches(sentences: int, samples: int) -> Iterator[int]:
    step = max(1, _CELLS_AT_ONCE // sentences)
    for start in range(0, samples, step):
        yield min(step, samples - start)


def _check(counts: IntArray, samples: int) -> None:
    if counts.ndim != 2 or len(counts) == 0:
        raise DataError(f"counts must be [S, K] with at least one sentence, got shape {counts.shape}")
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, got {samples}")
