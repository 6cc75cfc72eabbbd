"""Hostile JSON is one kind of problem, whatever Python makes of it."""

import pytest

from trellis.untrusted import JSONSyntaxError, parse_json, parse_json_prefix


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
