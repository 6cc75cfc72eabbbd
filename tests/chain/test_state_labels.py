"""Chains whose states are finer than labels: spans of labels beside the paths that keep to them, one span at a time."""

import numpy as np
import pytest

from trellis import chain
from trellis.errors import NoPathError, ShapeError, TagRangeError

NEG_INF = -np.inf
LENGTHS = [6, 1, 0, 9]
SPANS = [(0, 0, 2), (0, 1, 3), (0, 5, 6), (1, 0, 1), (3, 2, 3), (3, 0, 9), (3, 4, 8)]


def sparse_chain(random: np.random.Generator, L: int, live: float, with_edges: bool = False) -> chain.ChainScores:
    """Random scores; a share `live` of the transitions is possible, those from and to state 0 always."""
    transitions = np.where(random.random((L, L)) < live, random.normal(size=(L, L)), NEG_INF)
    transitions[0], transitions[:, 0] = random.normal(size=(2, L))
    emissions = random.normal(scale=2.0, size=(sum(LENGTHS), L))
    start, end = random.normal(size=(2, L))
    edges = random.normal(size=(13, L, L)) if with_edges else None
    return chain.ChainScores(emissions, LENGTHS, transitions, start, end, edges)


def by_restriction(scores: chain.ChainScores, span, tags, before, after, labels) -> float:
    """The log partition over the paths that keep to the span, less that over all."""
    b, begin, end = span
    one = scores.part(b)
    mask = np.ones(one.emissions.shape, dtype=np.bool_)
    mask[begin:end] = labels == np.asarray(tags)[:, None]
    if begin > 0 and before is not None:
        mask[begin - 1] = before[labels]
    if end < len(mask) and after is not None:
        mask[end] = after[labels]
    try:
        return float((one.log_partition(allowed=mask) - one.log_partition())[0])
    except NoPathError:
        return NEG_INF


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("sided", [False, True])
@pytest.mark.parametrize("live", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("L", [3, 9, 20, 41])
@pytest.mark.parametrize("with_edges", [False, True])
def test_spans_of_labels_have_the_probability_of_the_paths_that_keep_to_them(
    L: int, live: float, sided: bool, with_edges: bool
) -> None:
    possible = 0
    for seed in range(5):
        random = np.random.default_rng(seed)
        scores = sparse_chain(random, L, live, with_edges)
        labels = np.concatenate([np.arange(3), random.integers(0, 3, L - 3)])
        drawn = labels[scores.sample(1, seed=seed)[0]]  # labels of a path that exists
        begins = np.concatenate([[0], np.cumsum(LENGTHS)])
        tags = [drawn[begins[b] + begin : begins[b] + end].tolist() for b, begin, end in SPANS]
        before, after = (random.random((2, len(SPANS), 3)) < 0.7) if sided else (None, None)
        expected = [
            by_restriction(scores, span, own, *(None if side is None else side[i] for side in (before, after)), labels)
            for i, (span, own) in enumerate(zip(SPANS, tags, strict=True))
        ]
        found = scores.span_log_prob(SPANS, tags, before=before, after=after, state_labels=labels)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
        possible += int(np.isfinite(found).sum())
    assert possible > 20


def test_states_that_are_labels_need_not_be_said() -> None:
    scores = sparse_chain(np.random.default_rng(0), 4, 0.5)
    tags = [[0] * (end - begin) for _, begin, end in SPANS]
    found = scores.span_log_prob(SPANS, tags, state_labels=np.arange(4))
    np.testing.assert_array_equal(found, scores.span_log_prob(SPANS, tags))


def test_a_label_without_states_is_impossible() -> None:
    scores = sparse_chain(np.random.default_rng(0), 4, 0.5)
    assert scores.span_log_prob([(0, 1, 3)], [[1, 0]], state_labels=[0, 0, 2, 2])[0] == NEG_INF


def test_a_span_far_into_a_long_sequence_is_as_exact_as_at_its_start() -> None:
    """Tokens that know nothing of each other: the probability of a span is the product of theirs."""
    random = np.random.default_rng(0)
    emissions = random.normal(loc=-20.0, scale=2.0, size=(50_000, 3))
    scores = chain.ChainScores(emissions, [len(emissions)], np.zeros((3, 3)))
    spans = [(0, begin, begin + 4) for begin in (0, 20_000, 49_996)]
    anything = np.ones(3, dtype=np.bool_)
    shares = emissions[:, 0] - np.log(np.exp(emissions).sum(axis=1))
    expected = [shares[begin:end].sum() for _, begin, end in spans]
    for side in (None, anything):
        found = scores.span_log_prob(spans, [[0] * 4] * 3, before=side, after=side)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_labels_of_states_that_cannot_be_are_named() -> None:
    scores = sparse_chain(np.random.default_rng(0), 3, 1.0)
    for labels in ([0, 1], [0.0, 1.0, 2.0], [[0, 1, 2]]):
        with pytest.raises(ShapeError, match=r"state_labels must be integers \(L,\) = \(3,\), got "):
            scores.span_log_prob([(0, 0, 1)], [[0]], state_labels=labels)
    for labels, place in (([0, -1, 2], "1] is -1"), ([0, 1, 3], "2] is 3")):
        with pytest.raises(TagRangeError, match=rf"state_labels\[{place}: must be in 0\.\.2"):
            scores.span_log_prob([(0, 0, 1)], [[0]], state_labels=labels)
    with pytest.raises(TagRangeError, match="must be in 0"):
        scores.span_log_prob([(0, 0, 1)], [[2]], state_labels=[0, 1, 1])
