"""Writes what base/unicode.h looks up, from the tables of the Python that builds: ``python unicode_tables.py OUT``.

The limited API has no functions for the properties of characters. A character's block of 256 has a number, and blocks
that are alike share their rows.
"""

import sys
from pathlib import Path

BLOCK = 256
UPPER, ALPHA, DECIMAL = 1, 2, 4


def properties(code: int) -> tuple[int, int]:
    """Flags, and how far its lower case form is away."""
    character = chr(code)
    upper = character.isupper() or character.istitle()
    flags = UPPER * upper + ALPHA * character.isalpha() + DECIMAL * character.isdecimal()
    return flags, ord(character.lower()[0]) - code


def main(out: Path) -> None:
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    blocks = []
    for first in range(0, sys.maxunicode + 1, BLOCK):
        rows = tuple(properties(code) for code in range(first, first + BLOCK))
        blocks.append(numbers.setdefault(rows, len(numbers)))
    rows = [row for block in numbers for row in block]
    lines = [
        f"constexpr uint16_t kBlocks[] = {{{','.join(map(str, blocks))}}};",
        f"constexpr uint8_t kFlags[] = {{{','.join(str(flags) for flags, _ in rows)}}};",
        f"constexpr int32_t kToLower[] = {{{','.join(str(lower) for _, lower in rows)}}};",
    ]
    out.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
