from __future__ import annotations

import numpy as np
import pytest

from trellis.errors import ConfigError, DataError
from trellis.metrics import Bin, calibration, span_calibration, token_calibration
from trellis.tags import Span


def test_two_bins_by_hand():
    found = calibration([0.9, 0.8, 0.95, 0.2, 0.4], [1, 1, 0, 0, 1], bins=2)
    low, high = found.bins
    assert low == Bin(0.0, 0.5, 2, pytest.approx(0.3), 0.5)
    assert high == Bin(0.5, 1.0, 3, pytest.approx(2.65 / 3), pytest.approx(2 / 3))
    assert found.ece == pytest.approx(2 / 5 * 0.2 + 3 / 5 * (2.65 - 2) / 3)
    assert found.mce == pytest.approx((2.65 - 2) / 3)
    assert found.brier == pytest.approx((0.1**2 + 0.2**2 + 0.95**2 + 0.2**2 + 0.6**2) / 5)
    assert found.count == 5


def test_bin_edges_belong_to_the_bin_below_and_zero_to_the_first():
    found = calibration([0.0, 0.5, 1.0, 0.5000001], [0, 1, 1, 1], bins=2)
    assert [(bin.low, bin.high, bin.count) for bin in found.bins] == [(0.0, 0.5, 2), (0.5, 1.0, 2)]


def test_a_calibrated_coin_has_almost_no_error_and_a_boaster_a_large_one():
    rng = np.random.default_rng(0)
    probabilities = rng.random(50_000)
    right = rng.random(50_000) < probabilities
    assert calibration(probabilities, right).ece < 0.01
    assert calibration(np.full(100, 1.0), np.arange(100) % 2).ece == 0.5


def test_tokens_and_spans():
    tokens = token_calibration([[0.9, 0.6], [], [1.0]], [["A", "B"], [], ["A"]], [["A", "A"], [], ["A"]], bins=1)
    assert tokens.bins == (Bin(0.0, 1.0, 3, pytest.approx(2.5 / 3), pytest.approx(2 / 3)),)
    per, loc = Span(0, 2, "PER"), Span(3, 4, "LOC")
    spans = span_calibration([{per: 0.8, loc: 0.4}, {}], [[per], [loc]], bins=1)
    assert spans.bins == (Bin(0.0, 1.0, 2, pytest.approx(0.6), 0.5),)
    assert spans.ece == pytest.approx(0.1)


def test_nothing_and_tables():
    assert calibration([], []).count == 0
    assert "0.50 to 1.00" in calibration([0.7], [1], bins=2).to_markdown()
    assert calibration([0.7], [1]).to_rich().row_count == 1


def test_impossible_input_is_named():
    with pytest.raises(DataError, match=r"probability 1\.5 at 1"):
        calibration([0.5, 1.5], [1, 1])
    with pytest.raises(DataError, match="probability nan at 0"):
        calibration([float("nan")], [1])
    with pytest.raises(DataError, match=r"got shapes \(1,\) and \(2,\)"):
        calibration([0.5], [1, 1])
    with pytest.raises(ConfigError, match="bins must be at least 1"):
        calibration([0.5], [1], bins=0)
    with pytest.raises(DataError, match="1 sentence of probabilities and 0 of gold"):
        span_calibration([{}], [])
