"""The ``trellis`` command: one file a subcommand, argument parsing and printing only."""

from __future__ import annotations

import sys

import typer

from trellis import __version__
from trellis.cli import check, convert, demo, score
from trellis.errors import TrellisError

app = typer.Typer(
    name="trellis",
    help="Exact, fast sequence labelling.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(demo.demo)
app.command()(check.check)
app.command()(convert.convert)
app.command()(score.score)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trellis {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Exact, fast sequence labelling."""


def main() -> None:
    """Run the command line: exit code 0, 1 for what data or model says no to, 2 for usage."""
    try:
        app()
    except TrellisError as error:
        typer.echo(f"trellis: {error}", err=True)
        sys.exit(1)
