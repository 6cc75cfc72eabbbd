from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from trellis.errors import ConfigError, DataError
from trellis.metrics import accuracy, bootstrap_interval, f1, paired_significance


def test_statistics_of_sums_by_hand():
    assert f1(np.array([[2, 4, 3], [0, 0, 0]])).tolist() == pytest.approx([2 * 0.5 * (2 / 3) / (0.5 + 2 / 3), 0.0])
    assert accuracy(np.array([3, 4])) == 0.75


def test_the_interval_is_that_of_the_binomial_it_samples():
    # Sentences of one token, 80 of 100 right: the bootstrap draws Binomial(100, 0.8) / 100.
    counts = np.array([[1, 1]] * 80 + [[0, 1]] * 20)
    found = bootstrap_interval(counts, accuracy, samples=20_000)
    assert found.value == 0.8
    assert found.low == pytest.approx(0.72, abs=0.011)
    assert found.high == pytest.approx(0.87, abs=0.011)
    narrow = bootstrap_interval(counts, accuracy, samples=20_000, confidence=0.5)
    assert found.low < narrow.low < 0.8 < narrow.high < found.high


def test_equal_sentences_leave_no_doubt():
    found = bootstrap_interval(np.array([[1, 2, 2]] * 7))
    assert (found.low, found.value, found.high) == (0.5, 0.5, 0.5)


def test_the_same_seed_gives_the_same_interval_in_any_batches(monkeypatch):
    counts = np.array([[1, 1], [0, 1], [1, 2]])
    first = bootstrap_interval(counts, accuracy, seed=3)
    monkeypatch.setattr("trellis.metrics.significance._CELLS_AT_ONCE", 10)
    assert bootstrap_interval(counts, accuracy, seed=3) == first
    assert bootstrap_interval(counts, accuracy, seed=3, samples=999) != first


def test_randomisation_approaches_the_exact_permutation_test():
    rng = np.random.default_rng(1)
    first, second = (np.stack([rng.integers(0, 4, 8), np.full(8, 4)], axis=1) for _ in range(2))
    real = abs(accuracy(second.sum(axis=0)) - accuracy(first.sum(axis=0)))
    extreme = 0
    for swap in product([False, True], repeat=8):
        mask = np.array(swap)[:, None]
        left, right = np.where(mask, second, first), np.where(mask, first, second)
        extreme += abs(accuracy(right.sum(axis=0)) - accuracy(left.sum(axis=0))) >= real - 1e-12
    found = paired_significance(first, second, accuracy)
    assert found.p_value == pytest.approx(extreme / 256, abs=0.02)


@pytest.mark.parametrize("method", ["randomisation", "bootstrap"])
def test_a_clear_difference_is_significant_and_none_is_not(method):
    rng = np.random.default_rng(0)
    right = rng.random(300) < 0.7
    better = right | (rng.random(300) < 0.4)
    first, second = (np.stack([side, np.ones(300)], axis=1).astype(np.int64) for side in (right, better))
    clear = paired_significance(first, second, accuracy, method=method, samples=2000)
    assert clear.p_value < 0.01
    assert clear.difference == pytest.approx(clear.second - clear.first)
    assert paired_significance(second, first, accuracy, method=method, samples=2000).difference < 0
    assert paired_significance(first, first, accuracy, method=method, samples=200).p_value == 1.0
    shuffled = first[rng.permutation(300)]
    assert paired_significance(first, shuffled, accuracy, method=method, samples=2000).p_value > 0.5


def test_results_have_tables():
    counts = np.array([[1, 1], [0, 1]])
    assert "low" in bootstrap_interval(counts, accuracy).to_markdown()
    assert paired_significance(counts, counts, accuracy, samples=9).to_dict()["method"] == "randomisation"
    assert paired_significance(counts, counts, accuracy, samples=9).to_rich().row_count == 1


def test_impossible_requests_are_named():
    counts = np.array([[1, 1, 1]])
    with pytest.raises(DataError, match=r"at least one sentence, got shape \(0, 3\)"):
        bootstrap_interval(np.zeros((0, 3), dtype=np.int64))
    for confidence in (0, 1, 95):
        with pytest.raises(ConfigError, match=f"confidence must lie between 0 and 1, got {confidence}"):
            bootstrap_interval(counts, confidence=confidence)
    with pytest.raises(ConfigError, match="samples must be at least 1"):
        bootstrap_interval(counts, samples=0)
    with pytest.raises(DataError, match=r"same sentences, got shapes \(1, 3\) and \(2, 3\)"):
        paired_significance(counts, np.concatenate([counts, counts]))
    with pytest.raises(ConfigError, match="unknown method 'sign'"):
        paired_significance(counts, counts, method="sign")
