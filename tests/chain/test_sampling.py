"""Samples come from the exact distribution, and from nothing but the seed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.chain import oracle
from tests.chain.oracle import NEG_INF, Case
from tests.chain.test_arrays import make
from tests.chain.test_torch import make as torch_make
from trellis import chain
from trellis.errors import ChainError

CASE = Case(
    emissions=np.array(
        [[0.5, -0.2, 0.1], [NEG_INF, 0.3, 0.0], [0.2, 0.4, -1.0], [1.0, 0.0, -1.0], [0.0, 0.0, 9.0], [0.3, 0.1, 0.2]]
    ),
    lengths=np.array([3, 0, 1, 2]),
    transitions=np.array([[0.1, 0.7, -0.3], [NEG_INF, 0.2, 0.5], [0.4, NEG_INF, 0.1]]),
    start=np.array([0.3, 0.0, NEG_INF]),
    end=np.array([0.0, 0.2, 0.9]),
)
WITH_EDGES = replace(CASE, edges=np.random.default_rng(0).normal(size=(3, 3, 3)))


@pytest.mark.parametrize("seed", ["7", 1.5, None, True])
def test_a_seed_is_an_integer(seed: object) -> None:
    for scores in (make(CASE, np.float64), torch_make(CASE)):
        with pytest.raises(ChainError, match=f"seed must be an integer, got {seed!r}"):
            scores.sample(2, seed=seed)


def goodness(case: Case, drawn: np.ndarray) -> list[float]:
    """The p-value of each sequence's frequencies; nothing impossible may have been drawn."""
    values = []
    for paths, own in zip(oracle.enumerate_paths(case), case.split(drawn.T), strict=True):
        rows = np.array([(paths.tags == path).all(axis=1).argmax() for path in own.T])
        observed = np.bincount(rows, minlength=len(paths.tags))
        possible = paths.probabilities > 0
        assert observed[~possible].sum() == 0
        if possible.sum() > 1:
            expected = paths.probabilities[possible] * len(drawn)
            values.append(float(stats.chisquare(observed[possible], expected).pvalue))
    return values


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", [CASE, WITH_EDGES], ids=["shared", "edges"])
def test_frequencies_fit_the_exact_distribution_by_chi_square(case: Case, dtype: type) -> None:
    drawn = make(case, dtype).sample(20_000, seed=7)
    assert min(goodness(case, drawn)) > 0.01


def test_sequences_with_equal_scores_are_drawn_independently() -> None:
    """A shared stream would draw the same labels for both, or correlated ones."""
    n = 20_000
    scores = chain.ChainScores(np.zeros((2, 2)), [1, 1], np.zeros((2, 2)))
    drawn = scores.sample(n, seed=1)
    table = np.bincount(drawn[:, 0] * 2 + drawn[:, 1], minlength=4)
    assert stats.chisquare(table).pvalue > 0.01
    assert stats.chisquare(np.bincount(drawn[:-1, 0] * 2 + drawn[1:, 0], minlength=4)).pvalue > 0.01


def test_same_seed_same_draws_and_other_seed_others() -> None:
    scores = make(CASE)
    assert np.array_equal(scores.sample(50, seed=3), scores.sample(50, seed=3))
    assert not np.array_equal(scores.sample(50, seed=3), scores.sample(50, seed=4))
    assert np.array_equal(scores.sample(50, seed=-1), scores.sample(50, seed=2**64 - 1))


def test_more_draws_begin_with_the_same_ones() -> None:
    scores = make(CASE)
    assert np.array_equal(scores.sample(10, seed=3), scores.sample(50, seed=3)[:10])


def test_label_of_probability_zero_is_never_drawn_at_the_ends_of_the_label_set() -> None:
    emissions = np.array([[NEG_INF, 0.0, NEG_INF, 0.0, NEG_INF]])
    drawn = chain.ChainScores(emissions, [1], np.zeros((5, 5))).sample(5000, seed=0)
    assert set(drawn.ravel().tolist()) == {1, 3}
