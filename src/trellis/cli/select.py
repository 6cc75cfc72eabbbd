"""``trellis select``: the sentences of a pool that are worth labelling next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any

import typer

import trellis
from trellis.cli.io import FORMS, TEXTS, Inputs, Reader, remembered_options
from trellis.cli.options import Columns, ModelArgument, QuietOption, data_option
from trellis.cli.tag import Job
from trellis.corpus import FORMATS, open_output
from trellis.errors import ConfigError, number_of
from trellis.models import Tagger, folder
from trellis.models.selection import DEFAULT, MEASURES, Selected
from trellis.text import Sentence, splitter

_TEXT = "text"


def select(
    model: ModelArgument,
    files: Annotated[list[str], typer.Argument(help="The pool: files of sentences without labels.")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many sentences.")] = 50,
    by: Annotated[
        str,
        typer.Option(
            help="entropy; margin: how close the second best labelling is; errors: expected wrong and missing spans."
        ),
    ] = DEFAULT,
    diversity: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="How much sentences lose that resemble one taken already.")
    ] = 0.5,
    values: Annotated[bool, typer.Option("--values", help="Write value and place before each text.")] = False,
    source: Annotated[
        str | None, data_option("--from", help=f"Format: {', '.join((*TEXTS, *FORMATS))}; guessed if not given.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help=f"text: the texts alone; or, with the model's own tags to correct: {', '.join(FORMS)}."),
    ] = None,
    out: Annotated[str, typer.Option(help="Where to write; - is standard output.")] = "-",
    columns: Columns = Columns(),
    quiet: QuietOption = False,
) -> None:
    """Choose the sentences that are most worth labelling next.

    Those come first of which the model is least sure, per token, and no two of a kind. Label them, train
    again with them, and select again: a model gets as good with fewer labels than with sentences taken at random.

    \b
    Examples:
      trellis select model pool.txt -n 50 > next.txt
      trellis select model pool.txt -n 50 --to jsonl --out next.jsonl
      trellis select model pool.txt --by margin --values
    """  # noqa: D301 - \b tells click to keep the lines
    _check(source, to, by)
    tagger = trellis.load(model)
    reader = Reader(
        encoding=columns.encoding,
        options=columns.given,
        remembered=remembered_options(folder.read_record(model)),
    )
    inputs = Inputs(reader, splitter(tagger.tokenizer_), source, "raise", respelled=tagger.makes_words)
    forms, parts = zip(*(inputs.pieces(path, quiet=quiet) for path in files), strict=True)
    pool = [piece for piece in chain.from_iterable(parts) if isinstance(piece, Sentence)]
    chosen = trellis.select(tagger, pool, n, by=by, diversity=diversity)
    form = to or (_TEXT if forms[0] in TEXTS else forms[0] if forms[0] in FORMS else "conll")
    _write(tagger, pool, chosen, form, values, out)
    if not quiet:
        _tell(pool, chosen)


def _check(source: str | None, to: str | None, by: str) -> None:
    for option, given, allowed in (
        ("--from", source, (*TEXTS, *FORMATS)),
        ("--to", to, (_TEXT, *FORMS)),
        ("--by", by, (*MEASURES,)),
    ):
        if given is not None and given not in allowed:
            raise ConfigError(f"{option}: expected one of {', '.join(allowed)}, got {given!r}")


def _write(
    tagger: Tagger[Any], pool: Sequence[Sentence], chosen: Sequence[Selected], form: str, values: bool, out: str
) -> None:
    job = Job(tagger, form in ("inline", "jsonl"), 0, None, forgiving=False, raw=True)
    if form != _TEXT and values:
        raise ConfigError("--values is for --to text")
    with open_output(out) as file:
        if form == _TEXT:
            for one in chosen:
                sentence = pool[one.index]
                before = f"{one.value:.4f}\t{sentence.where}\t" if values else ""
                file.write(f"{before}{_text(sentence)}\n".encode())
            return
        style = job.style(form, file)
        for found in job.answer([pool[one.index] for one in chosen]):
            file.write(job.drawn(found, form, style)[1])


def _text(sentence: Sentence) -> str:
    return sentence.text if sentence.text is not None else " ".join(sentence.tokens)


def _tell(pool: Sequence[Sentence], chosen: Sequence[Selected]) -> None:
    tokens, taken = sum(map(len, pool)), sum(len(pool[one.index]) for one in chosen)
    typer.echo(
        f"{len(chosen):,} of {number_of(len(pool), 'sentence')}, {taken:,} of {number_of(tokens, 'token')}", err=True
    )
