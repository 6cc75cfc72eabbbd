"""Why a token got its label: the best labelling against the best one with another label there, score by score.

The two differ in some scores only; their differences add up to the difference of the two labellings' scores. Any chain
is explained by its emissions and transitions; a model that knows what its emissions are made of names those parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from trellis import chain
from trellis.arrays import BoolArray, IntArray
from trellis.errors import ModelError, number_of
from trellis.models import states
from trellis.report import Grid, Report
from trellis.tags import TagSet


@dataclass(frozen=True)
class Contribution:
    """What one score gives to each of the two labellings."""

    position: int
    kind: Literal["emission", "feature", "step feature", "transition"]
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
        """One row per contribution."""
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


Part = tuple[str, float, float]
"""The name of something that a score is made of, with what it gives to each of two labellings."""
Step = tuple[int, int]
"""A state and the one after it."""
Parts = Callable[[int, int, int], Iterable[Part]]
"""From a position and two states there to what their emissions are made of."""
StepParts = Callable[[int, Step, Step], Iterable[Part]]
"""From a position and two steps into it to what their edges are made of."""


def explain(
    scores: chain.ChainScores,
    position: int,
    tags: TagSet,
    state_labels: IntArray | None = None,
    parts: Parts | None = None,
    step_parts: StepParts | None = None,
) -> Explanation:
    """Compare the best labelling of one sequence with the best that has another label at `position`."""
    tokens = len(scores.emissions)
    if not 0 <= position < tokens:
        raise ModelError(f"position must be in 0..{tokens - 1} of {number_of(tokens, 'token')}, got {position}")
    best = scores.viterbi().tags
    other = scores.viterbi(allowed=_elsewhere(scores, position, int(best[position]), state_labels)).tags
    labels, alternative = (states.to_labels(path, state_labels) for path in (best, other))
    marginals = states.sum_by_label(scores.marginals().tokens, state_labels, len(tags))[position]
    found = [
        *_emissions(scores, best, other, parts),
        *_edges(best, other, step_parts),
        *_transitions(scores if step_parts is None else _placeless(scores), tags, state_labels, best, other),
    ]
    return Explanation(
        position,
        tags.labels[labels[position]],
        tags.labels[alternative[position]],
        float(marginals[labels[position]]),
        float(marginals[alternative[position]]),
        float(scores.score(best)[0] - scores.score(other)[0]),
        tuple(tags.decode(labels)),
        tuple(tags.decode(alternative)),
        tuple(sorted(found, key=lambda c: -abs(c.difference))),
    )


def _elsewhere(scores: chain.ChainScores, position: int, state: int, state_labels: IntArray | None) -> BoolArray:
    """``(N, S)``: everything but the label of `state` at `position`."""
    allowed = np.ones(scores.emissions.shape, dtype=np.bool_)
    own = np.arange(scores.num_labels) if state_labels is None else state_labels
    allowed[position] = own != own[state]
    return allowed


def _emissions(
    scores: chain.ChainScores, best: IntArray, other: IntArray, parts: Parts | None
) -> Iterable[Contribution]:
    for t in np.flatnonzero(best != other).tolist():
        pair = int(best[t]), int(other[t])
        if parts is None:
            chosen, runner_up = (float(scores.emissions[t, state]) for state in pair)
            yield Contribution(t, "emission", f"token {t}", chosen, runner_up)
        else:
            for name, chosen, runner_up in parts(t, *pair):
                yield Contribution(t, "feature", name, chosen, runner_up)


def _edges(best: IntArray, other: IntArray, parts: StepParts | None) -> Iterable[Contribution]:
    """What the place of each step adds to its score, where the two paths differ."""
    steps = [list(pairwise(path.tolist())) for path in (best, other)]
    for t, (one, two) in enumerate(zip(*steps, strict=True), start=1):
        if parts is not None and one != two:
            for name, chosen, runner_up in parts(t, one, two):
                yield Contribution(t, "step feature", name, chosen, runner_up)


def _placeless(scores: chain.ChainScores) -> chain.ChainScores:
    """The scores without edges: transitions have the same score at every position."""
    return chain.ChainScores(scores.emissions, scores.lengths, scores.transitions, scores.start, scores.end)


def _transitions(
    scores: chain.ChainScores, tags: TagSet, state_labels: IntArray | None, best: IntArray, other: IntArray
) -> Iterable[Contribution]:
    """Start, steps and end, where the two paths differ."""
    steps = [_steps(scores, tags, state_labels, path) for path in (best, other)]
    for t, ((one, chosen), (two, runner_up)) in enumerate(zip(*steps, strict=True)):
        if chosen != runner_up or (one != two and chosen):
            name = one if one == two else f"{one} or {two}"
            yield Contribution(min(t, len(best) - 1), "transition", name, chosen, runner_up)


def _steps(
    scores: chain.ChainScores, tags: TagSet, state_labels: IntArray | None, path: IntArray
) -> list[tuple[str, float]]:
    """What a path scores for its start, for each step, and for its end, by name."""
    names = [tags.labels[label] for label in states.to_labels(path, state_labels)]
    moves = scores.steps(path).tolist()
    inner = [(f"{a} -> {b}", w) for a, b, w in zip(names, names[1:], moves, strict=False)]
    first, last = (f"start -> {names[0]}", float(scores.start[path[0]])), float(scores.end[path[-1]])
    return [first, *inner, (f"{names[-1]} -> end", last)]
