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


def test_marked_cells_stand_out_in_rich_and_html():
    from rich.console import Console

    grid = Grid("t", ("token", "N", "V"), (("狗", "● 1", "0"),), frozenset({(0, 1)}))
    console = Console(width=60, record=True, file=io.StringIO(), force_terminal=True)
    console.print(grid.to_rich())
    assert "\x1b[1;32m● 1\x1b[0m" in console.export_text(styles=True)
    assert grid.to_html().count("font-weight:bold") == 1
    assert grid.to_text().splitlines() == [
        "t",
        "",
        "| token |   N |   V |",
        "| :---- | --: | --: |",
        "| 狗    | ● 1 |   0 |",
    ]


def test_cells_that_would_break_a_line_are_spelled_out() -> None:
    grid = Grid("t", ("token", "n"), (("x\ny", "1"), ("\x1b[31m", "2"), ("你 好", "3")))
    lines = grid.to_markdown().split("\n")
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["x\\ny", "\\x1b[31m", "你 好"]


def test_only_marked_cells_are_marked_in_html() -> None:
    html = Grid("t", ("token", "a", "b"), (("x", "1", "2"), ("y", "3", "4")), frozenset({(0, 1), (1, 2)})).to_html()
    assert [cell.split(">")[1].split("<")[0] for cell in html.split("<td")[1:] if "bold" in cell] == ["1", "4"]
