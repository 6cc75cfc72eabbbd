"""Do probabilities mean what they say? Of the answers with probability 0.8, four in five should be right.

Answers are put into bins by their probability. In each bin the mean probability is compared with the
share that is right; the expected calibration error is the mean gap, weighted by the answers in the bin:

    ECE = sum over bins of (n_b / n) |right_b - confidence_b|      MCE = the largest gap
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from trellis.errors import ConfigError, DataError, number_of
from trellis.metrics.prf import check_aligned, percent
from trellis.plots import Chart, Curve, Picture, Pictured, svg
from trellis.results import Grid, Report
from trellis.tags import Span
from trellis.tags.spans import Tags


@dataclass(frozen=True)
class Bin:
    """Answers with a probability in (low, high], their mean probability and the share that is right."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration(Pictured, Report):
    """Expected and maximum calibration error, the Brier score, and the reliability table (no empty bins)."""

    ece: float
    mce: float
    brier: float
    count: int
    bins: tuple[Bin, ...]

    def grid(self) -> Grid:
        """The reliability table."""
        rows = tuple(
            (
                f"{bin.low:.2f} to {bin.high:.2f}",
                str(bin.count),
                percent(bin.confidence),
                percent(bin.accuracy),
                f"{100 * (bin.accuracy - bin.confidence):+.2f}",
            )
            for bin in self.bins
        )
        errors = f"ECE {percent(self.ece)}, MCE {percent(self.mce)}, Brier {self.brier:.4f}"
        title = f"{self.count} probabilities: {errors}"
        return Grid(title, ("probability", "count", "confidence", "right", "gap"), rows)

    def pictures(self) -> list[Picture]:
        points = [(bin.confidence, bin.accuracy) for bin in self.bins]
        curves = Curve("perfect", "#a3b8cc", [(0.0, 0.0), (1.0, 1.0)]), Curve("model", "#2563eb", points)
        return [Chart("share that is right", curves, "probability", whole=False)]

    def _repr_html_(self) -> str:
        return svg(self.pictures()) + super()._repr_html_()


def calibration(probabilities: ArrayLike, right: ArrayLike, *, bins: int = 10) -> Calibration:
    """Calibration of answers, from the probability of each and whether it was right."""
    confidence = np.asarray(probabilities, dtype=np.float64)
    correct = np.asarray(right, dtype=np.float64)
    if confidence.ndim != 1 or confidence.shape != correct.shape:
        raise DataError(
            f"probabilities and answers must be two flat arrays of one length, got shapes "
            f"{confidence.shape} and {correct.shape}"
        )
    outside = np.flatnonzero(~((confidence >= 0) & (confidence <= 1 + 1e-9)))
    if len(outside):
        raise DataError(f"probability {confidence[outside[0]]} at {outside[0]}: expected a number from 0 to 1")
    if bins < 1:
        raise ConfigError(f"bins must be at least 1, got {bins}")
    if len(confidence) == 0:
        return Calibration(0.0, 0.0, 0.0, 0, ())
    edges = np.linspace(0.0, 1.0, bins + 1)
    bin_of = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    filled = np.flatnonzero(counts)
    means = [np.bincount(bin_of, values, bins)[filled] / counts[filled] for values in (confidence, correct)]
    gaps = np.abs(means[1] - means[0])
    table = zip(edges[filled], edges[filled + 1], counts[filled], *means, strict=True)
    return Calibration(
        float(gaps @ counts[filled] / len(confidence)),
        float(gaps.max()),
        float(np.mean((confidence - correct) ** 2)),
        len(confidence),
        tuple(Bin(float(a), float(b), int(n), float(c), float(r)) for a, b, n, c, r in table),
    )


def token_calibration(
    probabilities: Sequence[ArrayLike], predicted: Tags, gold: Tags, *, bins: int = 10
) -> Calibration:
    """Calibration of tags: for each sentence, the probability of each predicted tag."""
    check_aligned(gold, predicted)
    flat = np.concatenate([np.zeros(0), *(np.asarray(row, dtype=np.float64) for row in probabilities)])
    tags = [np.array(list(chain.from_iterable(side)), dtype=object) for side in (gold, predicted)]
    return calibration(flat, tags[0] == tags[1], bins=bins)


def span_calibration(
    probabilities: Sequence[Mapping[Span, float]], gold: Sequence[Sequence[Span]], *, bins: int = 10
) -> Calibration:
    """Calibration of spans: for each sentence, the probability of each proposed span."""
    if len(probabilities) != len(gold):
        raise DataError(f"{number_of(len(probabilities), 'sentence')} of probabilities and {len(gold)} of gold spans")
    answers = [
        (probability, span in true)
        for proposed, true in zip(probabilities, map(set, gold), strict=True)
        for span, probability in proposed.items()
    ]
    return calibration([p for p, _ in answers], [hit for _, hit in answers], bins=bins)
