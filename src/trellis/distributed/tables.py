"""Tables of three kinds (Arrow's, pandas' and dicts of columns): their texts and sentences, and columns of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from trellis import _native
from trellis.arrays import AnyArray, IntArray
from trellis.corpus import sentence_of_row
from trellis.corpus.tables import arrow
from trellis.distributed.answers import AnswerBlock, Item, RowAnswers, row_slices
from trellis.errors import DataError, TrellisError, shown
from trellis.optional import needed
from trellis.ragged import offsets_of
from trellis.text import Sentence
from trellis.untrusted import is_unicode

OUTPUTS = ("tags", "spans", "probabilities")
ERROR = "error"


class NameTaken(DataError):  # noqa: N818 - what is the case
    """The input has a column or field of the name of an answer: no record can be tagged with these settings."""


def column_names(outputs: tuple[str, ...], *, with_tokens: bool) -> list[str]:
    """The columns that are added, without their prefix: tags are of no use without the tokens that they belong to."""
    names = ["tokens"] if with_tokens and {"tags", "probabilities"} & set(outputs) else []
    return names + [name for name in OUTPUTS if name in outputs]


def as_lists(answers: RowAnswers, name: str, *, scored: bool) -> list[Any]:
    """One value per row: a list, and None where the row is refused."""
    values = iter([value for block in answers.blocks for value in _block_lists(block, name, scored)])
    return [None if row in answers.refused else next(values) for row in range(answers.count)]


def _block_lists(block: AnswerBlock, name: str, scored: bool) -> list[list[Any]]:
    flat: list[Any]
    if name == "tokens":
        flat = block.tokens
    elif name == "tags":
        flat = [block.labels[i] for i in block.ids.tolist()]
    elif name == "probabilities":
        flat = block.probabilities.tolist()
    else:
        columns = {"start": block.starts, "end": block.ends, "label": block.span_labels, "text": block.span_texts}
        if scored:
            columns["probability"] = block.span_probabilities.tolist()
        flat = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [flat[row] for row in row_slices(block.span_counts if name == "spans" else block.lengths)]


def arrow_type(name: str, *, scored: bool) -> Any:
    """The type of a column."""
    pa = arrow()
    if name in ("tokens", "tags"):
        return pa.list_(pa.string())
    if name == "probabilities":
        return pa.list_(pa.float64())
    span = [("start", pa.int32()), ("end", pa.int32()), ("label", pa.string()), ("text", pa.string())]
    return pa.list_(pa.struct([*span, ("probability", pa.float64())] if scored else span))


def as_arrow(answers: RowAnswers, name: str, *, scored: bool) -> Any:
    """A chunked array with one value per row, null where the row is refused."""
    pa, kind = arrow(), arrow_type(name, scored=scored)
    column = pa.chunked_array([_array(block, name, kind, scored) for block in answers.blocks], type=kind)
    if not answers.refused:
        return column
    good = np.array([row not in answers.refused for row in range(answers.count)])
    if not good.any():
        return pa.chunked_array([pa.nulls(answers.count, kind)])
    return column.take(pa.array(np.cumsum(good) - 1, mask=~good))


def _array(block: AnswerBlock, name: str, kind: Any, scored: bool) -> Any:
    if name == "spans":
        fields = [numbers(np.array(offsets, np.int32)) for offsets in (block.starts, block.ends)]
        fields += [strings(block.span_labels), strings(block.span_texts)]
        fields += [numbers(block.span_probabilities)] if scored else []
        values = arrow().StructArray.from_arrays(fields, fields=list(kind.value_type))
        return lists(values, block.span_counts, kind)
    if name == "tags":
        values = chosen(block.labels, block.ids)
    else:
        values = strings(block.tokens) if name == "tokens" else numbers(block.probabilities)
    return lists(values, block.lengths, kind)


# Arrow arrays are made of buffers: `pyarrow.array` asks whether it was given something of pandas, and imports pandas
# for that if it is installed, as it is with Ray: a third of a second in every worker, for nothing. It also takes twice
# as long.


def numbers(values: AnyArray) -> Any:
    """An array of the type that the values have; NumPy's memory is shared."""
    values = np.ascontiguousarray(values)
    return _of_buffers(arrow().from_numpy_dtype(values.dtype), len(values), None, values)


