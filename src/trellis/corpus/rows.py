"""Sentences as rows: of Python, as a Hugging Face `datasets.Dataset` has them, and of Parquet and Arrow files.

    {"id": "0", "tokens": ["Ada", "wrote"], "ner_tags": [1, 0]}     names: O B-PER I-PER

Whole-number tags need names: given, or found in the dataset's features. Nothing here imports `datasets`;
anything that iterates over mappings will do, and a `features` attribute is used if there is one.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from trellis.corpus.source import LineError, StrPath, check_options, names_of, refuse, split_suffixes
from trellis.errors import CorpusError, DataError, needed, shown
from trellis.text import Sentence, located

Row = Mapping[str, Any]

TAG_FIELDS = ("tags", "ner_tags", "labels", "pos_tags", "upos", "chunk_tags")
"""Where tags are looked for, in this order, when no field is named."""

_RESERVED = ("id", "text", "offsets")

TABLES = {".parquet": "Parquet", ".arrow": "Arrow"}
"""Suffixes of files that hold tables, and what they are called."""
_ROWS = 4096
_BYTES = 1 << 22


def from_rows(
    rows: Iterable[Row],
    *,
    tokens: str = "tokens",
    tags: str | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[Sentence]:
    """Sentences from rows.

    Other fields that are as long as the tokens and hold strings, or ids with names, become columns. `names`
    spells whole-number tags; without it the names in ``rows.features`` do.
    """
    if not isinstance(rows, Iterable):
        raise DataError(f"expected rows to iterate over, found {shown(rows)}")
    features = getattr(rows, "features", None) or {}
    labels = {field: getattr(feature, "feature", None) for field, feature in features.items()}
    known = {field: spelled for field, label in labels.items() if (spelled := getattr(label, "names", None))}
    for number, row in enumerate(rows):
        try:
            _check_mapping(row)
            yield sentence_from_row(row, tokens, tags, names, known)
        except (LineError, DataError) as error:
            raise DataError(f"row {number}: {error}") from None


def to_rows(
    sentences: Iterable[Sentence], *, tags: str = "ner_tags", names: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows that `datasets.Dataset.from_list` takes; with `names`, tags are written as positions in it."""
    ids = None if names is None else {name: i for i, name in enumerate(names)}
    for sentence in sentences:
        row = row_from_sentence(sentence, tags)
        if ids is not None and sentence.tags is not None:
            unknown = next((tag for tag in sentence.tags if tag not in ids), None)
            if unknown is not None:
                refuse(sentence, f"the tag {shown(unknown)} is not among the names {', '.join(ids)}")
            row[tags] = [ids[tag] for tag in sentence.tags]
        yield row


def sentence_from_row(
    row: Row,
    tokens: str,
    tags: str | None,
    names: Sequence[str] | None,
    names_by_field: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    tagged: bool = True,
    path: str | None = None,
    lines: Sequence[int] = (),
) -> Sentence:
    """One sentence; what is wrong with a row is raised as a `LineError` or, for offsets, a `DataError`.

    `tags` is the field of the tags, the first usual one by default; `names` spells whole-number tags, `names_by_field`
    those of other fields. ``tagged=False`` reads no tags.
    """
    field = next((name for name in TAG_FIELDS if name in row), None) if tags is None else tags
    tags = field if tagged else None
    spelling = names_by_field if names is None or tags is None else {**names_by_field, tags: names}
    words = _strings(row, tokens, {})
    labels = None if tags is None else _strings(row, tags, spelling)
    if labels is not None and len(labels) != len(words):
        raise LineError(f"expected as many {tags!r} as {tokens!r}, found {len(labels)} and {len(words)}")
    columns = {}
    for name, values in row.items():
        if name in (tokens, tags, *_RESERVED) or not isinstance(values, list) or len(values) != len(words):
            continue
        if name in spelling or all(isinstance(value, str) for value in values):
            columns[name] = _strings(row, name, spelling)
    text = row["text"] if isinstance(row.get("text"), str) else None
    offsets = None if text is None else row.get("offsets")
    if offsets is not None:
        if not isinstance(offsets, list) or not all(
            isinstance(pair, list | tuple) and [type(part) for part in pair] == [int, int] for pair in offsets
        ):
            raise LineError("expected a list of [start, end] in 'offsets'")
        offsets = [(start, end) for start, end in offsets]
    return Sentence(words, labels, text, offsets, columns, path, lines)


def sentence_of_row(row: Row, tokens: str) -> Sentence:
    """The sentence to be tagged of one row: its tokens and columns, without tags; in its text if it has one."""
    try:
        _check_mapping(row)
        return located(sentence_from_row(row, tokens, None, None, tagged=False))
    except LineError as error:
        raise DataError(str(error)) from None


def row_from_sentence(sentence: Sentence, tags: str) -> dict[str, Any]:
    """The fields of a sentence that are known."""
    row: dict[str, Any] = {"tokens": list(sentence.tokens)}
    if sentence.tags is not None:
        row[tags] = list(sentence.tags)
    if sentence.text is not None:
        row["text"] = sentence.text
    if sentence.offsets is not None:
        row["offsets"] = [list(pair) for pair in sentence.offsets]
    for name, values in sentence.columns.items():
        if name in (*row, tags, *_RESERVED):
            refuse(sentence, f"a column named {name!r} would hide the field of that name")
        row[name] = list(values)
    return row


def _strings(row: Row, field: str, names: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The values of a field, ids spelled out."""
    if field not in row:
        raise LineError(f"expected a field {field!r}, found {names_of(row)}; --tokens and --tags name others")
    values = row[field]
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise LineError(f"expected a list in {field!r}, found {shown(values)}")
    try:
        items = iter(values)
    except TypeError:  # an array without dimensions, which is an Iterable all the same
        raise LineError(f"expected a list in {field!r}, found {shown(values)}") from None
    return tuple(_string(value, field, names) for value in items)


def _check_mapping(row: object) -> None:
    """Anything with the methods of a mapping will do."""
    if not all(hasattr(row, name) for name in ("get", "items", "__getitem__")):
        raise LineError(f"expected a mapping from fields to lists, found {shown(row)}")


def _string(value: object, field: str, names: Mapping[str, Sequence[str]]) -> str:
    if isinstance(value, str):
        return value
    try:
        index = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # an array, say
        index = None
    if index is None:
        raise LineError(f"expected strings in {field!r}, found {shown(value)}")
    if field not in names:
        raise LineError(
            f"expected strings in {field!r}, found the number {shown(value)}: write its name (in Python pass names=)"
        )
    if not 0 <= index < len(names[field]):
        raise LineError(f"expected ids 0 to {len(names[field]) - 1} in {field!r}, found {shown(index)}")
    return names[field][index]


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
            try:
                yield sentence_from_row(row, tokens, tags, names, path=path, lines=(number,))
            except (LineError, DataError) as error:
                problem = str(error).removeprefix(f"{path}:{number}: ")
                raise CorpusError(problem, path=path, line=number, text=str(row)[:200]) from None


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
