"""The code on the pages of the documentation: where it stands, and what it prints."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r'^```(?P<language>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
OUTPUT = "output"
"""The title of a block of text that holds what the code above it prints, since the last such block."""
_DECIMAL = re.compile(r"-?\d+\.(\d+)(?:e([-+]\d+))?")
_TRAINING = {"fit", "train", "parameters", "load", "cross_val_score"}
"""What is called to train a model, to hand its weights to an optimizer, or to read one that was trained."""


class Snippet(NamedTuple):
    """A block of code in a page, and the line it begins at."""

    language: str
    file: str | None
    text: str
    line: int


def snippets(page: Path, *languages: str) -> list[Snippet]:
    """The blocks of a page in these languages, in order."""
    text = page.read_text(encoding="utf-8")
    found = [match for match in FENCE.finditer(text) if match["language"] in languages]
    return [Snippet(m["language"], m["file"], m["text"], text.count("\n", 0, m.start("text"))) for m in found]


def run(snippet: Snippet, page: str, names: dict[str, Any]) -> str:
    """Run a block of Python with what the blocks before it have defined; returns what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * snippet.line + snippet.text, page, "exec"), names)
    return printed.getvalue()


def uses_training(snippet: Snippet, trained: set[str]) -> bool:
    """Whether a block of Python trains, or uses one of the names that hold what was trained; its own join these."""
    found = False
    for statement in ast.parse(snippet.text).body:
        nodes = list(ast.walk(statement))
        calls = {node.func for node in nodes if isinstance(node, ast.Call)}
        methods = [call for call in calls if isinstance(call, ast.Attribute) and call.attr in _TRAINING]
        names = [node for node in nodes if isinstance(node, ast.Name)]
        if methods or any(name.id in trained or (name in calls and name.id in _TRAINING) for name in names):
            found = True
            trained |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
            trained |= {statement.name} if isinstance(statement, ast.FunctionDef | ast.ClassDef) else set()
            objects = [method.value for method in methods if method.attr != "load"]  # model.fit, not trellis.load
            trained |= {name.id for name in objects if isinstance(name, ast.Name) and name.id.islower()}
    return found


def alike(printed: str, shown: str) -> bool:
    """Whether two texts are the same, but for the last digit of decimals, which may be up to two away.

    A processor with wider vectors adds in another order: what it trains is the same to some digits only.
    """
    pairs = zip(_DECIMAL.finditer(printed), _DECIMAL.finditer(shown), strict=False)
    close = all(
        abs(float(ours[0]) - float(theirs[0])) <= 2.01 * min(_unit(ours), _unit(theirs)) for ours, theirs in pairs
    )
    return close and _DECIMAL.split(printed)[::3] == _DECIMAL.split(shown)[::3]


def _unit(decimal: re.Match[str]) -> float:
    """One unit of the last digit that is written."""
    return float(10.0 ** (int(decimal[2] or 0) - len(decimal[1])))


def prose(page: Path) -> Iterator[str]:
    """The lines of a page outside its blocks."""
    yield from FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
