"""``trellis convert``: from one format or tag scheme to another."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from trellis import corpus
from trellis.cli._reading import (
    AlignOption,
    AnnotatorOption,
    MajorityOption,
    OnBadTagsOption,
    QuietOption,
    UnapprovedOption,
    bad_tags_option,
    reading_options,
    span_options,
    tell_notes,
)
from trellis.corpus import convert as conversion
from trellis.errors import number_of
from trellis.tags import Scheme

_FORMATS = "\n\n".join(f"[bold]{name}[/bold]: {form.about}" for name, form in corpus.FORMATS.items())


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="File to read; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File to write; - is stdout.")],
    scheme: Annotated[str | None, typer.Option(help="Tag scheme to write: IOB1, IOB2, BIOES, BMES, ...")] = None,
    from_scheme: Annotated[str | None, typer.Option(help="Tag scheme of IN; the best fit if not given.")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help=f"Format of IN, guessed if not given.\n\n{_FORMATS}")
    ] = None,
    to: Annotated[str | None, typer.Option(help="Format of OUT; from its name if not given.")] = None,
    tokens: Annotated[str | None, typer.Option(help="Column or field of the tokens, by name or index.")] = None,
    tags: Annotated[str | None, typer.Option(help="Column or field of the tags, by name or index.")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the columns of IN, separated by commas.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="How to split texts with spans: words, characters or whitespace.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Shape of spans to write: label, entities, spans or label_studio.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Character encoding of IN; OUT is UTF-8.")] = "utf-8",
    on_error: Annotated[
        str, typer.Option(help="raise, or skip sentences that cannot be read and count them.")
    ] = "raise",
    on_bad_tags: OnBadTagsOption = None,
    align: AlignOption = None,
    annotator: AnnotatorOption = None,
    majority: MajorityOption = False,
    unapproved: UnapprovedOption = False,
    quiet: QuietOption = False,
    # Former names of --from and --to.
    from_format: Annotated[str | None, typer.Option(hidden=True)] = None,
    to_format: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Convert a corpus to another format, another tag scheme, or both.

    Formats follow from the names, and compression from .gz, .bz2, .xz and .zst.

    \b
    Examples:
      trellis convert train.conll train.bioes.conll --scheme BIOES
      trellis convert doccano.jsonl train.conll --tokenizer characters --scheme BMES
      trellis convert train.conll train.jsonl --to spans --shape entities
      trellis convert zh.conllu zh.seg
      trellis convert eng.train - --to jsonl --columns token,pos,chunk,ner
    """  # noqa: D301 - \b tells click to keep the lines
    options = reading_options(tokens, tags, columns)
    options |= span_options(align, annotator, majority, unapproved)
    if tokenizer is not None:
        options["tokenizer"] = tokenizer
    done = conversion.convert(
        source,
        target,
        from_format=from_ or from_format,
        to_format=to or to_format,
        from_scheme=None if from_scheme is None else Scheme.parse(from_scheme),
        to_scheme=None if scheme is None else Scheme.parse(scheme),
        encoding=encoding,
        on_error=cast("Literal['raise', 'skip']", on_error),
        on_bad_tags=None if on_bad_tags is None else bad_tags_option(on_bad_tags),
        read_options=options,
        write_options={} if shape is None else {"shape": shape},
    )
    if not quiet:
        _print(done, source, target)


def _print(done: conversion.Conversion, source: str, target: str) -> None:
    """What was done, to standard error, since standard output may be the file."""
    report = done.report
    typer.echo(f"{source}: read as {report.format}, since {report.reason}", err=True)
    tell_notes(source, [*report.notes(), *done.notes])
    schemes = ""
    if done.from_scheme is not None and done.to_scheme is not None:
        schemes = f", {done.from_scheme.value} to {done.to_scheme.value}"
    typer.echo(f"{target}: {number_of(done.sentences, 'sentence')} as {done.to_format}{schemes}", err=True)
