"""``trellis init``: the settings of a model, explained."""

from __future__ import annotations

import typer

from trellis import config
from trellis.cli.options import Settings


def init(settings: Settings) -> None:
    """Print all settings of a model as TOML, each with its explanation.

    Change what you like and give the file to [bold]trellis train --config[/bold].

    \b
    Examples:
      trellis init --model crf > crf.toml
      trellis init --model crf --task seg --set c2=0.5
      trellis init --model bilstm-crf --set training.epochs=20 > ner.toml
    """  # noqa: D301 - \b tells click to keep the lines
    text = config.to_toml(settings.settled(settings.task))
    typer.echo(f"# trellis train --model {settings.model} --config THIS_FILE --train ... --dev ... --out ...\n")
    typer.echo(text, nl=False)
