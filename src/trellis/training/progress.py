"""A live line for people who watch: iteration, loss, gradient norm, held-out score, time left.

The library never shows it by itself; the command line does, and whoever passes ``progress=LiveLine()``.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trellis.training.history import Step


class LiveLine:
    """Shows each step in place of the one before; leaves the last one standing.

    Best used as a context manager, which puts the cursor back whatever happens.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console or Console(stderr=True), auto_refresh=False, transient=False)
        self._nested = False

    def __enter__(self) -> LiveLine:
        """Start the line."""
        self._nested = True
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last line standing."""
        self._live.stop()

    def __call__(self, step: Step) -> None:
        """Show this step."""
        if self._nested:
            self._live.update(Text(describe(step)), refresh=True)
        else:
            self._live.console.print(Text(describe(step)))


def describe(step: Step) -> str:
    """One step in one line."""
    parts = [f"iteration {step.iteration}", f"loss {step.loss:,.4f}"]
    if step.gradient_norm is not None:
        parts.append(f"gradient {step.gradient_norm:.3g}")
    if step.dev is not None:
        parts.append(f"dev {100 * step.dev:.2f}")
    parts.append(f"{step.seconds:.1f} s")
    if step.seconds_left is not None:
        parts.append(f"at most {step.seconds_left:.0f} s left")
    return "  ".join(parts)