def strings(texts: Sequence[str | None]) -> Any:
    """An array of strings, null where there is None."""
    with _packing():
        data, offsets, are_all_there = _native.pack_texts(texts)
    valid = None if are_all_there else np.packbits([text is not None for text in texts], bitorder="little")
    return _of_buffers(arrow().string(), len(texts), valid, offsets, data)


def chosen(choices: Sequence[str], ids: IntArray) -> Any:
    """An array of strings, those of the choices that the ids say."""
    with _packing():
        data, offsets, _ = _native.pack_names(choices, ids)
    return _of_buffers(arrow().string(), len(ids), None, offsets, data)


@contextmanager
def _packing() -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # more bytes than an array has, or no UTF-8
        raise DataError(str(error)) from None


def _of_buffers(kind: Any, count: int, *buffers: AnyArray | None) -> Any:
    pa = arrow()
    return pa.Array.from_buffers(kind, count, [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers])


def lists(values: Any, lengths: IntArray, kind: Any) -> Any:
    """An array of lists: the values one after another, and how many each row has."""
    return arrow().ListArray.from_arrays(numbers(offsets_of(lengths).astype(np.int32)), values, type=kind)


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
    types, plain = arrow().types, _plain_type(kind)
    tests = types.is_string, types.is_large_string, getattr(types, "is_string_view", types.is_null), types.is_null
    return any(test(plain) for test in tests)


def _holds_tokens(kind: Any) -> bool:
    plain = _plain_type(kind)
    if arrow().types.is_null(plain):
        return True
    return "list" in str(plain) and _holds_texts(getattr(plain, "value_type", plain))


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
        # Pandas and NumPy have other values than None for what is missing; NaN is the one that differs from itself.
        missing = value is None or type(value).__name__ == "NAType" or value != value
        return DataError(f"expected a text in {name!r}, found {'null' if missing else shown(value)}")
    return value if is_unicode(value) else DataError(f"the text in {name!r} has a lone surrogate, as no UTF-8 has")


def sentences_of(table: Any, tokens: str) -> list[Item | TrellisError]:
    """The sentences of rows: tokens, further columns of strings as long as these, and the text that they are of."""
    columns: dict[str, list[Any]] = {}
    for name in column_names_of(table):
        values = _values(table, name)
        if name in (tokens, "text") or isinstance(next((one for one in values if one is not None), None), list):
            columns[name] = values
    rows = zip(*columns.values(), strict=True)
    return [checked_sentence(dict(zip(columns, row, strict=True)), tokens) for row in rows]


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


def _values(table: Any, name: str) -> list[Any]:
    """The values of a column as Python has them; of Arrow, strings that are not UTF-8 are errors."""
    if is_arrow(table):
        column = table.column(name)
        try:
            values: list[Any] = column.to_pylist()
        except UnicodeDecodeError:
            values = [_arrow_value(value) for value in column]
        return values
    key = next(key for key in (table.columns if _is_pandas(table) else table) if str(key) == name)
    return [value.tolist() if hasattr(value, "tolist") else value for value in table[key]]


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
    table: Any, answers: RowAnswers, names: Sequence[str], prefix: str, *, scored: bool, errors: bool
) -> Any:
    """The table with columns of answers; an Arrow table for an Arrow table, a frame for a frame, a dict for a dict."""
    reasons = [answers.refused.get(row) for row in range(answers.count)]
    if is_arrow(table):
        pa = arrow()
        whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        for name in names:
            whole = whole.append_column(prefix + name, as_arrow(answers, name, scored=scored))
        if errors:
            whole = whole.append_column(prefix + ERROR, strings(reasons))
        if not isinstance(table, pa.RecordBatch):
            return whole
        batches = whole.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=whole.schema)
    added = {prefix + name: as_lists(answers, name, scored=scored) for name in names}
    if errors:
        added[prefix + ERROR] = reasons
    if not _is_pandas(table):
        return {**table, **added}
    pandas, frame = needed("pandas", "dask", "a pandas frame"), table.copy(deep=False)
    for name, values in added.items():
        # A list of lists of one length would become a matrix.
        frame[name] = pandas.Series(values, index=frame.index, dtype=object)
    return frame
