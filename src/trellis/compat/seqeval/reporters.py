"""Where a report goes: into a dict, or into text in seqeval's columns."""

from __future__ import annotations

from typing import Any

_HEADINGS = ("precision", "recall", "f1-score", "support")


class DictReporter:
    """Row name -> figure name -> figure."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.report_dict: dict[str, dict[str, float]] = {}

    def write(self, row_name: str, precision: float, recall: float, f1: float, support: int) -> None:
        """Add one row; a name written twice keeps the later figures."""
        self.report_dict[row_name] = dict(zip(_HEADINGS, (precision, recall, f1, support), strict=True))

    def write_blank(self) -> None:
        """A dict has no groups."""

    def report(self) -> dict[str, dict[str, float]]:
        """The dict."""
        return self.report_dict


class StringReporter:
    """Text in columns: names ``width`` wide, figures with ``digits`` decimals."""

    def __init__(self, *args: Any, width: int = 10, digits: int = 4, **kwargs: Any) -> None:
        self.width = width
        self.digits = digits
        self.buffer: list[str] = []

    def write(self, row_name: str, precision: float, recall: float, f1: float, support: int) -> None:
        """Add one row."""
        figures = [f"{figure:.{self.digits}f}" for figure in (precision, recall, f1)]
        self.buffer.append(self._line(row_name, [*figures, str(support)]))

    def write_blank(self) -> None:
        """Add an empty line."""
        self.buffer.append("")

    def write_header(self) -> str:
        """The headings and the empty line below them."""
        return self._line("", list(_HEADINGS)) + "\n\n"

    def report(self) -> str:
        """The headings and all lines."""
        return self.write_header() + "\n".join(self.buffer)

    def _line(self, name: str, cells: list[str]) -> str:
        return f"{name:>{self.width}} " + "".join(f" {cell:>9}" for cell in cells)
