"""``trellis inspect``: what is inside a model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from trellis import config, files
from trellis.cli.io import output
from trellis.cli.options import ModelArgument
from trellis.errors import ConfigError, ModelError, number_of
from trellis.metrics.prf import percent
from trellis.models import CRF, Tagger, folder, load
from trellis.models.crf.model import WeightedFeature
from trellis.plots import HeatMap, svg
from trellis.training import History, read_history

Features = dict[str, list[tuple[str, float]]]
"""Names and weights of features by label."""


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
    tagger = load(model)
    features: Features = {}
    try:
        heat_map = tagger.transitions().heat_map()
    except ModelError:  # its states are no labels
        heat_map = None
    if isinstance(tagger, CRF) and top > 0:
        labels = tagger.labels_ if label is None else [label]
        features = {
            one: [(_name(feature, one), feature.weight) for feature in tagger.top_features(one, top).features]
            for one in labels
        }
    record = folder.read_record(model)
    if as_json:
        typer.echo(json.dumps(_as_dict(tagger, heat_map, features, record), ensure_ascii=False, indent=2))
    else:
        _print(tagger, heat_map, features, record, read_history(model))
    if plot is not None:
        if heat_map is None:
            raise ModelError("--plot: the states of this model have no names, so there is no table")
        if Path(plot).suffix.lower() != ".svg":
            raise ConfigError(f"--plot {plot}: expected a name that ends in .svg")
        files.write_text(plot, svg([heat_map]))
        typer.echo(f"transitions drawn to {plot}", err=True)


def _name(feature: WeightedFeature, label: str) -> str:
    """The feature, with the finer label that the model has learned it for and with the label before it, if any."""
    finer = "" if feature.label == label else f" as {feature.label}"
    return f"{feature.words}{finer}" + ("" if feature.previous is None else f" after {feature.previous}")


def _as_dict(
    tagger: Tagger[Any], heat_map: HeatMap | None, features: Features, record: dict[str, Any]
) -> dict[str, Any]:
    rows = None if heat_map is None else [[v if v > float("-inf") else None for v in row] for row in heat_map.values]
    return {
        "kind": tagger.kind,
        "settings": config.to_dict(tagger.settings_),
        "labels": list(tagger.labels_),
        "states": list(tagger.states_.names if hasattr(tagger, "states_") else tagger.labels_),
        "scheme": tagger.tagset_.scheme.value,
        "tokenizer": str(tagger.tokenizer_),
        "lexicon": None if tagger.lexicon_ is None else len(tagger.lexicon_),
        "transitions": rows,
        "features": features,
        "training": record,
    }


def _print(
    tagger: Tagger[Any], heat_map: HeatMap | None, features: Features, record: dict[str, Any], history: History | None
) -> None:
    console = output(highlight=False)
    console.print(f"[bold]{escape(repr(type(tagger)(tagger.config)))}[/bold]")
    console.print(f"scheme {tagger.tagset_.scheme.value}, raw text is split into {tagger.tokenizer_}", soft_wrap=True)
    console.print(f"{number_of(len(tagger.labels_), 'label')}: {escape(' '.join(tagger.labels_))}")
    if tagger.lexicon_ is not None:
        learned = ", matches are features" if tagger.lexical_ else ""
        console.print(f"lexicon of {number_of(len(tagger.lexicon_), 'entry', 'entries')}{learned}")
    if heat_map is not None:
        console.print(heat_map.title)
        console.print(_heat_table(heat_map, console.width))
    if features:
        title = "Features with the largest weights"
        table = Table("label", Column("features", overflow="fold"), title=title, title_justify="left")
        for label, weights in features.items():
            table.add_row(escape(label), escape("  ".join(f"{name} {weight:+.2f}" for name, weight in weights)))
        console.print(table)
    if record:
        console.print(_record_table(record))
    if history is not None and len(history.steps) > 1:
        console.print(escape(repr(history)), soft_wrap=True)


def _record_table(record: dict[str, Any]) -> Table:
    table = Table("", Column("", overflow="fold"), title="Training", title_justify="left", show_header=False)
    for name in ("model", "task", "command", "started", "seconds", "iterations", "reason"):
        if record.get(name) is not None:
            table.add_row(name, escape(str(record[name])))
    for role, about in record.get("data", {}).items():
        counts = number_of(about["sentences"], "sentence"), number_of(about["tokens"], "token")
        table.add_row(role, escape(", ".join([about["path"], about["format"], *counts])))
    for role, figures in record.get("figures", {}).items():
        table.add_row(f"{role} figures", ", ".join(f"{name} {percent(value)}" for name, value in figures.items()))
    return table


def _heat_table(heat_map: HeatMap, width: int) -> Table:
    """Coloured cells, with numbers if there is room for them; columns are in the order of rows."""

    def cell(value: float) -> Text:
        number = f"{value:.2f}" if math.isfinite(value) else "·"
        # A character that is darker for larger numbers is for terminals without colours.
        shade = number if number == "·" else " ░▒▓█"[round(4 * abs(value) / heat_map.largest)] * 2
        style = (
            f"{'white' if heat_map.is_dark(value) else 'black'} on rgb({','.join(map(str, heat_map.colour(value)))})"
        )
        return Text(f"{number:^7}" if numbered else f"{shade:2}", style=style)

    longest = max(map(len, heat_map.rows))
    numbered = longest + 1 + sum(max(len(label) + 2, 7) for label in heat_map.columns) <= width
    columns = (Column(Text(f" {label} "), justify="center", no_wrap=True) for label in heat_map.columns)
    table = Table(Column("", no_wrap=True), *columns, show_header=numbered, box=None, padding=0)
    for label, row in zip(heat_map.rows, heat_map.values, strict=True):
        table.add_row(Text(f"{label} "), *map(cell, row))
    return table
