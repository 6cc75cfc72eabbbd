"""``trellis init``: the settings of a model, explained."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis import config
from trellis.cli._settings import ModelOption, SetOption, TaskOption, start_settings


def init(
    model: ModelOption,
    task: TaskOption = None,
    set: SetOption = None,
    config_file: Annotated[
        str | None, typer.Option("--config", help="TOML file whose settings come on top of the defaults.")
    ] = None,
) -> None:
    """Print all settings of a model as TOML, each with its explanation.

    Change what you like and give the file to [bold]trellis train --config[/bold].

    \b
    Examples:
      trellis init --model crf > crf.toml
      trellis init --model crf --task seg --set c2=0.5
      trellis init --model bilstm-crf --set training.epochs=20 > ner.toml
    """  # noqa: D301 - \b tells click to keep the lines
    settings = start_settings(model, task, config_file, set or [])
    typer.echo(f"# trellis train --model {model} --config THIS_FILE --train ... --dev ... --out ...\n")
    typer.echo(config.to_toml(settings), nl=False)
