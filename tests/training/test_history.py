"""The history of a training: its file, its picture, and the live line."""

import io
import json
import sys
import types
from dataclasses import replace

import pytest
from rich.console import Console

from trellis import CRF, Sentence
from trellis.errors import StoreError
from trellis.training import History, LiveLine, Step, read_history
from trellis.training.history import CURVE, HISTORY, describe, reporting, write_history
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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_training_is_shown_only_to_a_person_and_only_if_it_takes_long(monkeypatch):
    for stream, progress, seconds, shown in (
        (Terminal(), None, 3.0, True),
        (Terminal(), None, 1.0, False),
        (Terminal(), True, 1.0, True),
        (Terminal(), False, 3.0, False),
        (io.StringIO(), None, 3.0, False),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        with reporting(progress) as told:
            if told is not None:
                told(replace(STEP, seconds=seconds))
        assert ("iteration 12" in stream.getvalue()) is shown


def test_fit_shows_a_line_to_who_asks_and_none_otherwise(monkeypatch):
    data = [Sentence(["a", "b"], ["X", "Y"])]
    for progress, shown in ((True, True), (None, False), (False, False)):
        monkeypatch.setattr(sys, "stderr", Terminal())
        CRF(features="pos").fit(data, progress=progress)
        assert ("iteration" in sys.stderr.getvalue()) is shown


def test_a_notebook_gets_one_output_that_changes(monkeypatch):
    outputs = []

    class Handle:
        def update(self, shown, raw):
            outputs[-1] = shown

    def display(shown, raw, display_id):
        outputs.append(shown)
        return Handle()

    module = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    module.display = types.SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", module)
    with reporting(None) as told:
        for n in (1, 2, 3):
            told(replace(STEP, iteration=n, iterations=4, seconds=float(n)))
    assert len(outputs) == 1
    assert outputs[0]["text/plain"].startswith("iteration 3/4")
    assert '<progress value="3.00" max="4">' in outputs[0]["text/html"]
    for progress, shown in ((None, 1), (False, 1), (True, 2)):
        with reporting(progress) as told:
            if told is not None:
                told(replace(STEP, batch=2, batches=4, seconds=1.0))
        assert len(outputs) == shown
    assert outputs[1]["text/html"].startswith("<div>epoch 12  batch 2/4")


def test_a_history_is_a_line():
    history = History(STEPS, "converged", 2)
    assert repr(history) == str(history)
    assert repr(history) == (
        "History(3 steps in 1.5 s, ended: converged, loss 3.0000 to 1.0000, weights of step 3 kept)"
    )


@pytest.mark.parametrize(("left", "bars"), [(7.0, True), (None, False)])
def test_a_limited_training_has_a_bar(left, bars):
    out = io.StringIO()
    with LiveLine(Console(file=out, width=120, force_terminal=True)) as line:
        line(replace(STEP, seconds_left=left))
    assert ("━" in out.getvalue()) is bars
