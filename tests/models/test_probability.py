"""Log likelihoods of counts beside SciPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import xlogy

from trellis.models.probability import log_score

SHARES = st.floats(0.0, 1.0) | st.just(5e-324)


@given(arrays(np.float64, (2, 3), elements=st.floats(0, 1e6)), arrays(np.float64, (2, 3), elements=SHARES))
def test_log_scores_are_those_of_scipy(counts, probabilities) -> None:
    assert log_score(counts, probabilities) == pytest.approx(float(xlogy(counts, probabilities).sum()), rel=1e-13)


def test_what_was_never_counted_adds_nothing_and_the_impossible_is_impossible() -> None:
    assert log_score(np.array([0.0, 2.0]), np.array([0.0, 1.0])) == 0.0
    assert log_score(np.array([1.0, 2.0]), np.array([0.0, 1.0])) == -np.inf
