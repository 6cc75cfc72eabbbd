"""The ``trellis`` command: one file per subcommand, argument parsing and printing only.

Exit codes: 0; 1 for errors of data or model; 2 for usage; 130 after Ctrl-C, and of `train` 143 after
SIGTERM. Errors are one paragraph on standard error, with a traceback only under ``--debug``.
"""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from typing import NoReturn, TextIO

import typer

from trellis import __version__
from trellis.cli._lazy import QuickGroup, lazy_command
from trellis.cli._threads import wait_asleep
from trellis.errors import ConfigError, TrellisError

_LONGEST_PROBLEM = 4000

# Name, module, function, and the line that `trellis --help` shows.
_COMMANDS = (
    ("demo", "demo", "demo", "See what Trellis does, in the terminal."),
    ("init", "init", "init", "Print the settings of a model, explained, as TOML."),
    ("train", "train", "train", "Train a tagger of any family on your files."),
    ("tag", "tag", "tag", "Tag raw text, tokens, CoNLL or JSON Lines with a trained model."),
    ("eval", "evaluate", "evaluate", "Score a trained model on a file with the right tags."),
    ("inspect", "inspect", "inspect", "Look into a model: labels, weights, and how it was trained."),
    ("explain", "explain", "explain", "Why each label of a text: its paths, and what decided."),
    ("select", "select", "select_sentences", "Choose sentences of a pool that are worth labelling."),
    ("serve", "serve", "serve", "Serve models over HTTP, with a page to try them."),
    ("check", "check", "check", "Check files before training: labels, tag scheme, duplicates."),
    ("convert", "convert", "convert", "Convert a corpus to another format, another tag scheme, or both."),
    ("export", "export", "export", "Write a model as an ONNX file for other programs."),
    ("score", "score", "score", "Score predicted tags against gold tags."),
)

app = typer.Typer(
    name="trellis",
    cls=QuickGroup,
    help="Exact, fast sequence labelling.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the list of commands is plain text: importing rich's help takes as long as all the rest
)


def _stand_in() -> None:
    raise AssertionError("the command itself is called in place of this one")


for _name, _module, _function, _about in _COMMANDS:
    _class = lazy_command(_name, f"trellis.cli.{_module}", _function)
    app.command(_name, cls=_class, help=_about)(_stand_in)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trellis {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show a traceback if there is an error."),
) -> None:
    """Exact, fast sequence labelling."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; always ends in `SystemExit`."""
    wait_asleep()
    given = sys.argv[1:] if arguments is None else arguments
    given, debug = _without_debug(given)
    if sys.stdout is None or sys.stderr is None:  # closed by the shell: >&-
        _fail("standard output and standard error must be open", debug)
    _accept_any_text(sys.stdout, sys.stderr)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app(given, prog_name="trellis", obj=given)
    except ConfigError as error:  # settings come from the command line, or from a file it names: usage
        _fail(_described(error), debug, code=2)
    except (TrellisError, OSError) as error:
        _fail(_described(error), debug)
    except MemoryError:
        _fail("out of memory", debug)
    except Exception as error:
        if isinstance(error, RuntimeError) and "allocate memory" in str(error):  # torch's way to say it
            _fail("out of memory", debug)
        problem = f"{type(error).__name__}: {error}"
        _fail(f"unexpected {problem}\nThis is a mistake in Trellis; --debug shows where it happened.", debug)
    sys.exit(0)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of Trellis in one line, without the place in the code that says so."""
    own = category.__module__.partition(".")[0] == "trellis"
    typer.echo(f"trellis: {message}" if own else warnings.formatwarning(message, category, filename, lineno), err=True)


def _accept_any_text(*streams: TextIO) -> None:
    """Words and file names may contain what the terminal, or UTF-8, cannot show: it is escaped."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _without_debug(given: list[str]) -> tuple[list[str], bool]:
    """The arguments without ``--debug``, which may stand anywhere before ``--``."""
    end = given.index("--") if "--" in given else len(given)
    kept = [argument for argument in given[:end] if argument != "--debug"]
    return [*kept, *given[end:]], len(kept) < end


def _described(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)


def _fail(problem: str, debug: bool, *, code: int = 1) -> NoReturn:
    if debug:
        traceback.print_exc()
    shown = problem if len(problem) <= _LONGEST_PROBLEM else f"{problem[:_LONGEST_PROBLEM]}…"
    typer.echo(f"trellis: {shown}", err=True)
    sys.exit(code)
