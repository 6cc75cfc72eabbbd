"""The picture is well-formed, and its points lie where the values are."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
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


@given(st.lists(st.floats(-1e9, 1e9), max_size=5), st.floats(0, 1))
def test_any_history_can_be_drawn_inside_the_frame(losses, dev):
    top, right, bottom, left = MARGIN
    for curve in lines(draw_curve(history(losses, [dev] * len(losses), kept=len(losses) - 1))):
        assert all(left <= x <= WIDTH - right and top <= y <= HEIGHT - bottom for x, y in curve)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_are_few_even_and_reach_around(low, span):
    found = ticks(low, low + span)
    assert found[0] <= low + 1e-9 * abs(low)
    assert found[-1] >= (low + span) - 1e-9 * abs(low + span)
    assert 2 <= len(found) <= 7
