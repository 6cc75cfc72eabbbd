"""What is shown and heard while a command works: a line that changes, Ctrl-C and SIGTERM.

Only the command line installs handlers of signals. To the library a signal is a `KeyboardInterrupt`, which its training
loops answer with what they have learned so far. `trellis.training.LiveLine` has the line of trainings.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer

from trellis.cli import INTERRUPTED
from trellis.errors import number_of

if TYPE_CHECKING:
    from trellis.distributed import FolderProgress
    from trellis.training import LiveLine, Step

_EVERY = 10.0  # seconds between lines where nobody watches

Tell = Callable[[int, int], None]
"""Called with how many more sentences and tokens are done."""


@contextmanager
def _live_line(text: str) -> Iterator[Callable[[str], None]]:
    """A line on standard error that changes; standard output is left alone, since the tagged text may go there."""
    # Imported here, since most runs show nothing and should not wait for rich.
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns, console = TextColumn("{task.description}"), Console(stderr=True)
    # Without a thread that refreshes the line: workers of folders are copies of a process that has none.
    with Progress(columns, console=console, redirect_stdout=False, auto_refresh=False) as display:
        line = display.add_task(text)
        yield lambda text: display.update(line, description=text, refresh=True)


@contextmanager
def counted() -> Iterator[Tell]:
    """A line with sentences, tokens and tokens per second."""
    begin, done = time.monotonic(), Counter[str]()
    with _live_line("0 sentences") as show:

        def tell(sentences: int, tokens: int) -> None:
            done.update(sentence=sentences, token=tokens)
            rate = done["token"] / max(time.monotonic() - begin, 1e-9)
            show(", ".join([*(number_of(done[noun], noun) for noun in done), f"{rate:,.0f} tokens/s"]))

        yield tell


@contextmanager
def folder_progress(quiet: bool) -> Iterator[Callable[[FolderProgress], None]]:
    """A line that changes as the tagging of folders goes on; a line now and then where it is no terminal."""
    begin = last = time.monotonic()

    def print_rarely(progress: FolderProgress) -> None:
        nonlocal last
        now = time.monotonic()
        if not quiet and now - last >= _EVERY:
            last = now
            typer.echo(described(progress, now - begin), err=True)

    if quiet or not sys.stderr.isatty():
        yield print_rarely
        return
    with _live_line("starting") as show:
        yield lambda progress: show(described(progress, time.monotonic() - begin))


def described(progress: FolderProgress, seconds: float) -> str:
    """Shards, tokens, the rate, and how long the rest will take at it; the rest has as many tokens per byte."""
    rate = progress.tokens / max(seconds, 1e-9)
    shards = f"{progress.shards:,} of {number_of(progress.all_shards, 'shard')}"
    text = f"{shards}, {number_of(progress.tokens, 'token')}, {rate:,.0f} tokens/s"
    if not progress.bytes or not progress.done_tokens:
        return text
    expected = progress.left * progress.done_tokens / progress.bytes
    under_way = progress.tokens - progress.done_tokens
    minutes, whole = divmod(round(max(expected - under_way, 0) / max(rate, 1e-9)), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min {whole:02} s" if minutes else f"{whole} s"
    return f"{text}, about {left} left"


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
        """Only remember signals within the block, which must not be cut short."""
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
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    handlers = {number: signal.signal(number, stop.hear) for number in signals}
    try:
        yield stop
    except KeyboardInterrupt:
        typer.echo("trellis: interrupted", err=True)
        raise typer.Exit(stop.code) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
