"""``trellis inspect``: what is inside a model."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from html import escape as escape_html
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import trellis
from trellis import files
from trellis.cli.io import output
from trellis.cli.options import ModelArgument
from trellis.errors import ConfigError, ModelError, number_of
from trellis.metrics.prf import percent
from trellis.models import CRF, HMM, Tagger, folder
from trellis.models.crf.model import WeightedFeature
from trellis.training import History

Colour = tuple[int, int, int]
_WHITE, _GREY, _RED, _BLUE = (255, 255, 255), (215, 215, 215), (200, 40, 40), (40, 80, 200)
_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST = 60  # steps drawn of a history


def inspect(
    model: ModelArgument,
    top: Annotated[int, typer.Option(min=0, help="How many features to show of each label.")] = 5,
    label: Annotated[str | None, typer.Option(help="Only this label's features.")] = None,
    plot: Annotated[str | None, typer.Option(help="Write the transitions as a picture: a .svg file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead.")] = False,
) -> None:
    """Look into a model: labels, transitions as a heat map, top features, the record of its training.

    \b
    Examples:
      trellis inspect model
      trellis inspect model --top 20 --label B-PER
      trellis inspect model --plot transitions.svg
    """  # noqa: D301 - \b tells click to keep the lines
    tagger = trellis.load(model)
    heat_map = transitions(tagger)
    record, history = folder.read_record(model), folder.read_history(model)
    features = _features(tagger, top, label)
    if as_json:
        typer.echo(json.dumps(_as_dict(tagger, heat_map, features, record), ensure_ascii=False, indent=2))
    else:
        _print(tagger, heat_map, features, record, history)
    if plot is not None:
        if heat_map is None:
            raise ModelError("--plot: the states of this model have no names, so there is no table")
        save(heat_map, plot)
        typer.echo(f"transitions drawn to {plot}", err=True)


def _features(tagger: Tagger[Any], top: int, label: str | None) -> dict[str, list[tuple[str, float]]]:
    """The features with the largest weights of each label, if the family has features."""
    if not isinstance(tagger, CRF) or top == 0:
        return {}
    labels = tagger.labels_ if label is None else [label]
    return {name: [(_name(f, name), f.weight) for f in tagger.top_features(name, top).features] for name in labels}


def _name(feature: WeightedFeature, label: str) -> str:
    """The feature, with the finer label that the model has learned it for and with the label before it, if any."""
    finer = "" if feature.label == label else f" as {feature.label}"
    return f"{feature.name}{finer}" + ("" if feature.previous is None else f" after {feature.previous}")


def _as_dict(
    tagger: Tagger[Any],
    heat_map: HeatMap | None,
    features: dict[str, list[tuple[str, float]]],
    record: dict[str, Any],
) -> dict[str, Any]:
    rows = None if heat_map is None else [[v if v > float("-inf") else None for v in row] for row in heat_map.values]
    return {
        "kind": tagger.kind,
        "settings": trellis.config.to_dict(tagger.settings_),
        "labels": list(tagger.labels_),
        "states": list(state_names(tagger)),
        "scheme": tagger.tagset_.scheme.value,
        "tokenizer": str(tagger.tokenizer_),
        "lexicon": None if tagger.lexicon_ is None else len(tagger.lexicon_),
        "transitions": rows,
        "features": features,
        "training": record,
    }


def _print(
    tagger: Tagger[Any],
    heat_map: HeatMap | None,
    features: dict[str, list[tuple[str, float]]],
    record: dict[str, Any],
    history: History | None,
) -> None:
    console = output(highlight=False)
    console.print(f"[bold]{escape(repr(tagger))}[/bold]")
    console.print(f"scheme {tagger.tagset_.scheme.value}, raw text is split into {tagger.tokenizer_}", soft_wrap=True)
    console.print(f"{number_of(len(tagger.labels_), 'label')}: {escape(' '.join(tagger.labels_))}")
    if tagger.lexicon_ is not None:
        learned = ", matches are features" if tagger.lexical_ else ""
        console.print(f"lexicon of {number_of(len(tagger.lexicon_), 'entry', 'entries')}{learned}")
    if heat_map is not None:
        console.print(heat_map.title)
        console.print(heat_map.to_rich(console.width))
    if features:
        console.print(_feature_table(features))
    if record:
        console.print(_record_table(record))
    if history is not None and len(history.steps) > 1:
        _print_history(console, history)


def _feature_table(features: dict[str, list[tuple[str, float]]]) -> Table:
    table = Table(title="Features with the largest weights", title_justify="left")
    table.add_column("label")
    table.add_column("features", overflow="fold")
    for label, found in features.items():
        table.add_row(escape(label), escape("  ".join(f"{name} {weight:+.2f}" for name, weight in found)))
    return table


def _record_table(record: dict[str, Any]) -> Table:
    table = Table(title="Training", title_justify="left", show_header=False)
    table.add_column("")
    table.add_column("", overflow="fold")
    for name in ("model", "task", "command", "started", "seconds", "iterations", "reason"):
        if record.get(name) is not None:
            table.add_row(name, escape(str(record[name])))
    for role, about in record.get("data", {}).items():
        counts = number_of(about["sentences"], "sentence"), number_of(about["tokens"], "token")
        said = ", ".join([about["path"], about["format"], *counts])
        table.add_row(role, escape(said))
    for role, found in record.get("figures", {}).items():
        table.add_row(f"{role} figures", ", ".join(f"{name} {percent(value)}" for name, value in found.items()))
    return table


def _print_history(console: Console, history: History) -> None:
    """Loss, and the held-out score if there is one, as lines of blocks from first to last step."""
    steps = history.steps
    rows = {"loss": [step.loss for step in steps], "dev": [step.dev for step in steps if step.dev is not None]}
    for name, values in rows.items():
        if values:
            said = f"{values[0]:,.4g} to {values[-1]:,.4g}, best {max(values) if name == 'dev' else min(values):,.4g}"
            console.print(f"{name:5}{_sparkline(values)} {said}", soft_wrap=True)


def _sparkline(values: list[float]) -> str:
    step = max(1, -(-len(values) // _MOST))
    drawn = values[::step]
    low, high = min(drawn), max(drawn)
    return "".join(_BLOCKS[round(7 * (v - low) / (high - low))] if high > low else _BLOCKS[0] for v in drawn)


@dataclass(frozen=True)
class HeatMap:
    """``values[i][j]`` of label i before label j; minus infinity is forbidden."""

    title: str
    labels: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    @property
    def largest(self) -> float:
        """The largest size of a number, which gets the full colour."""
        return max((abs(v) for row in self.values for v in row if math.isfinite(v)), default=0.0) or 1.0

    def colour(self, value: float) -> Colour:
        """Red for and blue against, the stronger the more; grey is forbidden."""
        if not math.isfinite(value):
            return _GREY
        end = _RED if value > 0 else _BLUE
        share = abs(value) / self.largest
        return tuple(round(a + (b - a) * share) for a, b in zip(_WHITE, end, strict=True))  # type: ignore[return-value]

    def to_rich(self, width: int) -> Table:
        """Coloured cells, with numbers if there is room for them; columns are in the order of rows."""
        longest = max(map(len, self.labels))
        numbered = longest + 1 + sum(max(len(label) + 2, 7) for label in self.labels) <= width
        table = Table(show_header=numbered, box=None, padding=0)
        table.add_column("", no_wrap=True)
        for label in self.labels:
            table.add_column(Text(f" {label} "), justify="center", no_wrap=True)
        for label, row in zip(self.labels, self.values, strict=True):
            table.add_row(Text(f"{label} "), *(self._cell(value, numbered) for value in row))
        return table

    def _cell(self, value: float, numbered: bool) -> Text:
        number = f"{value:.2f}" if math.isfinite(value) else "·"
        text = f"{number:^7}" if numbered else "· " if number == "·" else self._shade(value) * 2
        ink = "black" if sum(self.colour(value)) > 380 else "white"
        return Text(text, style=f"{ink} on rgb({','.join(map(str, self.colour(value)))})")

    def _shade(self, value: float) -> str:
        """A character that is darker for larger numbers, for terminals without colours."""
        return " ░▒▓█"[round(4 * abs(value) / self.largest)]


def transitions(tagger: Tagger[Any]) -> HeatMap | None:
    """The transitions of a tagger between the states that it learned; None if they have no names."""
    if isinstance(tagger, CRF):
        rows = [[0.0 if weight is None else weight for weight in row] for row in tagger.transitions().weights]
        title = "Transitions: weight of the column's label after the row's"
    elif isinstance(tagger, HMM):
        rows = tagger.transitions_.tolist()
        title = "Transitions: probability of the column's label after the row's"
    else:
        rows = tagger.chain_scores([]).transitions.tolist()
        title = "Transitions: score of the column's label after the row's"
    names = state_names(tagger)
    if len(rows) != len(names) or not isinstance(rows[0][0], float):
        return None
    return HeatMap(title, names, tuple(tuple(row) for row in rows))


def state_names(tagger: Tagger[Any]) -> tuple[str, ...]:
    """Names of the states of a tagger's chain: its labels, or finer ones if it learned in a finer scheme."""
    return tagger.states_.names if hasattr(tagger, "states_") else tagger.labels_


