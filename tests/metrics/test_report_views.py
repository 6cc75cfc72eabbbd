"""Reports as HTML and as records."""

from trellis.metrics import Grid, entity_errors, entity_scores

GOLD, PREDICTED = [["B-PER", "O", "B-<b>"]], [["B-PER", "O", "O"]]


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
