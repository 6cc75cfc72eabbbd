"""The lexicon of a command: its files read and joined, and the report of what came of its entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Annotated

import typer

from trellis.corpus import dumps, open_output
from trellis.errors import ConfigError, DataError, number_of
from trellis.lexicon import FORMATS, Lexicon, parse_strength, read_entries
from trellis.lexicon.report import LexiconReport

_STORED = ".safetensors"
_MOST_LOST = 10_000  # occurrences that lost, listed in a report for people

LexiconOption = Annotated[
    list[str] | None,
    typer.Option(
        "--lexicon",
        metavar="FILE",
        help=f"Words or names that are known: {', '.join(FORMATS)}, recognised, or a saved lexicon. May be repeated.",
    ),
]
LexiconFormatOption = Annotated[
    str | None, typer.Option("--lexicon-format", help=f"Format of the lexicons: {', '.join(FORMATS)}.")
]
StrengthOption = Annotated[
    str | None,
    typer.Option(
        help="Of entries without their own: prefer=2.0 (a bonus in log odds for the span), must (it is a span), "
        "or feature (as the model has learned)."
    ),
]
IgnoreCaseOption = Annotated[
    bool, typer.Option("--lexicon-ignore-case", help="Find the entries of lexicons in any case.")
]


def read_lexicon(
    paths: Sequence[str], form: str | None, strength: str, *, ignore_case: bool, given: bool, quiet: bool
) -> Lexicon | None:
    """The entries of all files; of several with one surface and label, the last counts.

    The strength is that of entries without their own; if it was `given`, also that of all entries of saved lexicons.
    """
    joined: Lexicon | None = None
    for path in paths:
        own = _read(path, form, strength, ignore_case, given, quiet)
        joined = own if joined is None else joined | own
    return joined


def _read(path: str, form: str | None, strength: str, ignore_case: bool, given: bool, quiet: bool) -> Lexicon:
    try:
        default = parse_strength(strength)
    except DataError as error:
        raise ConfigError(f"--strength: {error}") from None
    if path.endswith(_STORED):
        stored = Lexicon.load(path)
        if ignore_case:
            stored = Lexicon.of_columns(stored.columns, replace(stored.folding, case=True), stored.boundaries)
        return stored.with_strength(default) if given else stored
    reading = read_entries(path, form, default, None)
    if not quiet:
        typer.echo(
            f"{path}: {number_of(len(reading.entries), 'entry', 'entries')}, {reading.format} since {reading.reason}",
            err=True,
        )
    return Lexicon(reading.entries, fold_case=ignore_case)


class ReportFile:
    """A report that is written as sentences are tagged: JSON Lines with every occurrence, or tables for people."""

    def __init__(self, file: IO[bytes], records: bool) -> None:
        self._file, self._records = file, records
        self._sentences = 0
        self._all = LexiconReport()

    def add(self, report: LexiconReport, sentences: int) -> None:
        """The report of the next sentences."""
        own = tuple(replace(one, sentence=one.sentence + self._sentences) for one in report.occurrences)
        self._sentences += sentences
        if not self._records:
            self._all = self._all + LexiconReport(own)
            return
        for record in LexiconReport(own).to_records():
            self._file.write(dumps(record).encode("utf-8", "backslashreplace"))

    def finish(self) -> None:
        """Write what had to wait for the end."""
        if not self._records:
            self._file.write(f"{_text(self._all)}\n".encode("utf-8", "backslashreplace"))


@contextmanager
def report_file(path: str | None) -> Iterator[ReportFile | None]:
    """The report at this path, if one is asked for; it appears once it is whole."""
    if path is None:
        yield None
        return
    with open_output(path) as file:
        report = ReportFile(file, path.endswith((".jsonl", ".ndjson")))
        yield report
        report.finish()


def _text(report: LexiconReport) -> str:
    """The entries as a table, and below it each occurrence that lost, with what won."""
    lines = [report.grid().to_text()]
    if report.lost:
        lines.append("\nLost:")
    for one in report.lost[:_MOST_LOST]:
        where = one.where or f"sentence {one.sentence}"
        won = " ".join(
            f"{span.start}-{span.end}{f' {span.label}' if span.label else ''} {p:.3f}" for span, p in one.instead
        )
        lines.append(
            f"{where}, tokens {one.start}-{one.end}: {one.text} {one.probability:.3f} (alone {one.alone:.3f})"
            + (f" against {won}" if won else "")
        )
    return "\n".join(lines)
