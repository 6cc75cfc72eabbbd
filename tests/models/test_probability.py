"""Sums in log space beside SciPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.special import logsumexp, xlogy

from trellis.models.probability import log_score, log_sum

LOGS = st.floats(-1e300, 1e300, allow_nan=False) | st.just(-np.inf) | st.floats(-40.0, 40.0)
SHARES = st.floats(0.0, 1.0) | st.just(5e-324)


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=3, max_side=4), elements=LOGS), st.integers(-1, 1))
def test_log_sums_are_those_of_scipy(values, axis) -> None:
    np.testing.assert_allclose(log_sum(values, axis), logsumexp(values, axis=axis), rtol=1e-13, atol=1e-300)


def test_what_is_nearly_certain_keeps_its_digits() -> None:
    """The log of a probability near 1 is tiny, and as exact as any other number."""
    assert log_sum(np.array([0.0, -50.0]), 0) == pytest.approx(np.exp(-50.0), rel=1e-15)
    assert log_sum(np.array([-np.inf, -np.inf]), 0) == -np.inf
    assert log_sum(np.empty((0, 3)), 1).shape == (0,)


@given(arrays(np.float64, (2, 3), elements=st.floats(0, 1e6)), arrays(np.float64, (2, 3), elements=SHARES))
def test_log_scores_are_those_of_scipy(counts, probabilities) -> None:
    assert log_score(counts, probabilities) == pytest.approx(float(xlogy(counts, probabilities).sum()), rel=1e-13)


def test_what_was_never_counted_adds_nothing_and_the_impossible_is_impossible() -> None:
    assert log_score(np.array([0.0, 2.0]), np.array([0.0, 1.0])) == 0.0
    assert log_score(np.array([1.0, 2.0]), np.array([0.0, 1.0])) == -np.inf
