"""``trellis select``: the sentences that are worth labelling next."""

from __future__ import annotations

from typing import Annotated

import typer

import trellis
from trellis.cli._inputs import TEXTS, Inputs
from trellis.cli._reading import EncodingOption, QuietOption, Reader
from trellis.corpus import FORMATS, open_output
from trellis.errors import ConfigError
from trellis.models.selection import MEASURES
from trellis.models.selection import select as choose
from trellis.text import Sentence, splitter


def select(
    model: Annotated[str, typer.Argument(metavar="DIR", help="Model folder or file.")],
    pool: Annotated[str, typer.Argument(help="File of sentences without labels; - is standard input.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many to choose.")] = 50,
    by: Annotated[str, typer.Option(help=f"What to choose by: {', '.join(MEASURES)}.")] = MEASURES[0],
    alike: Annotated[bool, typer.Option("--alike", help="Allow sentences that are much like each other.")] = False,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Write the numbers of the sentences (from 1) too.")
    ] = False,
    source: Annotated[str | None, typer.Option("--from", help="Format of the pool; guessed if not given.")] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="File to write; - is standard output.")] = "-",
    encoding: EncodingOption = "utf-8",
    quiet: QuietOption = False,
) -> None:
    """Choose the sentences of a pool that are worth labelling next: those that teach the model most.

    The model is least sure of them, and no two are of a kind. They are written one per line, best first: as they stand
    in a pool of raw text, as tokens with spaces between them from any other format.

    \b
    Examples:
      trellis select model text.txt -n 50 > to-label.txt
      trellis select model text.txt -n 50 --by entropy --numbers
    """  # noqa: D301 - \b tells click to keep the lines
    if source is not None and source not in (*TEXTS, *FORMATS):
        raise ConfigError(f"--from: unknown format {source!r}, expected one of {', '.join((*TEXTS, *FORMATS))}")
    tagger = trellis.load(model)
    inputs = Inputs(Reader(encoding=encoding), splitter(tagger.tokenizer_), source, "raise")
    form, pieces = inputs.pieces(pool, quiet=quiet)
    sentences = [(i, piece) for i, piece in enumerate(pieces, start=1) if isinstance(piece, Sentence) and len(piece)]
    chosen = choose(tagger, [piece for _, piece in sentences], count, by=by, diverse=not alike)
    with open_output(out) as file:
        for i in chosen:
            number, piece = sentences[i]
            text = piece.text if form == "text" and piece.text is not None else " ".join(piece.tokens)
            file.write(f"{number}\t{text}\n".encode() if numbers else f"{text}\n".encode())
