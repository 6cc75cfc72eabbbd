"""Span probabilities by scaled arithmetic, and by log space where that is not exact: the same answers either way."""

import numpy as np
import pytest

from tests.chain import oracle
from tests.chain.oracle import Case
from tests.chain.strategies import grid_case
from trellis import chain

pytestmark = pytest.mark.usefixtures("instruction_set")


def log_prob(case: Case, spans: np.ndarray, tags: list[np.ndarray], **sides: np.ndarray) -> np.ndarray:
    return chain.ChainScores(*case.arrays()).span_log_prob(spans, np.concatenate(tags), **sides)


def spans_of(case: Case, tags: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    spans = [(b, i, j) for b, T in enumerate(case.lengths) for j in range(T + 1) for i in range(j)]
    return np.array(spans), [case.split(tags)[b][i:j] for b, i, j in spans]


def two_labels(emissions: list[list[float]], transitions: list[list[float]] | None = None) -> Case:
    steps = np.zeros((2, 2)) if transitions is None else np.array(transitions)
    return Case(np.array(emissions), np.array([len(emissions)]), steps, np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("with_edges", [False, True])
def test_each_span_asked_for_alone(forbidden: float, with_edges: bool) -> None:
    # One impossible span sends its whole sequence to log space: asked for alone, the others stay in scaled arithmetic.
    case, tags = grid_case(3, forbidden, 1.0, with_edges)
    spans, own = spans_of(case, tags)
    rng = np.random.default_rng(0)
    sides = {name: rng.random((len(spans), 3)) < 0.7 for name in ("before", "after")}
    expected = oracle.span_log_prob(case, spans, own, **sides)
    for s in range(len(spans)):
        one = {name: side[s : s + 1] for name, side in sides.items()}
        np.testing.assert_allclose(log_prob(case, spans[s : s + 1], own[s : s + 1], **one)[0], expected[s], rtol=1e-10)


@pytest.mark.parametrize("gap", [50.0, 90.0, 300.0, 800.0, 1e4])
def test_improbable_spans_are_exact(gap: float) -> None:
    case = two_labels([[0.0, -gap], [0.0, -1.0], [-2.0, -gap]])
    spans, tags = np.array([[0, 0, 1], [0, 1, 2], [0, 0, 3]]), [np.array([1]), np.array([1]), np.array([1, 1, 1])]
    expected = oracle.span_log_prob(case, spans, tags)
    np.testing.assert_allclose(log_prob(case, spans, tags), expected, rtol=1e-12)


@pytest.mark.parametrize("below", [-100.0, -400.0, -1e4])
def test_spans_across_a_step_that_is_flushed_to_zero_are_exact(below: float) -> None:
    case = two_labels([[0.0, 1.0]] * 4, [[0.0, below], [0.5, 0.0]])
    spans, tags = np.array([[0, 1, 3], [0, 0, 2], [0, 2, 4]]), [np.array([0, 1]), np.array([1, 1]), np.array([1, 0])]
    expected = oracle.span_log_prob(case, spans, tags)
    np.testing.assert_allclose(log_prob(case, spans, tags), expected, rtol=1e-12)


def test_an_impossible_span_has_probability_zero() -> None:
    case = two_labels([[0.0, 1.0]] * 3, [[0.0, -np.inf], [0.0, 0.0]])
    found = log_prob(case, np.array([[0, 0, 2], [0, 0, 1]]), [np.array([0, 1]), np.array([1])])
    assert found[0] == -np.inf
    assert np.isfinite(found[1])


def test_scaled_arithmetic_and_log_space_agree_far_into_a_long_sequence() -> None:
    # With edges, even of zero, everything is in log space and nothing is factored.
    rng = np.random.default_rng(1)
    T, L = 2000, 7
    shared = Case(rng.normal(size=(T, L)), np.array([T]), rng.normal(size=(L, L)), np.zeros(L), np.zeros(L))
    edged = Case(*shared.arrays(), np.zeros((T - 1, L, L)))
    begins = rng.integers(T - 9, size=50)
    spans = np.stack([np.zeros(50, dtype=np.int64), begins, begins + rng.integers(1, 9, size=50)], axis=1)
    tags = [rng.integers(L, size=end - begin) for _, begin, end in spans]
    np.testing.assert_allclose(log_prob(shared, spans, tags), log_prob(edged, spans, tags), rtol=1e-10)
    entropies = [chain.ChainScores(*case.arrays()).entropy() for case in (shared, edged)]
    np.testing.assert_allclose(*entropies, rtol=1e-12)


def test_factors_that_underflow_are_redone_in_log_space() -> None:
    # Label 0 is certain but for a step that no product can hold; entropy and sampling stand on the same sums.
    case = two_labels([[0.0, -690.0], [-690.0, 0.0], [0.0, 0.0]], [[0.0, -690.0], [-700.0, 0.0]])
    scores = chain.ChainScores(*case.arrays())
    np.testing.assert_allclose(scores.entropy(), oracle.entropy(case), rtol=1e-10)
    spans, tags = np.array([[0, 0, 3]]), [np.array([1, 0, 1])]
    np.testing.assert_allclose(log_prob(case, spans, tags), oracle.span_log_prob(case, spans, tags), rtol=1e-12)
