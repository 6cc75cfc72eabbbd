"""Why a CRF gave an answer: features and transitions by name, with the weights that decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.features import Extractor
from trellis.metrics import Grid, Report
from trellis.models import explanation
from trellis.models.crf.objective import CRFWeights, scores_of
from trellis.tags import TagSet


@dataclass(frozen=True)
class WeightedFeature:
    """One state feature."""

    name: str
    label: str
    weight: float


@dataclass(frozen=True)
class FeatureTable(Report):
    """State features, largest weight (by size) first."""

    features: tuple[WeightedFeature, ...]

    def grid(self) -> Grid:
        """One row per feature."""
        rows = tuple((f.name, f.label, f"{f.weight:+.4f}") for f in self.features)
        return Grid("State features", ("feature", "label", "weight"), rows)


@dataclass(frozen=True)
class TransitionTable(Report):
    """``weights[i][j]`` of label i before label j; None has no weight, minus infinity is forbidden."""

    labels: tuple[str, ...]
    weights: tuple[tuple[float | None, ...], ...]

    def grid(self) -> Grid:
        """Rows from, columns to."""
        cells = [["" if w is None else f"{w:+.3f}" for w in row] for row in self.weights]
        rows = tuple((label, *row) for label, row in zip(self.labels, cells, strict=True))
        return Grid("Transitions from row to column", ("from", *self.labels), rows)


def explain_features(
    sentence: Any, position: int, extractor: Extractor, p: CRFWeights, tags: TagSet
) -> explanation.Explanation:
    """The explanation of a token's label by features and transitions."""
    compiled = extractor.compile([sentence], p.index, grow=False)

    def parts(t: int, chosen: int, runner_up: int) -> Iterator[tuple[str, float, float]]:
        for attribute, value in compiled.token_attributes(t):
            begin, end = (int(p.ends[attribute - 1]) if attribute else 0), int(p.ends[attribute])
            row = dict(zip(p.labels[begin:end].tolist(), (value * p.weights[begin:end]).tolist(), strict=True))
            pair = row.get(chosen, 0.0), row.get(runner_up, 0.0)
            if any(pair):
                yield p.index.name(attribute), *pair

    return explanation.explain(scores_of(compiled, p), position, tags, parts=parts)


def top_features(p: CRFWeights, tags: TagSet, label: str | None, n: int) -> FeatureTable:
    """The n largest weights by size."""
    chosen = np.arange(len(p.weights)) if label is None else np.flatnonzero(p.labels == tags.id(label))
    order = chosen[np.argsort(-np.abs(p.weights[chosen]), kind="stable")[:n]]
    owners = np.searchsorted(p.ends, order, side="right")
    rows = zip(owners.tolist(), p.labels[order].tolist(), p.weights[order].tolist(), strict=True)
    return FeatureTable(tuple(WeightedFeature(p.index.name(a), tags.labels[own], w) for a, own, w in rows))


def transitions(p: CRFWeights, tags: TagSet) -> TransitionTable:
    """All transitions, as a table."""
    shown = p.weighted | np.isneginf(p.transitions)
    rows = zip(p.transitions.tolist(), shown.tolist(), strict=True)
    return TransitionTable(
        tags.labels, tuple(tuple(w if s else None for w, s in zip(*row, strict=True)) for row in rows)
    )