def save(heat_map: HeatMap, path: str) -> None:
    """Write the picture as SVG."""
    if Path(path).suffix.lower() != ".svg":
        raise ConfigError(f"--plot {path}: expected a name that ends in .svg")
    files.write_text(path, svg(heat_map))


def svg(heat_map: HeatMap) -> str:
    """The heat map as an SVG picture."""
    size, count = 28, len(heat_map.labels)
    margin = 20 + 8 * max(map(len, heat_map.labels))
    side = margin + size * count + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side + 20}" width="{side}" height="{side + 20}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="10" y="{side + 10}">{escape_html(heat_map.title)}</text>'
    ]
    for i, label in enumerate(heat_map.labels):
        place = margin + size * i + size // 2
        name = escape_html(label)
        parts.append(f'<text x="{margin - 6}" y="{place + 4}" text-anchor="end">{name}</text>')
        parts.append(f'<text transform="translate({place + 4} {margin - 6}) rotate(-90)">{name}</text>')
    for i, row in enumerate(heat_map.values):
        for j, value in enumerate(row):
            r, g, b = heat_map.colour(value)
            said = f"{heat_map.labels[i]} to {heat_map.labels[j]}: {value:.3f}"
            parts.append(
                f'<rect x="{margin + size * j}" y="{margin + size * i}" width="{size - 1}" height="{size - 1}" '
                f'fill="rgb({r},{g},{b})"><title>{escape_html(said)}</title></rect>'
            )
    return "\n".join([*parts, "</svg>\n"])
