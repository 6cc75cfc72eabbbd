from __future__ import annotations

import io

from trellis.metrics import Grid

GRID = Grid("A title", ("name", "figure"), (("x|y", "1.00"), ("[bold]", "22.00")))


def test_markdown_is_aligned_and_escapes_bars():
    assert GRID.to_markdown() == "\n".join(
        [
            "| name   | figure |",
            "| :----- | -----: |",
            r"| x\|y   |   1.00 |",
            "| [bold] |  22.00 |",
        ]
    )


def test_rich_shows_cells_as_they_are():
    from rich.console import Console

    console = Console(width=60, record=True, file=io.StringIO())
    console.print(GRID.to_rich())
    text = console.export_text()
    assert "A title" in text
    assert "[bold]" in text
