"""The three kinds of tables: Arrow's, pandas' and dicts of columns; what is asked of them, and what is added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trellis.corpus import sentence_of_row
from trellis.corpus.tables import arrow
from trellis.distributed.answering import Answered, Item
from trellis.distributed.arrow_arrays import strings
from trellis.distributed.columns import ERROR, as_arrow, as_lists, errors_of
from trellis.errors import DataError, TrellisError, shown
from trellis.optional import needed
from trellis.text import Sentence
from trellis.untrusted import is_unicode


def column_names_of(table: Any) -> list[str]:
    """The names of a table's columns."""
    if is_arrow(table):
        return list(table.schema.names)
    if _is_pandas(table) or isinstance(table, Mapping):
        return [str(name) for name in (table.columns if _is_pandas(table) else table)]
    raise DataError(f"expected an Arrow table, a pandas frame or a dict of columns, found {shown(table)}")


def is_arrow(table: Any) -> bool:
    """Whether it is a table or a record batch of Arrow."""
    return type(table).__module__.partition(".")[0] == "pyarrow" and hasattr(table, "schema")


def _is_pandas(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns")


def check_table(table: Any) -> None:
    """Refuse a table that has a name twice, or columns of different lengths, as only a dict can have them."""
    names = column_names_of(table)
    _check_names(names)
    if isinstance(table, Mapping):
        lengths = {str(name): len(values) for name, values in table.items()}
        other = next((name for name in names if lengths[name] != lengths[names[0]]), None)
        if other is not None:
            first = f"{lengths[names[0]]} in {names[0]!r}"
            raise DataError(f"expected columns of one length, found {first} and {lengths[other]} in {other!r}")


def _check_names(names: Sequence[str]) -> None:
    twice = next((one for one, many in Counter(names).items() if many > 1), None)
    if twice is not None:
        raise DataError(f"expected columns of different names, found {twice!r} {names.count(twice)} times")


def check_columns(schema: Any, name: str, *, is_text: bool) -> None:
    """Refuse an Arrow schema that has a name twice, or a column to be tagged whose type holds no texts or tokens."""
    _check_names(schema.names)
    kind = schema.field(name).type
    if not (_holds_texts(kind) if is_text else _holds_tokens(kind)):
        raise DataError(f"expected {'strings' if is_text else 'lists of strings'} in the column {name!r}, found {kind}")


def _holds_texts(kind: Any) -> bool:
    """Whether the values of an Arrow type are strings; all of them may be null."""
    types, own = arrow().types, _plain_type(kind)
    tests = types.is_string, types.is_large_string, getattr(types, "is_string_view", types.is_null), types.is_null
    return any(test(own) for test in tests)


def _holds_tokens(kind: Any) -> bool:
    own = _plain_type(kind)
    return bool(arrow().types.is_null(own)) or ("list" in str(own) and _holds_texts(getattr(own, "value_type", own)))


def _plain_type(kind: Any) -> Any:
    """The type of the values themselves: of a dictionary, of an extension of Arrow."""
    types = arrow().types
    while types.is_dictionary(kind) or hasattr(kind, "storage_type"):
        kind = kind.value_type if types.is_dictionary(kind) else kind.storage_type
    return kind


def texts_of(table: Any, name: str) -> list[Item | TrellisError]:
    """The texts of a column; what is not a text is an error in its place."""
    return [checked_text(value, name) for value in _values(table, name)]


def checked_text(value: Any, name: str) -> str | TrellisError:
    """A text that UTF-8 can hold, or what is wrong with it."""
    if isinstance(value, TrellisError):
        return value
    if not isinstance(value, str):
        return DataError(f"expected a text in {name!r}, found {_shown_missing(value)}")
    return value if is_unicode(value) else DataError(f"the text in {name!r} has a lone surrogate, as no UTF-8 has")


def sentences_of(table: Any, tokens: str) -> list[Item | TrellisError]:
    """The sentences of rows: tokens, further columns of strings as long as these, and the text that they are of."""
    lists = {name: values for name in column_names_of(table) if _has_lists(values := _values(table, name))}
    lists.setdefault(tokens, _values(table, tokens))
    if "text" in column_names_of(table):
        lists["text"] = _values(table, "text")
    rows = zip(*lists.values(), strict=True)
    return [checked_sentence(dict(zip(lists, row, strict=True)), tokens) for row in rows]


def checked_sentence(row: Mapping[str, Any], tokens: str) -> Sentence | TrellisError:
    """The sentence of a row, or what is wrong with it."""
    broken = next((value for value in row.values() if isinstance(value, TrellisError)), None)
    if broken is not None:
        return broken
    try:
        sentence = sentence_of_row(row, tokens)
    except DataError as error:
        return error
    if not is_unicode("".join(sentence.tokens)):
        return DataError(f"a token in {tokens!r} has a lone surrogate, as no UTF-8 has")
    text = checked_text(sentence.text or "", "text")
    return text if isinstance(text, TrellisError) else sentence


def _shown_missing(value: Any) -> str:
    """What stands for no text: null, whatever pandas or NumPy have for it."""
    missing = value is None or type(value).__name__ == "NAType" or value != value
    return "null" if missing else shown(value)


def _has_lists(values: Sequence[Any]) -> bool:
    return isinstance(next((value for value in values if value is not None), None), list)


def _values(table: Any, name: str) -> list[Any]:
    """The values of a column as Python has them; of Arrow, strings that are not UTF-8 are errors."""
    if is_arrow(table):
        return _arrow_values(table.column(name))
    key = next(key for key in (table.columns if _is_pandas(table) else table) if str(key) == name)
    return [value.tolist() if hasattr(value, "tolist") else value for value in table[key]]


def _arrow_values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = [_arrow_value(value) for value in column]
    return values


def _arrow_value(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        return DataError(f"expected text in UTF-8: {error.reason} at byte {error.start}")


def row_of(batch: Any, row: int) -> dict[str, Any]:
    """A row of a record batch; what Python has no value for (nanoseconds, broken UTF-8) is a text."""
    return {name: _value_or_text(batch.column(name), row) for name in batch.schema.names}


def _value_or_text(column: Any, row: int) -> Any:
    value = column[row]
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        if hasattr(value, "as_buffer"):  # a string
            return value.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
        return " ".join(column.slice(row, 1).to_string().split()).strip("[] ")


def with_answers(
    table: Any, answered: Answered, names: Sequence[str], prefix: str, *, scored: bool, errors: bool
) -> Any:
    """The table with columns of answers; an Arrow table for an Arrow table, a frame for a frame, a dict for a dict."""
    if is_arrow(table):
        return _arrow_with(table, answered, names, prefix, scored=scored, errors=errors)
    added = {prefix + name: as_lists(answered, name, scored=scored) for name in names}
    if errors:
        added[prefix + ERROR] = errors_of(answered)
    if not _is_pandas(table):
        return {**table, **added}
    pandas, frame = needed("pandas", "dask", "a pandas frame"), table.copy(deep=False)
    for name, values in added.items():
        # A list of lists of one length would become a matrix.
        frame[name] = pandas.Series(values, index=frame.index, dtype=object)
    return frame


def _arrow_with(
    table: Any, answered: Answered, names: Sequence[str], prefix: str, *, scored: bool, errors: bool
) -> Any:
    pa = arrow()
    whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    for name in names:
        whole = whole.append_column(prefix + name, as_arrow(answered, name, scored=scored))
    if errors:
        whole = whole.append_column(prefix + ERROR, strings(errors_of(answered)))
    if not isinstance(table, pa.RecordBatch):
        return whole
    batches = whole.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=whole.schema)
