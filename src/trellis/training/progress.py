"""Live progress for people who watch: iteration or epoch, loss, held-out score, time left.

The library never shows it by itself; the command line does, and so does ``progress=LiveLine()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trellis.training.history import Step


class LiveLine:
    """Shows each step in place of the one before; the last one stays.

    In a training in epochs, each epoch leaves its line, and a bar below it shows how far the next one is. Without a
    terminal, the bar becomes a line every half a minute, and of iterations only the last is shown. Best used as a
    context manager, which always restores the cursor.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console or Console(stderr=True), auto_refresh=False, transient=False)
        self._nested = False
        self._last: Step | None = None
        self.every = 0.1 if self._live.console.is_terminal else 30.0
        """Seconds between two updates within an epoch."""

    def __enter__(self) -> LiveLine:
        """Start the line."""
        self._nested = True
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and leave the last line on the screen."""
        self._live.stop()
        if self._last is not None:
            self._print(self._last)

    def __call__(self, step: Step) -> None:
        """Show this step."""
        if self._nested and step.batches is None and not self._live.console.is_terminal:
            self._last = step
        elif not self._nested or not self._live.console.is_terminal:
            self._print(step)
        elif step.batches is not None and step.is_whole:
            self._print(step)
            self._live.update(Text(""), refresh=True)
        else:
            self._live.update(_bar(step) if step.batches is not None else Text(describe(step)), refresh=True)

    def _print(self, step: Step) -> None:
        self._live.console.print(Text(describe(step)), soft_wrap=True)


def describe(step: Step) -> str:
    """One step in one line."""
    return "  ".join(_parts(step))


def _parts(step: Step) -> Iterator[str]:
    yield _number(step)
    if not step.is_whole:
        yield f"batch {step.batch}/{step.batches}"
    yield f"loss {step.loss:,.4f}"
    if step.gradient_norm is not None and step.batches is None:
        yield f"gradient {step.gradient_norm:.3g}"
    yield from _scores(step)
    if step.learning_rate is not None:
        yield f"rate {step.learning_rate:.3g}"
    if step.tokens_per_second is not None:
        yield f"{step.tokens_per_second:,.0f} tokens/s"
    yield f"{step.seconds:.1f} s"
    if step.seconds_left is not None:
        yield f"at most {step.seconds_left:.0f} s left"


def _number(step: Step) -> str:
    name = "iteration" if step.batches is None else "epoch"
    return f"{name} {step.iteration}" + ("" if step.iterations is None else f"/{step.iterations}")


def _scores(step: Step) -> Iterator[str]:
    if step.dev is not None:
        yield f"dev {100 * step.dev:.2f}"
    if step.precision is not None and step.recall is not None:
        yield f"P {100 * step.precision:.2f}  R {100 * step.recall:.2f}"
        if step.accuracy is not None:
            yield f"acc {100 * step.accuracy:.2f}"
    if step.best is not None:
        yield f"best {100 * step.best:.2f}"


def _bar(step: Step) -> RenderableType:
    """How far an epoch is, as a picture, with the numbers next to it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=step.batches, completed=step.batch or 0, width=24), Text(describe(step)))
    return grid
