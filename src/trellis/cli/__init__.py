"""The ``trellis`` command: one file per subcommand, argument parsing and printing only.

Only the command line installs handlers of signals: to the library a signal is a `KeyboardInterrupt`, which its training
loops answer with what they have learned so far. Exit codes: 0; 1 for errors of data or model; 2 for usage; 130 after
Ctrl-C, and of `train` 143 after SIGTERM. Errors are one paragraph on standard error, with a traceback only under
``--debug``.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import importlib
import os
import shlex
import shutil
import signal
import sys
import threading
import traceback
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from trellis import __version__
from trellis.errors import ConfigError, TrellisError

if TYPE_CHECKING:
    from trellis.training import LiveLine, Step

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
_LONGEST_PROBLEM = 4000
HELP = {"help_option_names": ["--help", "-h"]}
_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")

# By name: the module, with the name of the function if that is another, and the line that `trellis --help` shows.
COMMANDS = {
    "demo": ("demo", "See what Trellis does, in the terminal."),
    "init": ("train:init", "Print the settings of a model, explained, as TOML."),
    "train": ("train", "Train a tagger of any family on your files."),
    "tag": ("tag", "Tag raw text, tokens, CoNLL or JSON Lines with a trained model."),
    "eval": ("evaluate", "Score a trained model on a file with the right tags."),
    "inspect": ("inspect", "Look into a model: labels, weights, and how it was trained."),
    "explain": ("explain", "Why each label of a text: its paths, and what decided."),
    "select": ("select", "Choose sentences of a pool that are worth labelling."),
    "serve": ("serve", "Serve models over HTTP, with a page to try them."),
    "check": ("check", "Check files before training: labels, tag scheme, duplicates."),
    "convert": ("convert", "Convert a corpus to another format, another tag scheme, or both."),
    "export": ("export", "Write a model as an ONNX file for other programs."),
    "score": ("score", "Score predicted tags against gold tags."),
}


class QuickParameters:
    """A command that converts with pydantic only what needs it: not texts, defaults, and what is not given.

    Typer from 0.29 on converts every value with pydantic; to import that takes a seventh of the time that
    ``trellis tag`` takes to start.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, the option for help among them."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            wanted = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
            if wanted is not None and not isinstance(parameter.process_value, functools.partial):
                parameter.process_value = functools.partial(_processed, parameter, wanted, parameter.process_value)
        return parameters


def _processed(parameter: Any, wanted: Any, convert: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    several = parameter.multiple or parameter.nargs != 1
    texts = several and wanted == list[str] and value and all(type(one) is str for one in value)
    if not (texts or type(value) is wanted or (value is None and not parameter.required)):
        return convert(context, value)
    value = list(value) if texts else () if several and value is None else value
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


class QuickCommand(QuickParameters, TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; an option that is a setting of models, such as --epochs, is told what to write."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)  # click's error is not public in typer
            if option is not None and any(parameter.name == "set" for parameter in self.params):
                importlib.import_module("trellis.cli.options").suggest_setting(option, words)
            raise


class LazyGroup(QuickParameters, TyperGroup):
    """The command that the others belong to; each of these is imported when it is asked for by name."""

    def __init__(self, **attributes: Any) -> None:
        """Know the names, from which typer suggests one for a mistyped command."""
        super().__init__(**attributes)
        self.commands: Any = dict.fromkeys(COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command with all its options."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        # The garbage collector leaves what is imported alone: it stays, and to look at it takes 30 ms.
        gc.disable()
        try:
            function = getattr(importlib.import_module(f"trellis.cli.{module}"), name or module)
        finally:
            gc.freeze()
            gc.enable()
        command = typer.Typer(rich_markup_mode="rich", add_completion=False, context_settings=HELP)
        command.command(cmd_name, cls=QuickCommand)(_runnable(function))
        return typer.main.get_command(command)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


def _runnable(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it, with the fields of its option dataclasses as parameters.

    It ends cleanly at Ctrl-C, and if the reader of its output goes away, as ``head`` does.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name not in groups:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))
            continue
        types = typing.get_type_hints(groups[parameter.name], include_extras=True)
        for field in dataclasses.fields(groups[parameter.name]):
            default = Parameter.empty if field.default is dataclasses.MISSING else field.default
            options = {"default": default, "annotation": types[field.name]}
            parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, **options))

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
        try:
            command(**values)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still buffered goes nowhere, without a complaint at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            typer.echo("trellis: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    run.__doc__ = command.__doc__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


app = typer.Typer(
    name="trellis",
    cls=LazyGroup,
    help="Exact, fast sequence labelling.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP,
    rich_markup_mode=None,  # the list of commands is plain text: importing rich's help takes as long as all the rest
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trellis {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show a traceback if there is an error."),
) -> None:
    """Exact, fast sequence labelling."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; always ends in `SystemExit`."""
    wait_asleep()
    words = sys.argv[1:] if arguments is None else arguments
    # --debug may stand anywhere before --.
    end = words.index("--") if "--" in words else len(words)
    debug = "--debug" in words[:end]
    words = [*(word for word in words[:end] if word != "--debug"), *words[end:]]
    if sys.stdout is None or sys.stderr is None:  # closed by the shell: >&-
        _fail("standard output and standard error must be open", debug)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # words may contain what the terminal, or UTF-8, cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app(words, prog_name="trellis", obj=words)
    except (TrellisError, OSError) as error:
        problem = str(error)
        if isinstance(error, OSError) and error.strerror is not None:
            problem = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        # Settings come from the command line, or from a file it names: that is usage.
        _fail(problem, debug, code=2 if isinstance(error, ConfigError) else 1)
    except Exception as error:
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error)):
            _fail("out of memory", debug)  # the second is torch's way to say it
        problem = f"{type(error).__name__}: {error}"
        _fail(f"unexpected {problem}\nThis is a mistake in Trellis; --debug shows where it happened.", debug)
    sys.exit(0)


