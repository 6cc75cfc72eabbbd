"""The three kinds of tables: Arrow's, pandas' and dicts of columns; what is asked of them, and what is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trellis.corpus import sentence_of_row
from trellis.distributed.answering import Answered, Item
from trellis.distributed.columns import ERROR, arrow, as_arrow, as_lists, errors_of
from trellis.errors import DataError, TrellisError
from trellis.extras import needed
from trellis.text import Sentence
from trellis.untrusted import is_unicode, shown


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
    """The sentences of rows: tokens, further columns of strings as long as these, and text with offsets."""
    lists = {name: values for name in column_names_of(table) if _has_lists(values := _values(table, name))}
    lists.setdefault(tokens, _values(table, tokens))
    if "offsets" in lists and "text" in column_names_of(table):
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
    return sentence


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
    return [value.tolist() if hasattr(value, "tolist") else value for value in table[name]]


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
        whole = whole.append_column(prefix + ERROR, pa.array(errors_of(answered), pa.string()))
    if not isinstance(table, pa.RecordBatch):
        return whole
    batches = whole.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=whole.schema)
