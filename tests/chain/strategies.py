"""Hypothesis strategies for tiny chains: T in 0..5, L in 1..4, B in 0..4, with minus infinities."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.chain.oracle import NEG_INF, Case

FINITE = st.floats(-5, 5, width=32)
LARGE = st.floats(-1e4, 1e4, width=32)
# Sums of these are exact, so that equal scores are exactly equal.
TIED = st.integers(-2, 2).map(float)


def check(*args: Any, max_examples: int = 60, **kwargs: Any) -> Callable[[Any], Any]:
    """`given` for cases that take a while to enumerate: few examples."""
    options = settings(max_examples=max_examples)
    return lambda test: options(given(*args, **kwargs)(test))


def arrays(shape: tuple[int, ...], elements: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, shape, elements=elements, fill=st.nothing())


def bools(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.bool_, shape, elements=st.booleans(), fill=st.nothing())


def holes(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Which scores are forbidden: one in five, so that most cases keep several paths."""
    elements = st.sampled_from([False, False, False, False, True])
    return hnp.arrays(np.bool_, shape, elements=elements, fill=st.nothing())


def tags_of(case: Case) -> st.SearchStrategy[np.ndarray]:
    """Any tags, valid or not, for the tokens of a case."""
    return hnp.arrays(np.int64, len(case.emissions), elements=st.integers(0, case.num_labels - 1))


def pairs_of(lengths: np.ndarray) -> int:
    """How many pairs of neighbouring tokens there are."""
    return int(np.maximum(lengths - 1, 0).sum())


@st.composite
def finite_cases(draw: st.DrawFn, elements: st.SearchStrategy[float] = FINITE, min_length: int = 0) -> Case:
    """Scores without minus infinity; half of the cases have edges."""
    lengths = np.array(draw(st.lists(st.integers(min_length, 5), max_size=4)), dtype=np.int64)
    L = draw(st.integers(1, 4))
    shapes = ((int(lengths.sum()), L), (L, L), (L,), (L,))
    emissions, transitions, start, end = (draw(arrays(shape, elements)) for shape in shapes)
    edges = draw(arrays((pairs_of(lengths), L, L), elements)) if draw(st.booleans()) else None
    return Case(emissions, lengths, transitions, start, end, edges)


@st.composite
def forbidding_cases(draw: st.DrawFn, elements: st.SearchStrategy[float] = FINITE) -> Case:
    """Scores with minus infinities anywhere; a sequence may have no valid path."""
    case = draw(finite_cases(elements))

    def forbid(scores: np.ndarray) -> np.ndarray:
        return np.where(draw(holes(scores.shape)), NEG_INF, scores)

    return replace(
        case,
        emissions=forbid(case.emissions),
        transitions=forbid(case.transitions),
        start=forbid(case.start),
        end=forbid(case.end),
        edges=None if case.edges is None else forbid(case.edges),
    )


def forbid_around(case: Case, banned: Case, tags: np.ndarray) -> Case:
    """Forbid scores where `banned`, a case of booleans, says so, except on the path of the tags."""
    banned.emissions[np.arange(len(tags)), tags] = False
    pair = itertools.count()
    for path in filter(len, case.split(tags)):
        banned.start[path[0]] = banned.end[path[-1]] = False
        for i, j in itertools.pairwise(path):
            banned.transitions[i, j] = False
            if banned.edges is not None:
                banned.edges[next(pair), i, j] = False
    scores = (
        values if values is case.lengths else np.where(mask, NEG_INF, values)
        for values, mask in zip(case.arrays(), banned.arrays(), strict=True)
    )
    return Case(*scores)


@st.composite
def labelled_cases(draw: st.DrawFn, elements: st.SearchStrategy[float] = FINITE) -> tuple[Case, np.ndarray]:
    """Scores with minus infinities and valid tags [N]: at least one valid path for each sequence."""
    finite = draw(finite_cases(elements))
    tags = draw(tags_of(finite))
    banned = Case(
        draw(holes(finite.emissions.shape)),
        finite.lengths,
        draw(holes(finite.transitions.shape)),
        draw(holes(finite.start.shape)),
        draw(holes(finite.end.shape)),
        None if finite.edges is None else draw(holes(finite.edges.shape)),
    )
    return forbid_around(finite, banned, tags), tags


def grid_case(L: int, forbidden: float, scale: float, with_edges: bool = False) -> tuple[Case, np.ndarray]:
    """One batch with a sequence of every length 0..5 and valid tags; a share of the scores is forbidden."""
    rng = np.random.default_rng([L, int(10 * forbidden), int(scale)])
    lengths = np.array([3, 0, 5, 1, 4, 2])
    N = int(lengths.sum())
    shapes = [(N, L), (L, L), L, L, *([(pairs_of(lengths), L, L)] if with_edges else [])]
    emissions, *others = (rng.normal(scale=scale, size=shape) for shape in shapes)
    mask, *masks = (rng.random(shape) < forbidden for shape in shapes)
    tags = rng.integers(L, size=N)
    return forbid_around(Case(emissions, lengths, *others), Case(mask, lengths, *masks), tags), tags


def valid_cases(elements: st.SearchStrategy[float] = FINITE) -> st.SearchStrategy[Case]:
    """Scores with minus infinities, and at least one valid path for each sequence."""
    return labelled_cases(elements).map(lambda labelled: labelled[0])


@st.composite
def allowed_masks(draw: st.DrawFn, case: Case, tags: np.ndarray | None = None) -> np.ndarray:
    """`allowed[N, L]` for a case; with tags, one that keeps that path."""
    allowed = draw(bools(case.emissions.shape))
    if tags is not None:
        allowed[np.arange(len(tags)), tags] = True
    return allowed


@st.composite
def spans_of(draw: st.DrawFn, case: Case) -> tuple[np.ndarray, list[np.ndarray]]:
    """Some spans (sequence, begin, end) of a case, and any tags for each."""
    every = [
        (b, begin, end)
        for b, length in enumerate(case.lengths.tolist())
        for begin, end in itertools.combinations(range(length + 1), 2)
    ]
    chosen = draw(st.lists(st.sampled_from(every), max_size=6)) if every else []
    labels = st.integers(0, case.num_labels - 1)
    tags = [draw(hnp.arrays(np.int64, end - begin, elements=labels)) for _, begin, end in chosen]
    return np.array(chosen, dtype=np.int64).reshape(-1, 3), tags
