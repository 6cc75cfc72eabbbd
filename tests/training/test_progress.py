"""The live line says what it should."""

import io
from dataclasses import replace

from rich.console import Console

from trellis.training import Step
from trellis.training.progress import LiveLine, describe

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
