"""The files of tagged shards: Parquet or JSON Lines, whose bytes depend on their content alone."""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from trellis.corpus import dumps
from trellis.corpus.tables import arrow, parquet
from trellis.errors import DataError

FORMS = ("parquet", "jsonl")
_ROW_GROUP = 1 << 26
"""Bytes of tables that are written as one row group."""


class RowFile(ABC):
    """A file that grows by rows."""

    @abstractmethod
    def write(self, rows: Any) -> None:
        """Add rows: an Arrow table, or, to JSON Lines, dicts."""

    @abstractmethod
    def close(self) -> None:
        """Write what is held back, and the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def open_rows(path: Path, form: str, schema: Any) -> RowFile:
    """A file in the form that is asked for; `schema` is that of the tables that Parquet will get."""
    return _ParquetFile(path, schema) if form == "parquet" else _LinesFile(path)


class _ParquetFile(RowFile):
    """Tables are held back until they are worth a row group: how they were cut does not show in the file."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._sink = arrow().OSFile(os.fsencode(path), "wb")  # a name may be of any bytes
        self._file = parquet().ParquetWriter(self._sink, schema, compression="zstd")
        self._schema, self._held, self._size = schema, list[Any](), 0

    def write(self, rows: Any) -> None:
        """Add rows of a table."""
        if not len(rows):  # Parquet has no empty row groups
            return
        self._held.append(rows if rows.schema.equals(self._schema) else rows.cast(self._schema))
        self._size += rows.nbytes
        if self._size >= _ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        pa = arrow()
        if self._held:
            whole = pa.concat_tables(self._held).combine_chunks()
            self._file.write_table(whole, row_group_size=len(whole))
        self._held, self._size = [], 0

    def close(self) -> None:
        """Write the last row group."""
        self._flush()
        self._file.close()
        self._sink.close()


class _LinesFile(RowFile):
    def __init__(self, path: Path) -> None:
        self._file: IO[str] = open(path, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed by close

    def write(self, rows: Any) -> None:
        """Add rows: one line each."""
        self._file.writelines(line_of(record) for record in (rows if isinstance(rows, list) else rows.to_pylist()))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def line_of(record: Mapping[str, Any]) -> str:
    """A record as a line of JSON; what JSON has no word for (dates, bytes, NaN) is written as text."""
    try:
        json.dumps(record, allow_nan=False)
    except (TypeError, ValueError):
        return dumps({name: _plain(value) for name, value in record.items()})
    return dumps(record)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def check_form(form: str) -> None:
    """Refuse a form that shards cannot be written in."""
    if form not in FORMS:
        raise DataError(f"shards are written as {' or '.join(FORMS)}, not as {form!r}")
