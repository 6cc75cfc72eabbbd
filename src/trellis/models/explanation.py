"""Why a token got its label: the best labelling against the best one with another label there, score by score.

The two differ in some scores only; their differences add up to the difference of the two labellings' scores. Any chain
is explained by its emissions and transitions; a model that knows what its emissions are made of names those parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from trellis import chain
from trellis.arrays import IntArray
from trellis.errors import ModelError, NoPathError, number_of
from trellis.models.posterior import sum_by_label
from trellis.results import Grid, Report
from trellis.tags import TagSet


@dataclass(frozen=True)
class Contribution:
    """One score that differs between the two labellings, with its value in each."""

    position: int
    kind: Literal["emission", "feature", "step feature", "transition"]
    name: str
    chosen: float
    runner_up: float
    words: str
    """The name in plain words: 'previous word is "to"' for the feature U21:to."""

    @property
    def difference(self) -> float:
        """Positive if the score speaks for the chosen label."""
        return self.chosen - self.runner_up


@dataclass(frozen=True)
class Explanation(Report):
    """The chosen labelling against the best one with another label at `position`.

    If no other label is possible there, `runner_up` is empty, and there are no contributions.
    """

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
            (c.words, c.kind, str(c.position), f"{c.chosen:+.3f}", f"{c.runner_up:+.3f}", f"{c.difference:+.3f}")
            for c in self.contributions
        ]
        rows.append(("total", "", "", "", "", f"{self.score_difference:+.3f}"))
        title = f"Position {self.position}: {self.label} ({self.probability:.3f})"
        if self.runner_up:
            title += f" rather than {self.runner_up} ({self.runner_up_probability:.3f})"
        return Grid(title, ("what", "kind", "position", self.label, self.runner_up, "difference"), tuple(rows))


Part = tuple[str, float, float]
"""The name of something that a score is made of, with what it gives to each of two labellings."""
Step = tuple[int, int]
"""A state and the one after it."""


def explain(
    scores: chain.ChainScores,
    position: int,
    tags: TagSet,
    state_labels: IntArray | None = None,
    parts: Callable[[int, int, int], Iterable[Part]] | None = None,
    step_parts: Callable[[int, Step, Step], Iterable[Part]] | None = None,
    *,
    tokens: Sequence[object] = (),
    words: Callable[[str], str] = str,
) -> Explanation:
    """Compare the best labelling of one sequence with the best that has another label at `position`.

    Args:
        scores: of the sequence.
        position: of the token that is asked about.
        tags: the labels.
        state_labels: the label that each state stands for; None if the states are the labels.
        parts: from a position and two states there to what their emissions are made of.
        step_parts: from a position and two steps into it to what their edges are made of.
        tokens: what emissions are called that have no parts; default: their positions.
        words: from the name of a part to what it says.

    """
    N = len(scores.emissions)
    if not 0 <= position < N:
        raise ModelError(f"position must be in 0..{N - 1} of {number_of(N, 'token')}, got {position}")
    labels = np.arange(scores.num_labels) if state_labels is None else state_labels
    best = scores.viterbi().tags
    label, marginals = int(labels[best[position]]), sum_by_label(scores.marginals().tokens, state_labels, len(tags))
    allowed = np.ones(scores.emissions.shape, dtype=np.bool_)
    allowed[position] = labels != label
    names, probability = tags.decode(labels[best]), float(marginals[position, label])
    try:
        other = scores.viterbi(allowed=allowed).tags
    except NoPathError:  # an HMM may have seen this word with no other label
        return Explanation(position, names[position], "", probability, 0.0, 0.0, tuple(names), (), ())
    other_names = tags.decode(labels[other])

    contributions: list[Contribution] = []
    for t in np.flatnonzero(best != other).tolist():
        pair = int(best[t]), int(other[t])
        if parts is None:
            name = str(tokens[t]) if len(tokens) else f"token {t}"
            chosen, runner_up = scores.emissions[t, list(pair)].tolist()
            contributions.append(Contribution(t, "emission", name, chosen, runner_up, name))
        else:
            contributions += [Contribution(t, "feature", *part, words=words(part[0])) for part in parts(t, *pair)]
    if step_parts is not None:
        steps = zip(pairwise(best.tolist()), pairwise(other.tolist()), strict=True)
        for t, (step, other_step) in enumerate(steps, start=1):
            if step != other_step:
                different = step_parts(t, step, other_step)
                contributions += [Contribution(t, "step feature", *part, words=words(part[0])) for part in different]

    def moves(path: IntArray, names: list[str]) -> Iterator[tuple[str, float]]:
        """The start, the steps and the end of a path, with their scores; those of edges have parts of their own."""
        steps = scores.steps(path) if step_parts is None else scores.transitions[path[:-1], path[1:]]
        yield f"start -> {names[0]}", float(scores.start[path[0]])
        yield from zip((f"{a} -> {b}" for a, b in pairwise(names)), steps.tolist(), strict=True)
        yield f"{names[-1]} -> end", float(scores.end[path[-1]])

    both = zip(moves(best, names), moves(other, other_names), strict=True)
    for t, ((one, chosen), (two, runner_up)) in enumerate(both):
        if chosen != runner_up or (one != two and chosen):
            name = one if one == two else f"{one} or {two}"
            contributions.append(Contribution(min(t, N - 1), "transition", name, chosen, runner_up, name))
    return Explanation(
        position,
        names[position],
        other_names[position],
        probability,
        float(marginals[position, labels[other[position]]]),
        float(scores.score(best)[0] - scores.score(other)[0]),
        tuple(names),
        tuple(other_names),
        tuple(sorted(contributions, key=lambda c: -abs(c.difference))),
    )
