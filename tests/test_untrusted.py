"""Hostile JSON is one kind of problem, whatever Python makes of it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from trellis.errors import DataError, StoreError
from trellis.untrusted import Fields, JSONSyntaxError, parse_json, parse_json_prefix


def test_good_json_is_read() -> None:
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]}
    assert parse_json(b'"\xc3\xa9"') == "\u00e9"
    assert parse_json_prefix('xx {"a": 1}, 2', 3) == ({"a": 1}, 11)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("9" * 5000, "a number has more than 4300 digits"),
        (b'"\xff"', "byte 1 is not UTF-8"),
    ],
)
def test_bad_json_is_one_problem_with_a_reason(text: str | bytes, reason: str) -> None:
    with pytest.raises(JSONSyntaxError, match=reason):
        parse_json(text)
    if isinstance(text, str):
        with pytest.raises(JSONSyntaxError, match=reason):
            parse_json_prefix(text, 0)


class TestFields:
    FIELDS = Fields({"text": "a", "number": 3, "flag": True, "null": None, "list": ["a", 1], "table": {}}, "file")

    def test_fields_of_the_right_type_are_given(self) -> None:
        fields = self.FIELDS
        assert fields.text("text") == "a"
        assert fields.integer("number", 0, 3) == 3
        assert fields.choice("text", ["a", "b"]) == "a"
        assert fields.value("flag", bool, int) is True
        assert fields.items("list", str, int) == ["a", 1]
        assert fields.table("table").values == {}
        assert fields.optional_table("null") is None
        assert "text" in fields
        assert "none" not in fields

    @pytest.mark.parametrize(
        ("ask", "problem"),
        [
            (lambda f: f.text("none"), "file lacks the field 'none': expected a string"),
            (lambda f: f.text("number"), "file: the field 'number' must be a string, got a whole number (3)"),
            (
                lambda f: f.integer("flag", 0, 9),
                "file: the field 'flag' must be a whole number, got true or false (True)",
            ),
            (lambda f: f.integer("number", 4, 9), "file: the field 'number' must be in 4..9, got 3"),
            (
                lambda f: f.value("null", int, str),
                "file: the field 'null' must be a whole number or a string, got null",
            ),
            (lambda f: f.choice("text", ["b", "c"]), "file: the field 'text' must be one of 'b', 'c', got 'a'"),
            (lambda f: f.texts("list"), "file: item 1 of the field 'list' must be a string, got a whole number (1)"),
            (
                lambda f: f.integers("list", 0, 1),
                "file: item 0 of the field 'list' must be a whole number, got a string",
            ),
            (lambda f: f.table("list"), "file: the field 'list' must be an object, got a list"),
            (lambda f: f.optional_table("text"), "file: the field 'text' must be an object or null, got a string"),
            (lambda f: f.table("table").text("x"), "file: the field 'table' lacks the field 'x': expected a string"),
        ],
    )
    def test_others_are_an_error_that_says_which_and_what(self, ask: Callable[[Fields], Any], problem: str) -> None:
        with pytest.raises(StoreError, match=re.escape(problem)):
            ask(self.FIELDS)

    def test_what_is_no_object_is_an_error_of_the_kind_asked_for(self) -> None:
        with pytest.raises(DataError, match="row 3 must be an object, got a list"):
            Fields([], "row 3", DataError)
