"""Parquet and Arrow files: the one place that opens them, and their rows as sentences.

{"tokens": ["Ada", "wrote"], "tags": ["B-PER", "O"]}     a row, with columns as in a line of JSON Lines
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from trellis.corpus._errors import LineError
from trellis.corpus._files import StrPath, split_suffixes
from trellis.corpus._streams import check_options
from trellis.corpus.rows import find_tags, sentence_from_row
from trellis.errors import CorpusError, DataError
from trellis.optional import needed
from trellis.text import Sentence

TABLES = {".parquet": "Parquet", ".arrow": "Arrow"}
"""Suffixes of files that hold tables, and what they are called."""
_ROWS = 4096
_BYTES = 1 << 22


def arrow() -> Any:
    """The module pyarrow."""
    return needed("pyarrow", "parquet", "a table in Arrow's format")


def parquet() -> Any:
    """The module pyarrow.parquet."""
    return needed("pyarrow.parquet", "parquet", "Parquet")


def is_table(path: StrPath) -> bool:
    """Whether the name is that of a Parquet or an Arrow file."""
    return split_suffixes(path)[0] in TABLES


@contextmanager
def opened_parquet(path: str) -> Iterator[Any]:
    """A `pyarrow.parquet.ParquetFile`."""
    pa, pq = arrow(), parquet()
    try:
        opened = pa.OSFile(os.fsencode(path))  # a name may be of any bytes
        file = pq.ParquetFile(opened)
    except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
        raise DataError(f"{path}: expected a Parquet file: {error}") from None
    with opened, file:
        yield file


def parquet_chunks(file: Any, path: str) -> Iterator[Any]:
    """The rows of a `pyarrow.parquet.ParquetFile`, some thousand at a time, fewer if they are large."""
    about = file.metadata
    size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    rows = max(1, min(_ROWS, _BYTES * about.num_rows // max(size, 1)))
    batches = file.iter_batches(batch_size=rows, use_threads=False)  # whoever reads has one core
    while True:
        with _readable(path, "Parquet"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def read_table(path: str, **options: Any) -> Iterator[Sentence]:
    """The rows of a Parquet or Arrow file as sentences; `line_of` is the number of the row, from 1."""
    check_options(_read_table, options, f"reading {TABLES[split_suffixes(path)[0]]}")
    return _read_table(path, **options)


def _read_table(
    path: str, *, tokens: str = "tokens", tags: str | None = None, names: Sequence[str] | None = None
) -> Iterator[Sentence]:
    number = 0
    for batch in _batches(path):
        for row in _rows(batch, path):
            number += 1
            field = tags if tags is not None else find_tags(row)
            spelled = {} if names is None or field is None else {field: names}
            try:
                yield sentence_from_row(row, tokens, field, spelled, path=path, lines=(number,))
            except (LineError, DataError) as problem:
                said = str(problem).removeprefix(f"{path}:{number}: ")
                raise CorpusError(said, path=path, line=number, text=str(row)[:200]) from None


def _batches(path: str) -> Iterator[Any]:
    if split_suffixes(path)[0] == ".parquet":
        with opened_parquet(path) as file:
            yield from parquet_chunks(file, path)
        return
    pa = arrow()
    with _readable(path, "Arrow"), pa.memory_map(path) as source:
        try:
            reader = pa.ipc.open_stream(source)
        except pa.ArrowInvalid:  # the other one of Arrow's two kinds of files
            reader = pa.ipc.open_file(source)
        many = range(reader.num_record_batches) if hasattr(reader, "num_record_batches") else None
        batches = reader if many is None else map(reader.get_batch, many)
        for batch in batches:
            yield from (batch.slice(first, _ROWS) for first in range(0, len(batch), _ROWS))


def _rows(batch: Any, path: str) -> list[dict[str, Any]]:
    """Rows without their empty cells: a sentence without a text, say, has no text."""
    with _readable(path, TABLES[split_suffixes(path)[0]]):
        rows = batch.to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@contextmanager
def _readable(path: str, kind: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected text in UTF-8: {error.reason} at byte {error.start}") from None
    except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
        raise DataError(f"{path}: this {kind} file cannot be read: {error}") from None
