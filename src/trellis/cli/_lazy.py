"""Commands whose modules are imported only when they run, so that ``trellis --help`` is quick."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

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
    app.command(name, cls=QuickCommand)(_until_closed(getattr(_imported(module), function)))
    return typer.main.get_command(app)


def _imported(module: str) -> ModuleType:
    """A module whose objects the garbage collector leaves alone: they stay, and to look at them takes 30 ms."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()


class QuickCommand(TyperCommand):
    """A command that converts only what needs it: see `_let_pass`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, the option for help among them."""
        return [_let_pass(parameter) for parameter in super().get_params(ctx)]


class QuickGroup(TyperGroup):
    """The same for the command that the others belong to."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, the option for help among them."""
        return [_let_pass(parameter) for parameter in super().get_params(ctx)]


def _let_pass(parameter: Any) -> Any:
    """The parameter, which lets values through that need no conversion: texts, defaults, and what is not given.

    Typer from 0.29 on converts every value with pydantic, and to import that takes a fifth of a command's start.
    """
    wanted = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if wanted is None or "process_value" in vars(parameter):
        return parameter
    convert, several = parameter.process_value, parameter.multiple or parameter.nargs != 1

    def process(context: Any, value: Any) -> Any:
        texts = several and wanted == list[str] and value and all(type(one) is str for one in value)
        if not (texts or type(value) is wanted or (value is None and not parameter.required)):
            return convert(context, value)
        kept = list(value) if texts else () if several and value is None else value
        return kept if parameter.callback is None else parameter.callback(context, parameter, kept)

    parameter.process_value = process
    return parameter


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
