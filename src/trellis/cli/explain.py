"""``trellis explain``: why each token got its label."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

import trellis
from trellis.cli.io import output
from trellis.cli.options import ModelArgument
from trellis.errors import number_of
from trellis.models import CRF, Tagger
from trellis.models.answers import LatticeView
from trellis.models.explain import Explanation
from trellis.text import Sentence, splitter


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

    The trellis shows the exact probability of every label, the best path (●) and the next one (○). A feature CRF
    also names the features and transitions that decided, against the best labelling with another label there.

    \b
    Examples:
      trellis explain model "Ada Lovelace lived in London."
      trellis explain model "Ada Lovelace lived in London." --token 4 --top 20
      trellis explain model "Ada met Charles" --json
    """  # noqa: D301 - \b tells click to keep the lines
    tagger = trellis.load(model)
    sentence = splitter("whitespace" if tokens else tagger.tokenizer_).sentence(text)
    if not len(sentence):
        raise trellis.errors.DataError("there is nothing to explain: the text has no token")
    if token is not None and token >= len(sentence):
        raise trellis.errors.ConfigError(
            f"--token {token}: the text has {number_of(len(sentence), 'token')}, 0 to {len(sentence) - 1}"
        )
    view = tagger.trellis(sentence, k=kbest)
    places = range(len(sentence)) if token is None else [token]
    reasons = [_reason(tagger, sentence, view, place) for place in places]
    if as_json:
        found = {**view.to_dict(), "why": [reason.to_dict(top) for reason in reasons]}
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        _print(view, reasons, top, token is not None)


@dataclass(frozen=True)
class Reason:
    """Why one token got its label."""

    position: int
    token: str
    label: str
    probability: float
    runner_up: str
    runner_up_probability: float
    explanation: Explanation | None = None

    def features(self, top: int) -> list[tuple[str, float]]:
        """The features that decided, each with the score by which it favours the label."""
        if self.explanation is None:
            return []
        return [(c.name, c.difference) for c in self.explanation.contributions[:top]]

    def to_dict(self, top: int) -> dict[str, Any]:
        """Plain values."""
        return {
            "position": self.position,
            "token": self.token,
            "label": self.label,
            "probability": self.probability,
            "runner_up": self.runner_up,
            "runner_up_probability": self.runner_up_probability,
            "features": [{"name": name, "difference": value} for name, value in self.features(top)],
        }


def _reason(tagger: Tagger[Any], sentence: Sentence, view: LatticeView, place: int) -> Reason:
    label = view.paths[0].tags[place]
    chosen = place, sentence.tokens[place], label, view.probability(place, label)
    if isinstance(tagger, CRF):
        found = tagger.explain(sentence, place)
        return Reason(*chosen, found.runner_up, found.runner_up_probability, found)
    return Reason(*chosen, *view.runner_up(place))


def _print(view: LatticeView, reasons: list[Reason], top: int, alone: bool) -> None:
    console = output(highlight=False)
    if alone and reasons[0].explanation is not None:
        grid = reasons[0].explanation.grid()
        console.print(type(grid)(grid.title, grid.columns, (*grid.rows[:-1][:top], grid.rows[-1])).to_rich())
        return
    console.print(view.draw(console.width))
    table = Table(title="Why", title_justify="left", pad_edge=False)
    explained = any(reason.explanation is not None for reason in reasons)
    for name in ("token", "label", "runner-up", *(["what spoke for it (+) and against it (-)"] if explained else [])):
        table.add_column(name, overflow="fold")
    for reason in reasons:
        cells = [reason.token, f"{reason.label} {reason.probability:.2f}"]
        cells.append(f"{reason.runner_up} {reason.runner_up_probability:.2f}")
        if explained:
            cells.append("  ".join(f"{name} {value:+.2f}" for name, value in reason.features(top)))
        table.add_row(*map(escape, cells))
    console.print(table)
