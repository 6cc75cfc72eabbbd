"""Hidden Markov models by enumeration of all state paths: slow, and hard to get wrong."""

import itertools

import numpy as np
from hypothesis import strategies as st

BOXES = {
    "start": [0.2, 0.4, 0.4],
    "transitions": [[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]],
    "emissions": [[0.5, 0.5], [0.4, 0.6], [0.7, 0.3]],
}


def joint(start, transitions, emissions, observations, path):
    """P(observations, path); emissions are (L, V)."""
    p = start[path[0]] * emissions[path[0]][observations[0]]
    for t in range(1, len(path)):
        p *= transitions[path[t - 1]][path[t]] * emissions[path[t]][observations[t]]
    return p


def paths(L, T, allowed=None):
    """All state paths that keep to allowed (T, L)."""
    every = itertools.product(range(L), repeat=T)
    return [path for path in every if allowed is None or all(allowed[t][s] for t, s in enumerate(path))]


def expected_counts(start, transitions, emissions, observations, allowed=None):
    """(likelihood, start counts, transition counts, emission counts by state) of one sequence."""
    L, V = np.shape(emissions)
    counts = np.zeros(L), np.zeros((L, L)), np.zeros((L, V))
    total = 0.0
    for path in paths(L, len(observations), allowed):
        p = joint(start, transitions, emissions, observations, path)
        total += p
        counts[0][path[0]] += p
        for a, b in itertools.pairwise(path):
            counts[1][a, b] += p
        for s, o in zip(path, observations, strict=True):
            counts[2][s, o] += p
    return total, *(c / total if total else c for c in counts)


@st.composite
def distributions(draw, size, zeros=True):
    """A distribution; some outcomes may be impossible."""
    weights = draw(st.lists(st.integers(0 if zeros else 1, 5), min_size=size, max_size=size).filter(any))
    return np.array(weights, dtype=float) / sum(weights)


@st.composite
def models(draw, zeros=True):
    """Start, transitions and emissions by state of a small HMM."""
    L, V = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    rows = [draw(distributions(L, zeros)) for _ in range(L + 1)]
    return rows[0], np.array(rows[1:]), np.array([draw(distributions(V, zeros)) for _ in range(L)])


@st.composite
def corpora(draw, V, most=4, longest=5):
    """Some sequences of symbols 0..V-1, empty ones among them."""
    return draw(st.lists(st.lists(st.integers(0, V - 1), max_size=longest), min_size=1, max_size=most))
