"""``trellis tag`` of folders: shards in, shards out, in several processes or on an engine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli._reading import remembered_options
from trellis.cli._signals import stoppable
from trellis.errors import ConfigError, DataError, number_of
from trellis.models import folder

if TYPE_CHECKING:
    from trellis.distributed import FolderProgress, FolderReport

_EVERY = 10.0  # seconds between lines where nobody watches
_SHOWN = 10

EngineOption = Annotated[
    str | None, typer.Option(help="Folders: who does the work: local (default), ray or spark.", metavar="ENGINE")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Folders: shards that are tagged at a time; default: as many as cores.")
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Folders: go on with a run; what is done stays.")]
OutputsOption = Annotated[
    str | None,
    typer.Option(help="Folders: columns to add: tags, spans, probabilities. Default: tags, and spans if there are."),
]
TextOption = Annotated[str | None, typer.Option(help="Folders: column or field of the texts; default: text.")]
PrefixOption = Annotated[str, typer.Option(help="Folders: what stands before the names of added columns.")]


@dataclass(frozen=True)
class FolderOptions:
    """The options that only folders have."""

    engine: str | None
    workers: int | None
    resume: bool
    outputs: str | None
    text: str | None
    prefix: str

    def is_meant(self, paths: list[str], to: str | None) -> bool:
        """Whether shards are to be tagged: a folder or Parquet is given, or what only folders have."""
        shards = any(Path(path).is_dir() or path.endswith(".parquet") for path in paths)
        return shards or to == "parquet" or self != NO_FOLDER


NO_FOLDER = FolderOptions(None, None, False, None, None, "")


def tag_shards(
    model: str,
    paths: list[str],
    given: FolderOptions,
    *,
    to: str | None,
    out: str,
    source: str | None,
    sentences: bool,
    probs: bool,
    tokens: str | None,
    encoding: str,
    reading: dict[str, object],
    strict: bool,
    quiet: bool,
    refused: dict[str, Any],
) -> None:
    """Tag folders; `refused` are options that are for single files."""
    from trellis.distributed import tag_folder

    other = next((name for name, value in refused.items() if value), None)
    if other is not None:
        raise ConfigError(f"{other} is for single files: leave it out, or tag the files of the folder one by one")
    if out == "-" or not paths or "-" in paths:
        raise ConfigError("shards are files: name the folder to tag, and with --out the folder to write")
    remembered = remembered_options(folder.read_record(model))
    form = "conll" if source is None else source
    with stoppable(), shown_progress(quiet) as progress:
        report = tag_folder(
            model,
            paths,
            out,
            to=to or "parquet",
            engine=given.engine or "local",
            workers=given.workers,
            resume=given.resume,
            format=source,
            text=given.text,
            tokens=tokens,
            outputs=_outputs(given.outputs, probs),
            sentences=sentences,
            prefix=given.prefix,
            encoding=encoding,
            reading=remembered.get(form, {}) | reading,
            strict=strict,
            progress=progress,
        )
    _tell(report, out, quiet)


def _outputs(given: str | None, probs: bool) -> list[str] | None:
    names = None if given is None else [name.strip() for name in given.split(",") if name.strip()]
    if not probs:
        return names
    return [*(names or ["tags", "spans"]), *(["probabilities"] if "probabilities" not in (names or []) else [])]


def _tell(report: FolderReport, out: str, quiet: bool) -> None:
    """What was done, and what went wrong: an error if a shard failed."""
    before = f", {report.before:,} of them before" if report.before else ""
    done = report.shards - len(report.failed)
    if not quiet:
        counts = f"{number_of(report.rows, 'row')}, {number_of(report.tokens, 'token')}"
        said = f"{done:,} of {number_of(report.shards, 'shard')} done{before}: {counts}"
        typer.echo(f"{out}: {said}", err=True)
    if report.bad:
        bad = Path(out, "_trellis", "bad")
        typer.echo(f"{out}: {number_of(report.bad, 'record')} could not be tagged: see {bad}", err=True)
    if report.failed:
        some = [f"  {reason}" for reason in list(report.failed.values())[:_SHOWN]]
        more = [f"  and {len(report.failed) - _SHOWN:,} more"] if len(report.failed) > _SHOWN else []
        what = f"{number_of(len(report.failed), 'shard')} failed; --resume tries them again:"
        raise DataError("\n".join([what, *some, *more]))


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Callable[[FolderProgress], None]]:
    """A line on standard error that changes as the run goes on; a line now and then where it is no terminal."""
    begin = time.monotonic()
    if quiet:
        yield lambda progress: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress, TextColumn

        columns, console = TextColumn("{task.description}"), Console(stderr=True)
        # Without a thread that refreshes the line: workers are copies of a process that has none.
        with Progress(columns, console=console, redirect_stdout=False, auto_refresh=False) as display:
            line = display.add_task("starting")
            yield lambda progress: display.update(
                line, description=described(progress, time.monotonic() - begin), refresh=True
            )
    else:
        yield _Lines(begin)


class _Lines:
    def __init__(self, begin: float) -> None:
        self._begin = self._last = begin

    def __call__(self, progress: FolderProgress) -> None:
        now = time.monotonic()
        if now - self._last >= _EVERY:
            self._last = now
            typer.echo(described(progress, now - self._begin), err=True)


def described(progress: FolderProgress, seconds: float) -> str:
    """Shards, tokens, the rate, and how long the rest will take at it; the rest has as many tokens per byte."""
    rate = progress.tokens / max(seconds, 1e-9)
    shards = f"{progress.shards:,} of {number_of(progress.all_shards, 'shard')}"
    said = f"{shards}, {number_of(progress.tokens, 'token')}, {rate:,.0f} tokens/s"
    if not progress.bytes or not progress.done_tokens:
        return said
    expected = progress.left * progress.done_tokens / progress.bytes
    under_way = progress.tokens - progress.done_tokens
    left = max(expected - under_way, 0) / max(rate, 1e-9)
    return f"{said}, about {_duration(left)} left"


def _duration(seconds: float) -> str:
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes:02} min"
    return f"{minutes} min {whole:02} s" if minutes else f"{whole} s"
