"""Lines of cells, for the two CoNLL formats: columns out of lines, and lines out of columns."""

from __future__ import annotations

from collections.abc import Sequence

from trellis.corpus._errors import refuse
from trellis.errors import shown
from trellis.text import Sentence

_NO_MARKS = bytes(set(range(256)) - set(b"\t\n"))


class Table:
    """Splits lines of `width` cells, separated by single tabs, all lines of a sentence at once."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._line = b"\t" * (width - 1) + b"\n"

    def columns(self, text: str) -> list[list[str]] | None:
        """The cells of each column; None if a line has more or fewer.

        The tabs and newlines of the text alone must spell so many equal lines: one comparison for all.
        """
        marks = text.encode().translate(None, _NO_MARKS)
        if marks != (self._line * (marks.count(b"\n") + 1))[:-1]:
            return None
        cells = text.replace("\n", "\t").split("\t")
        return [cells[column :: self.width] for column in range(self.width)]


class Interned:
    """One string for all equal cells, so that a corpus in memory does not hold each tag a million times.

    What is kept is bounded by the text it came from: cells may be few and long.
    """

    def __init__(self, largest: int = 1 << 24) -> None:
        self._cells: dict[str, str] = {}
        self._largest = largest
        self._passed = 0

    def begin(self, text: str) -> None:
        """Say which text the next cells come from."""
        self._passed += len(text)
        if self._passed > self._largest:
            self._cells, self._passed = {}, len(text)

    def __call__(self, cells: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self._cells.setdefault, cells, cells))


def format_rows(sentence: Sentence, columns: Sequence[Sequence[str]], separator: str) -> str:
    """The lines of a sentence and a blank one, sure to be read back as the same cells."""
    if not len(sentence):
        refuse(sentence, "a sentence without tokens cannot be written as lines of columns")
    # A single column has no tab to show that a space does not separate.
    forbidden = {separator, "\n", "\r", " " if len(columns) == 1 else separator}
    for column in columns:
        if "" in column or not forbidden.isdisjoint("".join(column)):
            cell = next(cell for cell in column if not cell or not forbidden.isdisjoint(cell))
            refuse(sentence, f"{shown(cell)} cannot be a column: it is empty or holds a separator")
    return "\n".join(separator.join(row) for row in zip(*columns, strict=True)) + "\n\n"
