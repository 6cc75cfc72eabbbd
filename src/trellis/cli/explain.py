"""``trellis explain``: why each token got its label."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from trellis.cli.io import output
from trellis.cli.options import ModelArgument, check_order
from trellis.errors import ConfigError, DataError, number_of
from trellis.models import load
from trellis.models.answers import LatticeView
from trellis.models.posterior import Explanation
from trellis.text import splitter


def explain(
    model: ModelArgument,
    text: Annotated[str, typer.Argument(help="The text; split as the training data were, or at spaces with --tokens.")],
    tokens: Annotated[bool, typer.Option("--tokens", help="The text is tokens with spaces between them.")] = False,
    token: Annotated[int | None, typer.Option(min=0, help="All about this token (from 0) only.")] = None,
    kbest: Annotated[int, typer.Option(min=1, help="How many paths to show.")] = 3,
    top: Annotated[int, typer.Option(min=1, help="How many features to show of each token.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead.")] = False,
) -> None:
    """Say why each token got its label.

    The trellis shows the exact probability of every label, the best path (●) and the next one (○). What decided comes
    with it, against the best labelling with another label there: features and transitions of a feature CRF, of other
    models the scores of tokens and transitions.

    \b
    Examples:
      trellis explain model "Ada Lovelace lived in London."
      trellis explain model "Ada Lovelace lived in London." --token 4 --top 20
      trellis explain model "Ada met Charles" --json
    """  # noqa: D301 - \b tells click to keep the lines
    check_order(model, [text])
    if os.path.isfile(text):
        raise ConfigError(f"{text} is a file: expected a text in quotes")
    tagger = load(model)
    sentence = splitter("whitespace" if tokens else tagger.tokenizer_).sentence(text)
    if not len(sentence):
        raise DataError("there is nothing to explain: the text has no token")
    if token is not None and token >= len(sentence):
        count = number_of(len(sentence), "token")
        raise ConfigError(f"--token {token}: the text has {count}, 0 to {len(sentence) - 1}")
    view = tagger.trellis(sentence, k=kbest)
    reasons = [tagger.explain(sentence, one) for one in (range(len(sentence)) if token is None else [token])]
    if as_json:
        why = [_as_dict(reason, sentence.tokens[reason.position], top) for reason in reasons]
        typer.echo(json.dumps({**view.to_dict(), "why": why}, ensure_ascii=False, indent=2))
    else:
        _print(view, reasons, top, token is not None)


def _as_dict(reason: Explanation, token: str, top: int) -> dict[str, Any]:
    return {
        "position": reason.position,
        "token": token,
        "label": reason.label,
        "probability": reason.probability,
        "runner_up": reason.runner_up,
        "runner_up_probability": reason.runner_up_probability,
        "features": [
            {"name": c.name, "words": c.words, "difference": c.difference} for c in reason.contributions[:top]
        ],
    }


def _print(view: LatticeView, reasons: list[Explanation], top: int, alone: bool) -> None:
    console = output(highlight=False)
    if alone:
        grid = reasons[0].grid()
        console.print(type(grid)(grid.title, grid.columns, (*grid.rows[:-1][:top], grid.rows[-1])).to_rich())
        return
    console.print(view.draw(console.width))
    names = "token", "label", "runner-up", "what spoke for it (+) and against it (-)"
    columns = (Column(name, overflow="fold") for name in names)
    table = Table(*columns, title="Why", title_justify="left", pad_edge=False)
    for reason in reasons:
        cells = [view.tokens[reason.position], f"{reason.label} {reason.probability:.2f}"]
        cells.append(f"{reason.runner_up} {reason.runner_up_probability:.2f}")
        cells.append("  ".join(f"{c.words} {c.difference:+.2f}" for c in reason.contributions[:top]))
        table.add_row(*map(escape, cells))
    console.print(table)
