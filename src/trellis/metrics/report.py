"""How results are shown: every result is a frozen dataclass that can become a dict or a table.

A result describes its table once, as a :class:`Grid` of text cells; Markdown, rich, HTML for notebooks and pandas are
ways to draw it. The library itself prints nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, is_dataclass
from html import escape as escape_html
from typing import TYPE_CHECKING, Any

from trellis.frames import data_frame

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Grid:
    """A table of text: the first column holds names, the others hold figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_markdown(self) -> str:
        """A GitHub-flavoured Markdown table, aligned in plain text as well."""
        cells = [[cell.replace("|", r"\|") for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(self.columns))]
        lines = [_markdown_row(row, widths) for row in cells]
        rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
        return "\n".join([lines[0], _markdown_row(rule, widths), *lines[1:]])

    def to_rich(self) -> Table:
        """A table for a rich console."""
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=self.title, title_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="left" if index == 0 else "right")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def to_html(self) -> str:
        """A table for notebooks, with the names on the left and the figures on the right of their cells."""
        head = _html_row("th", self.columns)
        body = "".join(_html_row("td", row) for row in self.rows)
        title = f"<caption style='text-align:left'>{escape_html(self.title)}</caption>"
        return f"<table>{title}<thead>{head}</thead><tbody>{body}</tbody></table>"

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per row; figures become numbers, empty cells None."""
        return [dict(zip(self.columns, map(_value, row), strict=True)) for row in self.rows]


def _html_row(tag: str, cells: tuple[str, ...]) -> str:
    sides = ("left", *(["right"] * (len(cells) - 1)))
    parts = (
        f'<{tag} style="text-align:{side}">{escape_html(cell)}</{tag}>' for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(parts)}</tr>"


def _value(cell: str) -> str | int | float | None:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None


def _markdown_row(cells: list[str], widths: list[int]) -> str:
    first = cells[0].ljust(widths[0])
    rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "| " + " | ".join([first, *rest]) + " |"


class Report(ABC):
    """A result that can be shown; subclasses are frozen dataclasses."""

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
        return data_frame(grid.to_records(), grid.columns)

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        return self.grid().to_html()

    def __rich__(self) -> Table:
        """Let ``console.print(result)`` show the table."""
        return self.to_rich()


def percent(value: float | None) -> str:
    """A share as a percentage with two decimals, the way the field's scorers print it; nothing for None."""
    return "" if value is None else f"{100 * value:.2f}"
