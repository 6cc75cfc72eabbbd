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
from dataclasses import replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Any

from trellis.corpus.sniff import TAG_NAMES, TOKEN_NAMES, position_of
from trellis.corpus.source import LineError, StrPath, check_options, names_of, refuse, split_suffixes
from trellis.corpus.tables import AGAIN, Layout, sentences_of_rows
from trellis.errors import CorpusError, DataError, needed, shown, some_of, warn
from trellis.text import Sentence, located

Row = Mapping[str, Any]

TAG_FIELDS = ("tags", "ner_tags", "labels", "pos_tags", "upos", "chunk_tags")
"""Where tags are looked for, in this order, when no field is named."""

_RESERVED = ("id", "text", "offsets")

TABLES = {".parquet": "Parquet", ".arrow": "Arrow"}
"""Suffixes of files that hold tables, and what they are called."""
_ROWS = 4096
_SAMPLE = 50
_BYTES = 1 << 22


def from_rows(
    rows: Any,
    *,
    tokens: str | None = None,
    tags: str | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[Sentence]:
    """Sentences from rows: of a `datasets.Dataset`, of a table of pandas, polars or pyarrow, or any mappings.

    A row is a sentence if its tokens are a list. If they are one string, it is a token, and a sentence ends where
    the column that names the sentences changes, or at an empty row: see `trellis.corpus.tables`. Other fields that are
    as long as the tokens and hold strings, or ids with names, become columns.

    Args:
        rows: the rows, or the table.
        tokens: the field of the tokens; default: the first with a usual name.
        tags: the field of the tags; default: the first with a usual name.
        names: of whole-number tags; default: those in ``rows.features``.

    """
    if isinstance(rows, Mapping):
        raise DataError(
            f"expected rows, found a mapping of {names_of(rows)}: of several data sets give one, from_rows(rows[...]); "
            "of columns make a table, from_rows(pandas.DataFrame(rows))"
        )
    features = getattr(rows, "features", None) or {}
    labels = {field: getattr(feature, "feature", None) or feature for field, feature in features.items()}
    known = {field: spelled for field, label in labels.items() if (spelled := getattr(label, "names", None))}
    table = _rows_of_table(rows) if is_frame(rows) else rows
    if not isinstance(table, Iterable):
        raise DataError(f"expected rows to iterate over, found {shown(rows)}")
    iterator = iter(table)
    ahead = list(islice(iterator, _SAMPLE))
    first: Any = ahead[0] if ahead else {}
    fields = [str(field) for field, _ in first.items()] if hasattr(first, "items") else []
    tokens = tokens or _usual(fields, ["tokens"], TOKEN_NAMES) or "tokens"
    if tags is None and not any(name in fields for name in TAG_FIELDS):  # which each row may have or not
        tags = _usual(fields, [], TAG_NAMES)
    values = (row.get(tokens) for row in ahead if hasattr(row, "get"))
    is_token = isinstance(next((value for value in values if value is not None), None), str)
    if fields and (is_token or (tokens not in fields and is_frame(rows))):
        tags = tags or _usual(fields, TAG_FIELDS, TAG_NAMES)
        yield from _token_rows(chain(ahead, iterator), fields, tokens, tags, names, known)
        return
    for number, row in enumerate(chain(ahead, iterator)):
        try:
            _check_mapping(row)
            if is_frame(rows):
                row = {name: value for name, value in row.items() if value is not None}
            yield sentence_from_row(row, tokens, tags, names, known)
        except (LineError, DataError) as error:
            raise DataError(f"row {number}: {error}") from None


def is_frame(rows: object) -> bool:
    """Whether this is a table of pandas, polars or pyarrow, or a data set of Hugging Face."""
    ways = ("itertuples", "iter_rows", "collect_schema", "to_pylist", "features")
    kind = type(rows)
    return any(hasattr(rows, way) for way in ways) and (hasattr(kind, "columns") or hasattr(kind, "column_names"))


def _rows_of_table(table: Any) -> Iterator[Row]:
    """The rows of a table; empty cells are None."""
    if not hasattr(table, "iter_rows") and hasattr(table, "collect_schema"):  # of polars, not computed yet
        table = table.collect()
    if hasattr(table, "iter_rows"):
        rows = table.iter_rows(named=True)
    elif hasattr(table, "itertuples"):
        if named := [name for name in table.index.names if name is not None and name not in table.columns]:
            table = table.reset_index(named)  # as groupby leaves it
        fields = list(map(str, table.columns))
        rows = (dict(zip(fields, row, strict=True)) for row in table.itertuples(index=False, name=None))
    elif hasattr(table, "to_batches"):
        rows = chain.from_iterable(batch.to_pylist() for batch in table.to_batches(_ROWS))
    else:
        rows = table.to_pylist() if hasattr(table, "to_pylist") else iter(table)
    for row in rows:  # pandas' empty cell is NaN
        yield {name: None if _is_missing(value) else value for name, value in row.items()}


def _is_missing(value: Any) -> bool:
    """Whether this is None, NaN, or the missing value of pandas, which says nothing about being equal."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def _usual(fields: Sequence[str], exact: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of these names that a field has, or else of the usual ones."""
    position = position_of(usual, fields)
    known = next((name for name in exact if name in fields), None)
    return known if known is not None or position is None else fields[position]


def _token_rows(
    rows: Iterable[Row],
    fields: Sequence[str],
    tokens: str,
    tags: str | None,
    names: Sequence[str] | None,
    names_by_field: Mapping[str, Sequence[str]],
) -> Iterator[Sentence]:
    """The sentences of rows that are tokens."""
    spelling = names_by_field if names is None or tags is None else {**names_by_field, tags: names}

    def cells(number: int, row: Row) -> tuple[int, list[str]]:
        values = {field: value for field in fields if (value := row.get(field)) is not None}
        try:
            fields_of_names = {*spelling, *([] if tags is None else [tags])}
            spelled = {field: _string(values[field], field, spelling) for field in fields_of_names if field in values}
        except LineError as error:
            raise DataError(f"row {number}: {error}") from None
        return number, [spelled.get(field) or str(values.get(field, "")) for field in fields]

    def fail(problem: str, number: int, row: Sequence[str]) -> None:
        if len(row) == len(fields) and not row[fields.index(tokens)]:
            problem += "; pandas.read_csv(..., keep_default_na=False) reads words such as null and NA"
        raise DataError(f"row {number}: {problem}")

    if tokens not in fields:
        raise DataError(
            f"expected a column of tokens ({', '.join(TOKEN_NAMES[:4])}, ...), found the columns {names_of(fields)}: "
            'corpus.from_rows(table, tokens="...", tags="...") names those of tokens and tags'
        )
    table = (cells(number, row) for number, row in enumerate(rows))
    sample = list(islice(table, _SAMPLE))
    try:
        layout = Layout.of(fields, [row for _, row in sample], tokens, tags)
    except LineError as error:
        raise DataError(f"the table: {error}") from None
    repeated: list[str] = []

    def again(name: str, number: int) -> None:
        repeated.append(f"row {number}: {name}")

    for sentence in sentences_of_rows(chain(sample, table), layout, path=None, fail=fail, again=again):
        yield replace(sentence, lines=())
    if repeated:
        warn(f"{AGAIN}: {len(repeated):,}, {some_of(repeated)}")


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
            f"expected strings in {field!r}, found the number {shown(value)}: write its name, or give the names "
            "of all numbers, --names O,B-PER (in Python names=[...])"
        )
    if not 0 <= index < len(names[field]):
        raise LineError(f"expected ids 0 to {len(names[field]) - 1} in {field!r}, found {shown(index)}")
    return names[field][index]


def arrow() -> Any:
    return needed("pyarrow", "parquet", "a table in Arrow's format")


def parquet() -> Any:
    return needed("pyarrow.parquet", "parquet", "Parquet")


def is_table(path: StrPath) -> bool:
    return split_suffixes(path)[0] in TABLES


@contextmanager
def opened_parquet(path: str) -> Iterator[Any]:
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
