"""``trellis select``: the sentences of a pool that are worth labelling next."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import typer

from trellis.cli.io import FORMS, TEXTS, Inputs, Reader, remembered_options
from trellis.cli.options import Columns, ModelArgument, OutOption, QuietOption, check_order, data_option, one_of
from trellis.cli.tag import Job
from trellis.corpus import FORMATS, open_output
from trellis.errors import ConfigError, number_of
from trellis.models import load
from trellis.models import select as most_informative
from trellis.models.selection import DEFAULT, MEASURES
from trellis.text import Sentence, splitter


def select(
    model: ModelArgument,
    files: Annotated[list[str], typer.Argument(help="The pool: files of sentences without labels.")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many sentences.")] = 50,
    by: Annotated[
        str,
        typer.Option(
            callback=one_of(MEASURES),
            help="entropy; margin: how close the second best labelling is; errors: expected wrong and missing spans.",
        ),
    ] = DEFAULT,
    diversity: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="How much sentences lose that resemble one taken already.")
    ] = 0.5,
    values: Annotated[bool, typer.Option("--values", help="Write value and place before each text.")] = False,
    source: Annotated[
        str | None,
        data_option(
            "--from",
            callback=one_of((*TEXTS, *FORMATS)),
            help=f"Format: {', '.join((*TEXTS, *FORMATS))}; guessed if not given.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            callback=one_of(("text", *FORMS)),
            help=f"text: the texts alone; or, with the model's own tags to correct: {', '.join(FORMS)}.",
        ),
    ] = None,
    out: OutOption = "-",
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
    check_order(model, files)
    tagger = load(model)
    reader = Reader(encoding=columns.encoding, options=columns.given, remembered=remembered_options(model))
    inputs = Inputs(reader, splitter(tagger.tokenizer_), source, "raise", respelled=tagger.makes_words)
    forms, parts = zip(*(inputs.pieces(path, quiet=quiet) for path in files), strict=True)
    pool = [piece for piece in chain.from_iterable(parts) if isinstance(piece, Sentence)]
    form = to or ("text" if forms[0] in TEXTS else forms[0] if forms[0] in FORMS else "conll")
    if form != "text" and values:
        raise ConfigError("--values is for --to text")
    selected = most_informative(tagger, pool, n, by=by, diversity=diversity)
    chosen = [pool[one.index] for one in selected]
    with open_output(out) as file:
        if form == "text":
            for one, sentence in zip(selected, chosen, strict=True):
                text = sentence.text if sentence.text is not None else " ".join(sentence.tokens)
                head = f"{one.value:.4f}\t{sentence.where}\t" if values else ""
                file.write(f"{head}{text}\n".encode())
        else:
            job = Job(tagger, form in ("inline", "jsonl"), 0, None, forgiving=False, raw=True)
            style = job.style(form, file)
            for answer in job.answer([*chosen]):
                file.write(job.drawn(answer, form, style)[1])
    if not quiet:
        sentences = f"{len(chosen):,} of {number_of(len(pool), 'sentence')}"
        tokens = f"{sum(map(len, chosen)):,} of {number_of(sum(map(len, pool)), 'token')}"
        typer.echo(f"{sentences}, {tokens}", err=True)
