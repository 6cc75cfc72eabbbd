"""Results as tables: Markdown, rich, HTML, records and pandas, and what is said without pandas."""

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from trellis.errors import ConfigError
from trellis.metrics import Grid, entity_errors, entity_scores
from trellis.results import data_frame

GRID = Grid("A title", ("name", "figure"), (("x|y", "1.00"), ("[bold]", "22.00")))
GOLD, PREDICTED = [["B-PER", "O", "B-<b>"]], [["B-PER", "O", "O"]]


def test_markdown_is_aligned_and_escapes_bars():
    assert GRID.to_markdown() == "\n".join(
        ["| name   | figure |", "| :----- | -----: |", r"| x\|y   |   1.00 |", "| [bold] |  22.00 |"]
    )


def test_rich_shows_cells_as_they_are():
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(GRID.to_rich())
    text = console.export_text()
    assert "A title" in text
    assert "[bold]" in text


def test_marked_cells_stand_out_in_rich_and_html():
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


def test_html_escapes_names_and_has_one_row_per_row() -> None:
    html = entity_scores(GOLD, PREDICTED)._repr_html_()
    assert html.count("<tr>") == 1 + len(entity_scores(GOLD, PREDICTED).grid().rows)
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_records_have_numbers_and_none_for_empty_cells() -> None:
    grid = Grid("t", ("name", "count", "share", "rest"), (("a", "3", "50.00", ""),))
    assert grid.to_records() == [{"name": "a", "count": 3, "share": 50.0, "rest": None}]
    assert entity_scores(GOLD, PREDICTED).to_records()[0]["F1"] in (0.0, 100.0)


def test_errors_are_shown_too() -> None:
    assert "missing" in entity_errors(GOLD, PREDICTED)._repr_html_()


def test_without_pandas_the_way_around_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="to_records gives a list of dicts"):
        data_frame([{"a": 1}])


def test_rows_become_a_table_and_no_rows_keep_the_names(monkeypatch) -> None:
    pandas = SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert data_frame([{"a": 1, "b": "x"}], ["a", "b"]) == ([{"a": 1, "b": "x"}], None)
    assert data_frame([], ["a", "b"]) == ([], ["a", "b"])


def test_a_result_is_printed_as_its_table():
    scores = entity_scores([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "O"]])
    assert str(scores).startswith(scores.grid().title)
    assert str(scores).endswith(scores.to_markdown())
