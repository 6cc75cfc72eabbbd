"""Why a CRF gave an answer: features and transitions by name, with the weights that decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.arrays import BoolArray
from trellis.features import Compiled, Extractor
from trellis.metrics import Grid, Report
from trellis.models import explain
from trellis.models.crf.weights import AttributeWeights, CRFWeights, Observed
from trellis.tags import StateMap


@dataclass(frozen=True)
class WeightedFeature:
    """One feature of a token, or, with a `previous` label, of the step into it."""

    name: str
    label: str
    weight: float
    previous: str | None = None

    @property
    def labels(self) -> str:
        """Its label, or both."""
        return self.label if self.previous is None else f"{self.previous} -> {self.label}"


@dataclass(frozen=True)
class FeatureTable(Report):
    """Features, largest weight (by size) first."""

    features: tuple[WeightedFeature, ...]

    def grid(self) -> Grid:
        """One row per feature."""
        rows = tuple((f.name, f.labels, f"{f.weight:+.4f}") for f in self.features)
        return Grid("Features", ("feature", "label", "weight"), rows)


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
    sentence: Any, position: int, extractor: Extractor, p: CRFWeights, own: StateMap
) -> explain.Explanation:
    """The explanation of a token's label by features and transitions."""
    observed = Observed.of(extractor, [sentence], p.index, None if p.edges is None else p.edges.index)

    states, finer = p.state_labels, own.finer
    if states is not None:
        finer = own.labels[states]

    def parts(t: int, chosen: int, runner_up: int) -> Iterator[explain.Part]:
        pair = (chosen, runner_up) if states is None else (int(states[chosen]), int(states[runner_up]))
        return _parts(observed.tokens, p, t, *pair)

    def step_parts(t: int, chosen: explain.Step, runner_up: explain.Step) -> Iterator[explain.Part]:
        if p.edges is not None and observed.steps is not None:
            pairs = (i * p.width + j for i, j in (chosen, runner_up))
            yield from _parts(observed.steps, p.edges, t, *pairs)

    return explain.explain(observed.scores(p), position, own.tags, finer, parts, step_parts)


def _parts(
    compiled: Compiled, weights: AttributeWeights, t: int, chosen: int, runner_up: int
) -> Iterator[explain.Part]:
    """The features of token t that have a weight for either label."""
    for attribute, value in compiled.token_attributes(t):
        row = weights.of(attribute)
        pair = value * row.get(chosen, 0.0), value * row.get(runner_up, 0.0)
        if any(pair):
            yield weights.index.name(attribute), *pair


def top_features(p: CRFWeights, states: StateMap, label: str | None, n: int) -> FeatureTable:
    """The n largest weights by size, of all states, of those that stand for a label, or of one that is no label."""
    named = np.ones(len(states), dtype=np.bool_)
    if label is not None:
        named = np.array([name == label for name in states.names])
        if label in states.tags.labels or not named.any():
            named = states.labels == states.tags.id(label)
    names, width = states.names, len(states)
    found = [WeightedFeature(name, names[own], w) for name, own, w in _largest(p, named, n)]
    if p.edges is not None:
        for name, pair, w in _largest(p.edges, np.tile(named, width), n):
            found.append(WeightedFeature(name, names[pair % width], w, names[pair // width]))
    return FeatureTable(tuple(sorted(found, key=lambda f: -abs(f.weight))[:n]))


def _largest(p: AttributeWeights, named: BoolArray, n: int) -> Iterator[tuple[str, int, float]]:
    """The n largest weights by size of labels that are `named`: attribute, label, weight."""
    chosen = np.flatnonzero(named[p.labels])
    order = chosen[np.argsort(-np.abs(p.weights[chosen]), kind="stable")[:n]]
    owners = np.searchsorted(p.ends, order, side="right")
    for a, own, w in zip(owners.tolist(), p.labels[order].tolist(), p.weights[order].tolist(), strict=True):
        yield p.index.name(a), own, w


def transitions(p: CRFWeights, states: StateMap) -> TransitionTable:
    """All transitions, as a table."""
    shown = p.weighted | np.isneginf(p.transitions)
    rows = zip(p.transitions.tolist(), shown.tolist(), strict=True)
    return TransitionTable(
        states.names, tuple(tuple(w if s else None for w, s in zip(*row, strict=True)) for row in rows)
    )