def program() -> str:
    """How this program is called from this shell: by its name if that is on the path, otherwise as it was called."""
    called = sys.argv[0]
    known = shutil.which("trellis")
    if Path(called).stem != "trellis" or (known is not None and os.path.samefile(known, called)):
        return "trellis"
    return shlex.quote(called)


def wait_asleep() -> None:
    """Let torch's threads that wait at a barrier sleep after microseconds, unless the environment says otherwise.

    OpenMP lets them watch for milliseconds. On a quiet machine that saves the time of waking up. Beside other programs
    it keeps a core from the very thread that is waited for, and training slows down to a fraction of its share.
    """
    if not any(name in os.environ for name in _WAITING):
        os.environ["GOMP_SPINCOUNT"] = "2000"  # rounds; GNU's runtime, which torch has on Linux
        os.environ["KMP_BLOCKTIME"] = "0"  # milliseconds; Intel's and LLVM's


def _show_warning(message: Any, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
    """Show a warning of Trellis in one line, without the place in the code that it comes from."""
    is_ours = category.__module__.partition(".")[0] == "trellis"
    text = f"trellis: {message}" if is_ours else warnings.formatwarning(message, category, filename, lineno)
    typer.echo(text, err=True)


def _fail(problem: str, debug: bool, *, code: int = 1) -> NoReturn:
    if debug:
        traceback.print_exc()
    shown = problem if len(problem) <= _LONGEST_PROBLEM else f"{problem[:_LONGEST_PROBLEM]}…"
    typer.echo(f"trellis: {shown}", err=True)
    sys.exit(code)


class Stop:
    def __init__(self) -> None:
        self._signal: int | None = None
        self._deferred = False

    @property
    def code(self) -> int:
        """The exit code after an interruption: 128 and the number of the signal, as shells count."""
        return INTERRUPTED if self._signal is None else 128 + self._signal

    @property
    def was_asked(self) -> bool:
        return self._signal is not None

    def hear(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        if not self._deferred:
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only remember signals within the block, which must not be cut short."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False


class StoppableLine:
    """The live line, which also stops a training if Python could not: it drops what is raised in a finalizer."""

    def __init__(self, line: LiveLine, stop: Stop) -> None:
        self._line, self._stop, self.every = line, stop, line.every

    def __call__(self, step: Step) -> None:
        self._line(step)
        if self._stop.was_asked:
            raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Handle signals within the block; one that gets through it ends the command."""
    stop = Stop()
    # Python delivers signals to the main thread only.
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    handlers = {number: signal.signal(number, stop.hear) for number in signals}
    try:
        yield stop
    except KeyboardInterrupt:
        typer.echo("trellis: interrupted", err=True)
        raise typer.Exit(stop.code) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
