"""How results are shown: every result is a frozen dataclass that can become a dict or a table.

A result describes its table once, as a :class:`Grid` of text cells; Markdown, rich, HTML for notebooks and pandas are
ways to draw it. The library itself prints nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, is_dataclass
from html import escape as escape_html
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from trellis.errors import required

if TYPE_CHECKING:
    from rich.table import Table

_MARKED = ";font-weight:bold;background:rgba(70,170,90,.25)"


@dataclass(frozen=True)
class Grid:
    """A table of text: the first column holds names (the first few if `names` says so), the others hold figures.

    `marked` are the cells (row, column) that stand out where there are colours; their text says it as well.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[tuple[int, int]] = frozenset()
    names: int = 1

    def to_markdown(self) -> str:
        """A GitHub-flavoured Markdown table, aligned in plain text as well."""
        cells = [[_one_line(cell).replace("|", r"\|") for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(3, *(_cells(row[i]) for row in cells)) for i in range(len(self.columns))]
        lines = [_markdown_row(row, widths, self.names) for row in cells]
        dashes = ["-" * (width - 1) for width in widths]
        rule = [f":{dash}" if column < self.names else f"{dash}:" for column, dash in enumerate(dashes)]
        return "\n".join([lines[0], _markdown_row(rule, widths, self.names), *lines[1:]])

    def to_text(self) -> str:
        """The title above the table, as plain text; the table is Markdown."""
        return f"{self.title}\n\n{self.to_markdown()}"

    def to_rich(self) -> Table:
        """A table for a rich console."""
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=self.title, title_justify="left")
        for index, name in enumerate(self.columns):
            table.add_column(escape(name), justify="left" if index < self.names else "right")
        for number, row in enumerate(self.rows):
            cells = ((escape(cell), (number, column) in self.marked) for column, cell in enumerate(row))
            table.add_row(*(f"[bold green]{cell}[/]" if marked else cell for cell, marked in cells))
        return table

    def to_html(self) -> str:
        """A table for notebooks, with the names on the left and the figures on the right of their cells."""
        head = _html_row("th", self.columns, self.names)
        marked: dict[int, set[int]] = defaultdict(set)
        for number, column in self.marked:
            marked[number].add(column)
        rows = (_html_row("td", row, self.names, marked[number]) for number, row in enumerate(self.rows))
        title = f"<caption style='text-align:left'>{escape_html(self.title)}</caption>"
        return f"<table>{title}<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per row; figures become numbers, empty cells None."""
        return [dict(zip(self.columns, map(_value, row), strict=True)) for row in self.rows]


def _one_line(cell: str) -> str:
    """A cell whose text ends lines or moves the cursor would break the table: control characters are spelled out."""
    return cell if cell.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in cell)


def _html_row(tag: str, cells: tuple[str, ...], names: int, marked: Set[int] = frozenset()) -> str:
    sides = ("left" if column < names else "right" for column in range(len(cells)))
    styles = (f"text-align:{side}{_MARKED if column in marked else ''}" for column, side in enumerate(sides))
    parts = (f'<{tag} style="{style}">{escape_html(cell)}</{tag}>' for style, cell in zip(styles, cells, strict=True))
    return f"<tr>{''.join(parts)}</tr>"


def _value(cell: str) -> str | int | float | None:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None


def _markdown_row(cells: list[str], widths: list[int], names: int) -> str:
    gaps = [" " * (width - _cells(cell)) for cell, width in zip(cells, widths, strict=True)]
    pairs = enumerate(zip(cells, gaps, strict=True))
    return "| " + " | ".join(cell + gap if column < names else gap + cell for column, (cell, gap) in pairs) + " |"


def _cells(text: str) -> int:
    """Columns of a terminal that a text takes: Chinese characters take two, combining ones none."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


class Report(ABC):
    """A result that can be shown; subclasses are frozen dataclasses."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:  # the one that dataclasses make is a wall of numbers
            cls.__repr__ = Report.__str__  # type: ignore[assignment]

    @abstractmethod
    def grid(self) -> Grid:
        """The table of this result."""

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, ready for JSON."""
        assert is_dataclass(self)
        return asdict(self)

    def to_markdown(self) -> str:
        """The table in Markdown."""
        return self.grid().to_markdown()

    def to_rich(self) -> Table:
        """The table for a rich console."""
        return self.grid().to_rich()

    def to_records(self) -> list[dict[str, Any]]:
        """The rows of the table as dicts, with numbers as they are shown."""
        return self.grid().to_records()

    def to_pandas(self) -> Any:
        """The rows of the table as a `pandas.DataFrame`."""
        grid = self.grid()
        return data_frame(self.to_records(), grid.columns)

    def _repr_html_(self) -> str:
        return self.grid().to_html()

    def __str__(self) -> str:
        return self.grid().to_text()

    def __rich__(self) -> Table:
        return self.to_rich()


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """A `pandas.DataFrame` with one row per mapping; `columns` are its names if there is no row."""
    with required("to_pandas", "pandas", instead="to_records gives a list of dicts"):
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
    return pandas.DataFrame(list(rows), columns=None if rows or columns is None else list(columns))
