"""Commands whose modules are imported only when they run, so that ``trellis --help`` is quick."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def lazy_command(name: str, module: str, function: str) -> type[TyperCommand]:
    """A command class that stands for ``module.function`` in lists, and becomes it once it is called."""

    class LazyCommand(TyperCommand):
        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            return real_command(name, module, function).make_context(info_name, args, parent, **extra)

    return LazyCommand


def real_command(name: str, module: str, function: str) -> Any:
    """The command itself, with all its options."""
    app = typer.Typer(rich_markup_mode="rich", add_completion=False)
    app.command(name)(_until_closed(getattr(importlib.import_module(module), function)))
    return typer.main.get_command(app)


def _until_closed(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which ends cleanly if the reader of its output goes away, as ``head`` does, and at Ctrl-C."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still buffered goes nowhere, without a complaint at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            typer.echo("trellis: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run
