"""The code on the pages of the documentation: where it stands, and what it prints."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r'^```(?P<language>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
OUTPUT = "output"
"""The title of a block of text that holds what the code above it prints, since the last such block."""


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


def prose(page: Path) -> Iterator[str]:
    """The lines of a page outside its blocks."""
    yield from FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
