"""What messages are made of: values shown short, numbers with what they count, and what was probably meant."""

from typing import Any

import pytest

from trellis.errors import did_you_mean, nearest, number_of, shown

KNOWN = ["crf", "hmm", "bilstm-crf"]


@pytest.mark.parametrize(
    ("name", "always", "found"),
    [
        ("crv", False, "crf"),
        ("bilstm_crf", False, "bilstm-crf"),
        ("tree", False, None),
        ("tree", True, "crf"),
        (7, False, None),
    ],
)
def test_the_most_similar_name_or_none(name: object, always: bool, found: str | None) -> None:
    assert nearest(name, KNOWN, always=always) == found
    assert did_you_mean(name, KNOWN, always=always) == ("" if found is None else f"; did you mean {found!r}?")


def test_where_nothing_is_known_nothing_is_suggested() -> None:
    assert did_you_mean("crf", [], always=True) == ""


def test_the_name_is_written_as_its_owner_writes_it() -> None:
    assert did_you_mean("crv", dict.fromkeys(KNOWN), show="%{}".format) == "; did you mean %crf?"


def test_one_is_singular_and_thousands_have_commas():
    assert [number_of(count, "token") for count in (0, 1, 2, 12_345)] == [
        "0 tokens",
        "1 token",
        "2 tokens",
        "12,345 tokens",
    ]
    assert [number_of(count, "entry", "entries") for count in (1, 2)] == ["1 entry", "2 entries"]


def test_values_are_shown_short_however_large_or_deep() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "[[[[[...]]]]]"
    assert len(shown("a" * 10**6)) < 130
    assert len(shown(10**4000)) < 130
    assert len(shown({str(i): list(range(100)) for i in range(1000)})) < 3000
    assert shown([1, "two", None]) == "[1, 'two', None]"
