"""``trellis inspect``: what is inside a model."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import trellis
from trellis.cli import _heatmap
from trellis.cli._console import Output
from trellis.errors import number_of
from trellis.metrics.report import percent
from trellis.models import CRF, Tagger, folder
from trellis.models.crf.features_view import WeightedFeature
from trellis.training import History

_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST = 60  # steps drawn of a history


def inspect(
    model: Annotated[str, typer.Argument(metavar="DIR", help="Model folder or file.")],
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
    heat_map = _heatmap.transitions(tagger)
    record, history = folder.read_record(model), folder.read_history(model)
    features = _features(tagger, top, label)
    if as_json:
        typer.echo(json.dumps(_as_dict(tagger, heat_map, features, record), ensure_ascii=False, indent=2))
    else:
        _print(tagger, heat_map, features, record, history)
    if plot is not None:
        if heat_map is None:
            raise trellis.errors.ModelError("--plot: the states of this model have no names, so there is no table")
        _heatmap.save(heat_map, plot)
        typer.echo(f"transitions drawn to {plot}", err=True)


def _features(tagger: Tagger[Any], top: int, label: str | None) -> dict[str, list[tuple[str, float]]]:
    """The features with the largest weights of each label, if the family has features."""
    if not isinstance(tagger, CRF) or top == 0:
        return {}
    labels = tagger.labels_ if label is None else [label]
    return {own: [(_name(f, own), f.weight) for f in tagger.top_features(own, top).features] for own in labels}


def _name(feature: WeightedFeature, label: str) -> str:
    """The feature, with the finer label that the model has learned it for and with the label before it, if any."""
    finer = "" if feature.label == label else f" as {feature.label}"
    return f"{feature.name}{finer}" + ("" if feature.previous is None else f" after {feature.previous}")


def _as_dict(
    tagger: Tagger[Any],
    heat_map: _heatmap.HeatMap | None,
    features: dict[str, list[tuple[str, float]]],
    record: dict[str, Any],
) -> dict[str, Any]:
    rows = None if heat_map is None else [[v if v > float("-inf") else None for v in row] for row in heat_map.values]
    return {
        "kind": tagger.kind,
        "settings": trellis.config.to_dict(tagger.settings_),
        "labels": list(tagger.labels_),
        "states": list(_heatmap.state_names(tagger)),
        "scheme": _scheme(tagger),
        "tokenizer": str(tagger.tokenizer_),
        "lexicon": None if tagger.lexicon_ is None else len(tagger.lexicon_),
        "transitions": rows,
        "features": features,
        "training": record,
    }


def _scheme(tagger: Tagger[Any]) -> str:
    return tagger.tagset_.scheme.value


def _print(
    tagger: Tagger[Any],
    heat_map: _heatmap.HeatMap | None,
    features: dict[str, list[tuple[str, float]]],
    record: dict[str, Any],
    history: History | None,
) -> None:
    console = Output(highlight=False)
    console.print(f"[bold]{escape(repr(tagger))}[/bold]")
    console.print(f"scheme {_scheme(tagger)}, raw text is split into {tagger.tokenizer_}", soft_wrap=True)
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
