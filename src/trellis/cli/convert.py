"""``trellis convert``: from one format or tag scheme to another."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from trellis import corpus
from trellis.cli.io import tell_notes
from trellis.cli.options import Annotations, Columns, QuietOption, checked, data_option, one_of
from trellis.errors import number_of
from trellis.tags import Scheme

_FORMATS = "\n\n".join(f"[bold]{name}[/bold]: {form.about}" for name, form in corpus.FORMATS.items())


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="File to read; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File to write; - is stdout.")],
    scheme: Annotated[
        str | None,
        typer.Option(callback=checked(Scheme.parse), help="Tag scheme to write: IOB1, IOB2, BIOES, BMES, ..."),
    ] = None,
    from_scheme: Annotated[
        str | None, typer.Option(callback=checked(Scheme.parse), help="Tag scheme of IN; the best fit if not given.")
    ] = None,
    from_: Annotated[
        str | None,
        data_option(
            "--from", callback=one_of(corpus.FORMATS), help=f"Format of IN, guessed if not given.\n\n{_FORMATS}"
        ),
    ] = None,
    to: Annotated[
        str | None,
        data_option(callback=one_of(corpus.FORMATS), help="Format of OUT; from its name if not given."),
    ] = None,
    columns: Columns = Columns(),
    tokenizer: Annotated[
        str | None, data_option(help="How to split texts with spans: words, characters or whitespace.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Shape of spans to write: label, entities, spans or label_studio.")
    ] = None,
    on_error: Annotated[
        str,
        typer.Option(
            callback=one_of(("raise", "skip")), help="raise, or skip sentences that cannot be read and count them."
        ),
    ] = "raise",
    annotations: Annotations = Annotations(),
    quiet: QuietOption = False,
) -> None:
    """Convert a corpus to another format, another tag scheme, or both.

    Formats follow from the names, and compression from .gz, .bz2, .xz and .zst. --columns and --encoding are those of
    IN; OUT is UTF-8.

    \b
    Examples:
      trellis convert train.conll train.bioes.conll --scheme BIOES
      trellis convert doccano.jsonl train.conll --tokenizer characters --scheme BMES
      trellis convert train.conll train.jsonl --to spans --shape entities
      trellis convert zh.conllu zh.seg
      trellis convert eng.train - --to jsonl --columns token,pos,chunk,ner
    """  # noqa: D301 - \b tells click to keep the lines
    options = columns.given | annotations.spans
    if tokenizer is not None:
        options["tokenizer"] = tokenizer
    done = corpus.convert(
        source,
        target,
        from_format=from_,
        to_format=to,
        from_scheme=None if from_scheme is None else Scheme.parse(from_scheme),
        to_scheme=None if scheme is None else Scheme.parse(scheme),
        encoding=columns.encoding,
        on_error=cast("Literal['raise', 'skip']", on_error),
        on_bad_tags=None if annotations.on_bad_tags is None else annotations.bad_tags,
        read_options=options,
        write_options={} if shape is None else {"shape": shape},
    )
    if quiet:
        return
    # On standard error, since standard output may be the file.
    report, schemes = done.report, ""
    typer.echo(f"{source}: read as {report.format}, since {report.reason}", err=True)
    tell_notes(source, [*report.notes(), *done.notes])
    if done.from_scheme is not None and done.to_scheme is not None:
        schemes = f", {done.from_scheme.value} to {done.to_scheme.value}"
        if done.from_scheme is Scheme.PLAIN is not done.to_scheme:
            typer.echo(
                f"trellis: the tags of {source} are not those of spans: in {done.to_scheme.value}, every token is a "
                "span of its own",
                err=True,
            )
    typer.echo(f"{target}: {number_of(done.sentences, 'sentence')} as {done.to_format}{schemes}", err=True)
