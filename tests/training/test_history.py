"""The history of a training: its file, its picture, and the live line."""

import io
import json
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from trellis.errors import StoreError
from trellis.training import History, Step, read_history
from trellis.training.history import (
    CURVE,
    HEIGHT,
    HISTORY,
    MARGIN,
    WIDTH,
    LiveLine,
    describe,
    draw_curve,
    ticks,
    write_history,
)
from trellis.untrusted import read_json

STEPS = tuple(Step(n, 3.0 / n, None, None, 0.5 * n, None) for n in (1, 2, 3))


def test_what_was_written_comes_back_with_a_picture(tmp_path):
    history = History(STEPS, "converged", 2)
    write_history(tmp_path, history)
    assert read_history(tmp_path) == history
    assert ">iteration<" in (tmp_path / CURVE).read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([HISTORY, CURVE])


def test_one_step_is_no_curve_and_an_older_one_does_not_stay(tmp_path):
    write_history(tmp_path, History(STEPS, "converged", 2))
    write_history(tmp_path, History(STEPS[:1], "converged", 0))
    assert not (tmp_path / CURVE).exists()


def test_a_loss_that_overflowed_does_not_spoil_the_picture(tmp_path):
    steps = (*STEPS, Step(4, float("inf"), None, None, 2.0, None), Step(5, float("nan"), None, None, 2.5, None))
    write_history(tmp_path, History(steps, "diverged", 2))
    assert "nan" not in (tmp_path / CURVE).read_text()


@pytest.mark.parametrize("text", ["{}", '{"steps": [{"loss": 1}], "reason": "x", "kept": 0}', "[]", "7"])
def test_a_broken_history_is_named(tmp_path, text):
    (tmp_path / HISTORY).write_text(text)
    with pytest.raises(StoreError, match=r"history\.json is not a training history"):
        read_history(tmp_path)


def test_what_is_not_json_is_named(tmp_path):
    (tmp_path / HISTORY).write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"history\.json cannot be read: expected JSON: it is nested too deeply"):
        read_history(tmp_path)


def test_a_missing_file_is_nothing(tmp_path):
    assert read_history(tmp_path / "nowhere") is None
    (tmp_path / "a.json").write_text(json.dumps({"a": "é"}))
    assert read_json(tmp_path / "a.json") == {"a": "é"}
    assert read_json(tmp_path / "a.json" / "b.json") is None


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


STEP = Step(12, 1234.5, 0.25, 0.913, 3.2, 7.0)


def test_a_step_in_one_line():
    assert describe(STEP) == "iteration 12  loss 1,234.5000  gradient 0.25  dev 91.30  3.2 s  at most 7 s left"
    assert describe(Step(1, 0.5, None, None, 0.1, None)) == "iteration 1  loss 0.5000  0.1 s"


def test_the_line_is_shown_in_place_or_line_by_line():
    for live in (True, False):
        out = io.StringIO()
        line = LiveLine(Console(file=out, width=120))
        if live:
            with line:
                line(STEP)
        else:
            line(STEP)
        assert "iteration 12" in out.getvalue()


def test_without_a_terminal_the_last_iteration_is_a_whole_line_however_long():
    out = io.StringIO()
    with LiveLine(Console(file=out, width=40)) as line:
        line(replace(STEP, iteration=11))
        line(STEP)
    assert out.getvalue() == f"{describe(STEP)}\n"


EPOCH = Step(
    3,
    0.51234,
    2.0,
    0.913,
    75.2,
    40.0,
    iterations=5,
    batch=8,
    batches=8,
    learning_rate=0.0012345,
    tokens_per_second=12345.6,
    precision=0.92,
    recall=0.9061,
    best=0.92,
)
GOING_ON = replace(EPOCH, iteration=4, batch=2, dev=None, precision=None, recall=None)
WHOLE_LINE = (
    "epoch 3/5  loss 0.5123  dev 91.30  P 92.00  R 90.61  best 92.00  rate 0.00123  12,346 tokens/s  "
    "75.2 s  at most 40 s left"
)
PART_LINE = "epoch 4/5  batch 2/8  loss 0.5123  best 92.00  rate 0.00123  12,346 tokens/s  75.2 s  at most 40 s left"


def test_an_epoch_in_one_line():
    assert describe(EPOCH) == WHOLE_LINE
    assert describe(GOING_ON) == PART_LINE
    assert (EPOCH.is_whole, GOING_ON.is_whole, STEP.is_whole) == (True, False, True)


def shown(terminal):
    out = io.StringIO()
    with LiveLine(Console(file=out, width=180, force_terminal=terminal, color_system=None)) as line:
        line(GOING_ON)
        line(EPOCH)
        line(GOING_ON)
    return out.getvalue(), line.every


def test_plain_lines_where_there_is_no_terminal():
    assert shown(terminal=False) == (f"{PART_LINE}\n{WHOLE_LINE}\n{PART_LINE}\n", 30.0)


def test_on_a_terminal_epochs_stay_and_the_bar_moves():
    text, every = shown(terminal=True)
    assert every == 0.1
    bar = "━" * 6 + " " * 19 + PART_LINE
    assert text.count(f"\r\x1b[2K{WHOLE_LINE}\n") == 1
    assert text.endswith(f"\r\x1b[2K{bar}\n\x1b[?25h")
