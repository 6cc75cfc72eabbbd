"""Parts of messages: values shown short, numbers with what they count, what was probably meant, what to install."""

import sys
from pathlib import Path
from typing import Any

import pytest

from trellis.corpus.rows import opened_parquet
from trellis.errors import ConfigError, did_you_mean, nearest, number_of, shown
from trellis.nn.transformer import load_pretrained

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
    assert shown(10**5000) == "an integer of 16610 bits"
    assert len(shown({str(i): list(range(100)) for i in range(1000)})) < 3000
    assert shown([1, "two", None]) == "[1, 'two', None]"


def test_a_parquet_file_is_not_blamed_for_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"^a table in Arrow's format needs pyarrow: pip install 'trellis-crf"):
        opened_parquet(str(tmp_path / "a.parquet")).__enter__()


@pytest.mark.parametrize("name", ["owner/name", "."])
def test_transformers_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"a pretrained encoder needs transformers: pip install 'trellis-crf\[neural"):
        load_pretrained(name)
