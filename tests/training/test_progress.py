"""The live line says what it should."""

import io

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
