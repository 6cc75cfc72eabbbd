"""Sequences of 100,000 and 1,000,000 tokens."""

import numpy as np
import numpy.typing as npt
import pytest

from tests.chain.logspace import references
from trellis import chain

NEG_INF = -np.inf
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def long_scores(T: int, L: int, scale: float, transitions: np.ndarray | None = None) -> list[np.ndarray]:
    rng = np.random.default_rng([T, L])
    emissions = np.clip(rng.normal(scale=scale / 3, size=(T, L)), -scale, scale).astype(np.float32)
    own = rng.normal(size=(L, L)) if transitions is None else transitions
    return [emissions, own.astype(np.float32), rng.normal(size=L).astype(np.float32), np.zeros(L, np.float32)]


def make(scores: list[np.ndarray], dtype: npt.DTypeLike) -> chain.ChainScores:
    emissions, *others = (x.astype(dtype) for x in scores)
    return chain.ChainScores(emissions, [len(emissions)], *others)


BIO = np.array([[0.0, 0.5, NEG_INF], [0.1, -0.5, 0.3], [0.2, 0.0, 0.4]])


# Scores of up to 1e4, ordinary ones, and a constraint that turns the likeliest label down now and then.
HUNDRED_THOUSAND = {
    "large": long_scores(100_000, 3, 1e4),
    "ordinary": long_scores(100_000, 3, 3.0),
    "constrained": long_scores(100_000, 3, 100.0, BIO),
}


def test_hundred_thousand_tokens_agree_with_the_reference_in_both_types() -> None:
    exact = references(list(HUNDRED_THOUSAND.values()))
    for case, answer in zip(HUNDRED_THOUSAND.values(), exact, strict=True):
        for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-10)):
            scores = make(case, dtype)
            found = scores.marginals()
            np.testing.assert_allclose(found.log_partition, [answer.log_partition], rtol=tolerance)
            np.testing.assert_array_equal(scores.log_partition(), found.log_partition)
            np.testing.assert_allclose(found.tokens, answer.tokens, rtol=0, atol=tolerance)
            np.testing.assert_allclose(found.transitions, answer.transitions, rtol=tolerance, atol=tolerance * 100)
            np.testing.assert_allclose(scores.viterbi().scores, [answer.best], rtol=tolerance)


@pytest.mark.parametrize("name", HUNDRED_THOUSAND)
def test_viterbi_path_in_float32_is_as_good_as_the_best(name: str) -> None:
    single, double = (make(HUNDRED_THOUSAND[name], dtype) for dtype in (np.float32, np.float64))
    best = double.viterbi().scores
    decoded = single.viterbi()
    np.testing.assert_allclose(double.score(decoded.tags), best, rtol=1e-5)
    np.testing.assert_allclose(decoded.scores, best, rtol=1e-5)


def test_common_offsets_of_1e4_do_not_blur_the_float32_path() -> None:
    """Adding a number to all labels of a token changes no choice; here the offsets cancel in the score."""
    emissions, transitions, start, end = long_scores(20_000, 5, 3.0)
    offsets = np.where(np.arange(len(emissions)) % 2, 8192, -8192).astype(np.float32)[:, None]
    moved = [emissions + offsets, transitions, start, end]
    best = make(moved, np.float64).viterbi().scores
    tags = make(moved, np.float32).viterbi().tags
    np.testing.assert_allclose(make(moved, np.float64).score(tags), best, rtol=1e-5)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("L", [1, 2, 9, 50, 300])
@DTYPES
def test_uniform_scores_give_t_log_l(L: int, dtype: npt.DTypeLike) -> None:
    """Every step multiplies the forward sum by L: a running product of them overflows at some 700 / log L tokens."""
    T = 3000
    scores = chain.ChainScores(np.zeros((T, L), dtype), [T], np.zeros((L, L)))
    found = scores.marginals()
    np.testing.assert_allclose(found.log_partition, [T * np.log(L)], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.tokens, 1 / L, rtol=1e-5)
    np.testing.assert_allclose(found.transitions, (T - 1) / L**2, rtol=1e-5)


@pytest.mark.usefixtures("instruction_set")
@DTYPES
def test_small_forward_sums_at_every_step_do_not_run_out_of_range(dtype: npt.DTypeLike) -> None:
    """Label 1 after 0 after 1 is the only way and pays e^-30 at each step, where others are free but forbidden."""
    T = 3000
    emissions = np.where((np.arange(T)[:, None] + np.arange(2)) % 2, 0.0, NEG_INF)
    scores = chain.ChainScores(emissions.astype(dtype), [T], [[0.0, -30.0], [-30.0, 0.0]])
    found = scores.marginals()
    np.testing.assert_allclose(found.log_partition, [-30.0 * (T - 1)], rtol=1e-6)
    np.testing.assert_allclose(found.tokens, np.exp(emissions), rtol=1e-6)


@DTYPES
def test_labels_that_never_mix_are_weighed_over_the_whole_sequence(dtype: npt.DTypeLike) -> None:
    """Two labels, 50,000 tokens for one and then 50,000 for the other: the answer is in the totals."""
    T = 100_000
    emissions = np.zeros((T, 2))
    emissions[: T // 2, 0], emissions[T // 2 :, 1] = 100.0, 100.0
    emissions[-1, 1] += 1.0
    identity = np.where(np.eye(2, dtype=bool), 0.0, NEG_INF)
    scores = chain.ChainScores(emissions.astype(dtype), [T], identity)
    weight = 1 / (1 + np.exp(-1.0))
    found = scores.marginals()
    np.testing.assert_allclose(found.log_partition, [50 * T + np.log(1 + np.exp(1.0))], rtol=1e-12)
    np.testing.assert_allclose(found.tokens, np.tile([1 - weight, weight], (T, 1)), rtol=1e-5)
    assert set(scores.viterbi().tags.tolist()) == {1}


@DTYPES
def test_one_million_tokens_go_through(dtype: npt.DTypeLike) -> None:
    T, L = 1_000_000, 9
    period = np.random.default_rng(0).normal(size=(1000, L))
    scores = chain.ChainScores(np.tile(period, (T // 1000, 1)).astype(dtype), [T], np.zeros((L, L)))
    found = scores.marginals()
    by_token = np.log(np.exp(period).sum(axis=1))  # without transitions the tokens are independent
    np.testing.assert_allclose(found.log_partition, [by_token.sum() * (T // 1000)], rtol=1e-6)
    np.testing.assert_allclose(found.tokens[-1000:], np.exp(period - by_token[:, None]), rtol=1e-5)
    np.testing.assert_allclose(found.transitions.sum(), T - 1, rtol=1e-6)
    best = scores.viterbi()
    assert np.array_equal(best.tags[:1000], period.argmax(axis=1))
    np.testing.assert_allclose(best.scores, [period.max(axis=1).sum() * (T // 1000)], rtol=1e-6)
