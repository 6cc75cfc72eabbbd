"""The picture is well-formed, and its points lie where the values are."""

import sys
import xml.etree.ElementTree as ET
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trellis.training import History, Step
from trellis.training.curve import HEIGHT, MARGIN, WIDTH, draw_curve, ticks

SVG = "{http://www.w3.org/2000/svg}"


def history(losses, devs, kept=0):
    steps = [Step(n, loss, None, dev, 1.0, None) for n, (loss, dev) in enumerate(zip(losses, devs, strict=True), 1)]
    return History(tuple(steps), "max_iterations", kept)


def lines(picture):
    """The points of each curve."""
    curves = ET.fromstring(picture).iter(f"{SVG}polyline")
    return [[tuple(map(float, point.split(","))) for point in curve.attrib["points"].split()] for curve in curves]


def test_loss_and_score_each_in_its_panel():
    top, right, bottom, left = MARGIN
    loss, dev = lines(draw_curve(history([4.0, 2.0, 0.0], [0.0, 0.5, 1.0], kept=2)))
    assert [y for _, y in loss] == [top, (top + HEIGHT - bottom) / 2, HEIGHT - bottom]
    assert [y for _, y in dev] == [HEIGHT - bottom, (top + HEIGHT - bottom) / 2, top]
    step = (WIDTH - right - left) / 3
    assert [x for x, _ in loss] == pytest.approx([left + step, left + 2 * step, WIDTH - right], abs=0.1)


def test_without_held_out_data_there_is_one_panel():
    picture = draw_curve(history([3.0, 1.0], [None, None]))
    assert len(lines(picture)) == 1
    assert "dev score" not in picture
    assert ET.fromstring(picture).attrib["width"] == str(WIDTH)


def test_the_kept_epoch_is_marked():
    assert draw_curve(history([3.0, 1.0], [0.2, 0.1])).count(">kept<") == 2
    assert ">kept<" not in draw_curve(history([], [], kept=-1))


FINITE = st.floats(allow_nan=False, allow_infinity=False)
LARGEST = sys.float_info.max


@given(st.lists(FINITE, max_size=5), st.floats(0, 1))
@example([LARGEST, -LARGEST], 0.5)
def test_any_history_can_be_drawn_inside_the_frame(losses, dev):
    top, right, bottom, left = MARGIN
    for curve in lines(draw_curve(history(losses, [dev] * len(losses), kept=len(losses) - 1))):
        assert all(left <= x <= WIDTH - right and top <= y <= HEIGHT - bottom for x, y in curve)


@given(st.tuples(FINITE, FINITE).map(sorted))
@example((-5e-324, 6.0))
@example((-5e-324, 5e-324))
@example((-LARGEST, LARGEST))
@example((LARGEST, LARGEST))
def test_ticks_are_few_even_and_reach_around(ends):
    found = ticks(*ends)
    assert found[0] <= ends[0]
    assert found[-1] >= ends[1]
    assert 2 <= len(found) <= 7
    inner = [Fraction(repr(x)) for x in found if abs(x) != LARGEST]  # of decimals as they are written
    assert len({b - a for a, b in pairwise(inner)}) <= 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.31, 0.42, [0.3, 0.35, 0.4, 0.45]),
        (-3.0, 47.0, [-10.0, 0.0, 10.0, 20.0, 30.0, 40.0, 50.0]),
        (7.0, 7.0, [7.0, 7.002]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high) == expected


def test_labels_stay_short():
    assert max(map(len, ET.fromstring(draw_curve(history([1e300, 2e300], [None, None]))).itertext())) < 20
