"""``trellis check``: what a careful colleague would tell you before training."""

from __future__ import annotations

import json
import os
from itertools import groupby
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from trellis import corpus
from trellis.cli.io import output
from trellis.cli.options import Columns, FormatOption, SchemeOption
from trellis.corpus.check import CheckedFile, CheckReport, check_files
from trellis.tags import Scheme

_SHOWN = 20


def check(
    files: Annotated[list[str], typer.Argument(help="Files to check, the training data first; - is stdin.")],
    format: FormatOption = None,
    scheme: SchemeOption = None,
    columns: Columns = Columns(),
    longest: Annotated[int, typer.Option(help="Sentences of more tokens than this are reported.")] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Check files before training: counts, labels, tag scheme, duplicates, overlap, odd characters.

    Exit code 1 means there are errors; warnings alone give 0.

    \b
    Examples:
      trellis check train.conll dev.conll test.conll
      trellis check en-train.conllu en-test.conllu.gz --tags xpos
      trellis check data.tsv --columns token,pos,ner --tags ner --scheme BIOES
      cat data.jsonl | trellis check - --json
    """  # noqa: D301 - \b tells click to keep the lines
    checked = []
    for path in files:
        data = corpus.read(path, format=format, encoding=columns.encoding, on_error="skip", **columns.given)
        checked.append(CheckedFile(path, data.sentences, data.report))
    report = check_files(checked, scheme=None if scheme is None else Scheme.parse(scheme), longest=longest)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False, indent=2))
    else:
        _print(report)
    if report.errors:
        raise typer.Exit(1)


def _print(report: CheckReport) -> None:
    console = output(highlight=False)
    names = [os.path.basename(file.path) for file in report.files]
    if len(set(names)) < len(names):  # folders tell them apart
        names = [file.path for file in report.files]
    headings = "sentences", "tokens", "mean", "longest", "words", "unknown"
    columns = (Column(heading, justify="right") for heading in headings)
    table = Table(Column("file", overflow="fold"), *columns, title="Files")
    for file, name in zip(report.files, names, strict=True):
        counts = [f"{count:,}" for count in (file.sentences, file.tokens)]
        mean = f"{file.tokens / max(file.sentences, 1):.1f}"
        unknown = "" if file.unknown is None else f"{file.unknown:.1%}"
        table.add_row(escape(name), *counts, mean, f"{file.longest:,}", f"{file.vocabulary:,}", unknown)
    console.print(table)
    labels = _label_table(report, names)
    if labels.row_count:
        console.print(labels)
    for file in report.files:
        console.print(f"{escape(file.path)} was read as {file.format}, since {file.reason}")
        for note in file.notes:
            console.print(escape(note if note.startswith(" ") else f"{file.path}: {note}"), soft_wrap=True)
    if report.scheme is not None:
        legal = f"; every step is legal in {', '.join(report.fitting)}" if report.fitting else ""
        console.print(f"Tags were checked against {report.scheme}{legal}")
    for (severity, kind), group in groupby(report.findings, key=lambda finding: (finding.severity, finding.kind)):
        findings, colour = list(group), "red" if severity == "error" else "yellow"
        console.print(f"[{colour}]{severity}: {kind}[/{colour}] ({sum(finding.count for finding in findings):,})")
        for finding in findings[:_SHOWN]:
            where = finding.path if finding.line is None else f"{finding.path}:{finding.line}"
            console.print(f"  {escape(where)}: {escape(finding.message)}", soft_wrap=True)
        if len(findings) > _SHOWN:
            console.print(f"  and {len(findings) - _SHOWN:,} more; --json lists all")
    colour = "red" if report.errors else "green"
    console.print(f"[{colour}]errors: {report.errors:,}, warnings: {report.warnings:,}[/{colour}]")


def _label_table(report: CheckReport, names: list[str]) -> Table:
    """Spans by type if there are spans, tags otherwise, with their share in each file."""
    by_span = any(file.spans for file in report.files)
    counts = [file.spans if by_span else file.tags for file in report.files]
    totals = [max(sum(count.values()), 1) for count in counts]
    columns = (Column(escape(name), justify="right", overflow="fold") for name in names)
    table = Table("type" if by_span else "tag", *columns, title="Spans by type" if by_span else "Tags")
    for label in dict.fromkeys(label for count in counts for label in count):
        shares = [(count.get(label, 0), total) for count, total in zip(counts, totals, strict=True)]
        table.add_row(escape(label) or "(no type)", *(f"{n:,} ({n / total:.1%})" for n, total in shares))
    return table
