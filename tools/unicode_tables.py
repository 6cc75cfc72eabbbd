"""The properties of characters that native code knows: ``python -m tools.unicode_tables`` writes `PLACE`.

The file is part of the tree, so that what a model reads of a text depends neither on the Python that built the package
nor on the one that runs it. To move to a newer Unicode, run this with a Python that has it.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

PLACE = Path(__file__).parents[1] / "native" / "base" / "unicode_runs.inc"
UPPER, ALPHA, DECIMAL = 1, 2, 4
WIDTH = 120


def properties(code: int) -> tuple[int, int]:
    """Flags, and how far the lower case form (its first character) is away."""
    character = chr(code)
    upper = character.isupper() or character.istitle()
    flags = UPPER * upper + ALPHA * character.isalpha() + DECIMAL * character.isdecimal()
    return flags, ord(character.lower()[0]) - code


def table(version: str, properties: Callable[[int], tuple[int, int]]) -> str:
    """C++ source: the version of Unicode, and runs {first, last, flags, lower} of characters that are alike."""
    runs: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        found = properties(code)
        if found == (0, 0):
            continue
        if runs and runs[-1][1] == code - 1 and tuple(runs[-1][2:]) == found:
            runs[-1][1] = code
        else:
            runs.append([code, code, *found])
    lines = [
        "// Written by tools/unicode_tables.py.",
        f'constexpr const char* kUnicodeVersion = "{version}";',
        "constexpr Run kRuns[] = {",
    ]
    line = "   "
    for run in runs:
        item = f" {{{','.join(map(str, run))}}},"
        if len(line) + len(item) > WIDTH:
            lines.append(line)
            line = "   "
        line += item
    return "\n".join([*lines, line, "};"]) + "\n"


if __name__ == "__main__":
    PLACE.write_text(table(unicodedata.unidata_version, properties), encoding="ascii")
