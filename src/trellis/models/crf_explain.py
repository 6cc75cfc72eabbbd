"""Why a CRF said what it said: features and transitions by name, with the weights that decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trellis import chain
from trellis.errors import ModelError
from trellis.features import Compiled, Extractor
from trellis.metrics import Grid, Report
from trellis.models.crf_problem import Parameters, scores_of
from trellis.tags import TagSet

IntArray = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Contribution:
    """What one feature or transition gives to each of the two labellings."""

    position: int
    kind: Literal["feature", "transition"]
    name: str
    chosen: float
    runner_up: float

    @property
    def difference(self) -> float:
        """Positive: it speaks for the chosen label."""
        return self.chosen - self.runner_up


@dataclass(frozen=True)
class Explanation(Report):
    """The chosen labelling against the best one with another label at `position`."""

    position: int
    label: str
    runner_up: str
    probability: float
    runner_up_probability: float
    score_difference: float
    labelling: tuple[str, ...]
    alternative: tuple[str, ...]
    contributions: tuple[Contribution, ...]
    """Largest difference first; the differences add up to `score_difference`."""

    def grid(self) -> Grid:
        """One row a contribution."""
        rows: list[tuple[str, ...]] = [
            (c.name, c.kind, str(c.position), f"{c.chosen:+.3f}", f"{c.runner_up:+.3f}", f"{c.difference:+.3f}")
            for c in self.contributions
        ]
        rows.append(("total", "", "", "", "", f"{self.score_difference:+.3f}"))
        title = (
            f"Position {self.position}: {self.label} ({self.probability:.3f}) "
            f"rather than {self.runner_up} ({self.runner_up_probability:.3f})"
        )
        return Grid(title, ("what", "kind", "position", self.label, self.runner_up, "difference"), tuple(rows))


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
        """One row a feature."""
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


def explain(sentence: Any, position: int, extractor: Extractor, p: Parameters, tags: TagSet) -> Explanation:
    """Compare the best labelling with the best that differs at `position`."""
    compiled = extractor.compile([sentence], p.index, grow=False)
    if not 0 <= position < compiled.tokens:
        raise ModelError(f"position must be in 0..{compiled.tokens - 1} of {compiled.tokens} tokens, got {position}")
    scores = scores_of(compiled, p)
    best = chain.viterbi(scores).tags
    allowed = np.ones(scores.emissions.shape, dtype=np.bool_)
    allowed[position, best[position]] = False
    other = chain.viterbi(scores, allowed=allowed).tags
    difference = float(chain.score(scores, best)[0] - chain.score(scores, other)[0])
    marginals = chain.marginals(scores).tokens[position]
    found = [*_features(compiled, p, best, other), *_transitions(p, tags, best, other)]
    found.sort(key=lambda c: -abs(c.difference))
    return Explanation(
        position,
        tags.labels[best[position]],
        tags.labels[other[position]],
        float(marginals[best[position]]),
        float(marginals[other[position]]),
        difference,
        tuple(tags.decode(best)),
        tuple(tags.decode(other)),
        tuple(found),
    )


def _features(compiled: Compiled, p: Parameters, best: IntArray, other: IntArray) -> list[Contribution]:
    found = []
    for t in np.flatnonzero(best != other).tolist():
        for attribute, value in compiled.token_attributes(t):
            begin, end = (int(p.ends[attribute - 1]) if attribute else 0), int(p.ends[attribute])
            row = dict(zip(p.labels[begin:end].tolist(), (value * p.weights[begin:end]).tolist(), strict=True))
            pair = row.get(int(best[t]), 0.0), row.get(int(other[t]), 0.0)
            if any(pair):
                found.append(Contribution(t, "feature", p.index.name(attribute), *pair))
    return found


def _transitions(p: Parameters, tags: TagSet, best: IntArray, other: IntArray) -> list[Contribution]:
    found = []
    for t in range(1, len(best)):
        steps = [(int(path[t - 1]), int(path[t])) for path in (best, other)]
        if steps[0] == steps[1]:
            continue
        chosen, runner_up = (float(p.transitions[step]) for step in steps)
        if chosen or runner_up:
            names = [f"{tags.labels[a]} -> {tags.labels[b]}" for a, b in steps]
            found.append(Contribution(t, "transition", " or ".join(names), chosen, runner_up))
    return found


def top_features(p: Parameters, tags: TagSet, label: str | None, n: int) -> FeatureTable:
    """The n largest weights by size."""
    chosen = np.arange(len(p.weights)) if label is None else np.flatnonzero(p.labels == tags.id(label))
    order = chosen[np.argsort(-np.abs(p.weights[chosen]), kind="stable")[:n]]
    owners = np.searchsorted(p.ends, order, side="right")
    rows = zip(owners.tolist(), p.labels[order].tolist(), p.weights[order].tolist(), strict=True)
    return FeatureTable(tuple(WeightedFeature(p.index.name(a), tags.labels[own], w) for a, own, w in rows))


def transitions(p: Parameters, tags: TagSet) -> TransitionTable:
    """All transitions, as a table."""
    shown = p.weighted | np.isneginf(p.transitions)
    rows = zip(p.transitions.tolist(), shown.tolist(), strict=True)
    return TransitionTable(
        tags.labels, tuple(tuple(w if s else None for w, s in zip(*row, strict=True)) for row in rows)
    )
