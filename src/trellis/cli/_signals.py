"""Ctrl-C and SIGTERM while a model is trained: both end the training cleanly, and its best model is kept.

Only the command line installs handlers. To the library a signal is a `KeyboardInterrupt`, which its training loops
answer with what they have learned so far.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from trellis.cli._lazy import INTERRUPTED
from trellis.training import Step
from trellis.training.progress import LiveLine

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether the user, or the system, asked to stop."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._deferred = False

    @property
    def code(self) -> int:
        """The exit code after an interruption: 128 and the number of the signal, as shells count."""
        return INTERRUPTED if self._signal is None else 128 + self._signal

    @property
    def was_asked(self) -> bool:
        """Whether a signal came."""
        return self._signal is not None

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self._signal = number
        if not self._deferred:
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """What must not be cut short: signals are only remembered."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False


class StoppableLine:
    """The live line, which also stops a training if Python could not: it drops what is raised in a finalizer."""

    def __init__(self, line: LiveLine, stop: Stop) -> None:
        self._line, self._stop, self.every = line, stop, line.every

    def __call__(self, step: Step) -> None:
        """Show a step."""
        self._line(step)
        if self._stop.was_asked:
            raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Handle signals within the block; one that gets through it ends the command."""
    stop = Stop()
    # Python delivers signals to the main thread only.
    ours = _SIGNALS if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, stop.hear) for number in ours}
    try:
        yield stop
    except KeyboardInterrupt:
        typer.echo("trellis: interrupted", err=True)
        raise typer.Exit(stop.code) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
