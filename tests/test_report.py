"""Rows as pandas tables, and what is said without pandas."""

import sys
from types import SimpleNamespace

import pytest

from trellis.errors import ConfigError
from trellis.report import data_frame


def test_without_pandas_the_way_around_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="to_records gives a list of dicts"):
        data_frame([{"a": 1}])


def test_rows_become_a_table_and_no_rows_keep_the_names(monkeypatch) -> None:
    pandas = SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert data_frame([{"a": 1, "b": "x"}], ["a", "b"]) == ([{"a": 1, "b": "x"}], None)
    assert data_frame([], ["a", "b"]) == ([], ["a", "b"])
