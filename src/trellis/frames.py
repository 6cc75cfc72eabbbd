"""Rows of plain values as a pandas table, for those who have pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trellis.errors import ConfigError


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """A `pandas.DataFrame` with one row per mapping; `columns` are its names if there is no row."""
    try:
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise ConfigError("to_pandas needs pandas: pip install pandas; to_records gives a list of dicts") from None
    return pandas.DataFrame(list(rows), columns=None if rows or columns is None else list(columns))
