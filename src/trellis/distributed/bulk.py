"""`BulkTagger`: a model as a function of tables, for engines that move tables between machines.

Tables are Arrow's, pandas' or dicts of columns. Answers stay in flat arrays until they become Arrow columns: there is
no Python object per token before that.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trellis import _native
from trellis.arrays import AnyArray, IntArray
from trellis.chain import set_num_threads
from trellis.corpus import sentence_of_row
from trellis.corpus.rows import arrow
from trellis.errors import ConfigError, DataError, ModelError, StoreError, TrellisError, did_you_mean, needed, shown
from trellis.models import Tagger, load
from trellis.models.answers import Answers, parts_of
from trellis.models.data import inputs_of, tokens_of
from trellis.models.folder import model_file
from trellis.ragged import in_blocks, offsets_of
from trellis.tags import Scheme
from trellis.text import Sentence, splitter
from trellis.untrusted import is_unicode

Item = str | Sentence
OnBadRow = Literal["raise", "mark"]
OUTPUTS = ("tags", "spans", "probabilities")
_ERROR = "error"
_PYTHON_OPTION = "{0}="
"""How errors name a setting to those who call from Python only."""
_MOST_MODELS = 4


class NameTaken(DataError):  # noqa: N818 - what is the case
    """The input has a column or field of the name of an answer: no record can be tagged with these settings."""


@dataclass(frozen=True)
class BulkTagger:
    """A model that adds columns to tables; it is pickled as a path, and opened once in each process.

    It takes Arrow tables and record batches, pandas frames, and dicts of columns, and gives the same kind with more
    columns: ``tokens`` if the input was text, ``tags``, ``spans``, ``probabilities``. Rows keep their order.

    Args:
        path: a model folder or file, at this place on every machine.
        text: the column of raw texts; by default ``text``, unless there is a column ``tokens``.
        tokens: the column of token lists. Other columns of string lists as long as these are the model's columns.
        outputs: any of "tags", "spans" and "probabilities"; by default tags, and spans if the model finds spans.
        sentences: each text is a document: it is split into sentences, which are tagged one by one.
        batch_tokens: tokens that are answered at a time.
        on_error: at a row that cannot be tagged, "raise" an error that names it, or "mark": its answers are null, and
            the column ``error`` says why.
        prefix: stands before the names of all added columns.

    """

    path: str
    text: str | None = field(default=None, kw_only=True)
    tokens: str | None = field(default=None, kw_only=True)
    outputs: Sequence[str] | None = field(default=None, kw_only=True)
    sentences: bool = field(default=False, kw_only=True)
    batch_tokens: int = field(default=20_000, kw_only=True)
    on_error: OnBadRow = field(default="raise", kw_only=True)
    prefix: str = field(default="", kw_only=True)
    fingerprint: str = field(default="", kw_only=True)
    """The SHA-256 of the model's file, which every worker compares; that of the file as it is now if not given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))
        if self.text is not None and self.tokens is not None:
            raise ConfigError(f"text={self.text!r} and tokens={self.tokens!r}: give one of them")
        if self.sentences and self.tokens is not None:
            raise ConfigError("sentences splits raw texts, and tokens names a column of tokens: give one of them")
        if isinstance(self.batch_tokens, bool) or not isinstance(self.batch_tokens, int) or self.batch_tokens < 1:
            raise ConfigError(f"batch_tokens must be a whole number from 1 on, got {self.batch_tokens!r}")
        if self.on_error not in ("raise", "mark"):
            raise ConfigError(f"on_error must be 'raise' or 'mark', got {self.on_error!r}")
        if self.outputs is not None:
            if isinstance(self.outputs, str) or not self.outputs:
                raise ConfigError(f"outputs must be a list of some of {', '.join(OUTPUTS)}, got {self.outputs!r}")
            for name in self.outputs:
                if name not in OUTPUTS:
                    meant = did_you_mean(name, OUTPUTS)
                    raise ConfigError(f"unknown output {name!r}, expected some of {', '.join(OUTPUTS)}{meant}")
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", file_digest(model_file(self.path)))

    def __call__(self, table: Any) -> Any:
        """The table with the columns of answers."""
        answers, names = self.ask(table)
        if answers.refused and self.on_error == "raise":
            row = min(answers.refused)
            raise DataError(f"row {row}: {answers.refused[row]}")
        return answers.added_to(table, names, self.prefix, errors=self.on_error == "mark")

    def on_one_core(self, table: Any) -> Any:
        """The table with the columns of answers; the model uses one thread, as suits one worker process per core."""
        set_num_threads(1)
        return self(table)

    def ask(self, table: Any) -> tuple[RowAnswers, list[str]]:
        """The answers for the rows of a table, and the names of the columns that they make."""
        names = _column_names_of(table)
        _check_names(names)
        if isinstance(table, Mapping):  # only a dict can have columns of different lengths
            lengths = {str(name): len(values) for name, values in table.items()}
            other = next((name for name in names if lengths[name] != lengths[names[0]]), None)
            if other is not None:
                first = f"{lengths[names[0]]} in {names[0]!r}"
                raise DataError(f"expected columns of one length, found {first} and {lengths[other]} in {other!r}")
        name, is_text = self._input(names)
        items = [checked_text(value, name) for value in _values(table, name)] if is_text else _sentences_of(table, name)
        return self.answer(items), column_names(self.wanted, with_tokens=is_text)

    def answer(self, items: Sequence[Item | TrellisError]) -> RowAnswers:
        """The answers for texts or sentences; an error in the place of a row is the reason for refusing it.

        If the model refuses a block of rows, its rows are tried one by one, to find those that it refuses.
        """
        tagger, spans = self.tagger, "spans" in self.wanted

        def answer(rows: list[int]) -> AnswerBlock:
            block: list[Any] = [items[row] for row in rows]
            return AnswerBlock.of(tagger, block, spans, self.scored, self.sentences)

        refused = {row: str(item) for row, item in enumerate(items) if isinstance(item, TrellisError)}
        blocks = []

        def size(row: int) -> int:
            item: Any = items[row]
            return len(item) // 5 if isinstance(item, str) else len(item)  # about one token per five characters

        for rows in in_blocks((row for row in range(len(items)) if row not in refused), size, self.batch_tokens):
            try:
                blocks.append(answer(rows))
                continue
            except TrellisError:
                for row in rows:
                    try:
                        answer([row])
                    except TrellisError as error:
                        refused[row] = str(error)
            good = [row for row in rows if row not in refused]
            if good:
                blocks.append(answer(good))
        return RowAnswers(len(items), blocks, refused, self.scored)

    def schema(self, given: Any, option: str = _PYTHON_OPTION) -> Any:
        """The Arrow schema of the tables that it gives for tables of a schema; `option` is how errors call settings."""
        column, is_text = self._input(given.names, option)
        _check_names(given.names)
        _check_type(given, column, is_text=is_text)
        pa, schema = arrow(), given
        for name in column_names(self.wanted, with_tokens=is_text):
            schema = schema.append(pa.field(self.prefix + name, arrow_type(name, scored=self.scored)))
        return schema.append(pa.field(self.prefix + _ERROR, pa.string())) if self.on_error == "mark" else schema

    @property
    def tagger(self) -> Tagger[Any]:
        """The model, opened when this process first asks for it."""
        with _opening:
            return _opened(self.path, self.fingerprint)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The outputs, with the default filled in: spans of a model whose tags stand alone say nothing more."""
        if self.outputs is not None:
            return tuple(self.outputs)
        return ("tags",) if self.tagger.tagset_.scheme is Scheme.PLAIN else ("tags", "spans")

    @property
    def scored(self) -> bool:
        """Whether probabilities are asked for."""
        return "probabilities" in self.wanted

    def _input(self, names: Sequence[str], option: str = _PYTHON_OPTION) -> tuple[str, bool]:
        """The column to be tagged, and whether it holds texts."""
        is_text = self.text is not None or (self.tokens is None and (self.sentences or "tokens" not in names))
        name = (self.text or "text") if is_text else (self.tokens or "tokens")
        if name not in names:
            expected = repr(name) if self.text or self.tokens else "'text' or 'tokens'"
            called = " or ".join(map(option.format, ("text", "tokens")))
            raise DataError(f"expected a column {expected}, found {', '.join(names) or 'none'}; name it with {called}")
        added = column_names(self.wanted, with_tokens=is_text) + ([_ERROR] if self.on_error == "mark" else [])
        clash = next((self.prefix + new for new in added if self.prefix + new in names), None)
        if clash is not None:
            called = option.format("prefix")
            raise NameTaken(f"the table has a column {clash!r} already: give {called} for the names of new columns")
        return name, is_text


def file_digest(path: str | Path) -> str:
    """The SHA-256 of a file, as ``sha256sum`` prints it."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from None


_opening = threading.Lock()  # a thread that asks while another one is opening the model waits for that one


@lru_cache(_MOST_MODELS)
def _opened(path: str, expected: str) -> Tagger[Any]:
    """The model in a file, which is refused if it has another SHA-256 than expected."""
    digest = file_digest(model_file(path))
    if digest != expected:
        raise ModelError(
            f"{path} is not the model that this run began with: expected the SHA-256 {expected[:16]}..., found "
            f"{digest[:16]}...; was it replaced, or is it another file on this machine?"
        )
    return load(path)


@dataclass(frozen=True, eq=False)
class AnswerBlock:
    """The answers for R consecutive rows: N tokens and S spans, flat, with the number of them in each row."""

    answers: Answers
    """The answers to the rows, or to the sentences that these were split into."""
    tokens: list[str]  # [N]
    lengths: IntArray  # [R]
    span_counts: IntArray  # [R]
    starts: list[int]  # [S], in characters of the row's text
    ends: list[int]  # [S]
    span_texts: list[str]  # [S]

    @classmethod
    def of(
        cls, tagger: Tagger[Any], items: list[Item], spans: bool, probabilities: bool, sentences: bool
    ) -> AnswerBlock:
        """The answers for texts or sentences, one row each; with `sentences`, texts are split into sentences."""
        how = splitter(tagger.tokenizer_)
        # A part is what is tagged at once: a row, or a sentence of it, with where it starts in the row's text.
        parts = list(parts_of(items)) if sentences else [(row, 0, item) for row, item in enumerate(items)]
        inputs, texts = inputs_of([item for _, _, item in parts], how, with_gaps=tagger.makes_words)
        posterior = tagger.posterior(inputs, raw=isinstance(items[0], str))
        answers = posterior.answers(texts, separator=how.separator, probabilities=probabilities)
        rows = np.array([row for row, _, _ in parts], dtype=np.int64)

        def per_row(offsets: IntArray) -> IntArray:
            return np.bincount(rows, weights=np.diff(offsets), minlength=len(items)).astype(np.int64)

        span_counts = per_row(answers.span_offsets) if spans else np.zeros(len(items), np.int64)
        tokens = list(chain.from_iterable(tokens_of(item) for item in inputs))
        block = cls(answers, tokens, per_row(answers.token_offsets), span_counts, [], [], [])
        begin, end = answers.spans.begin.tolist(), answers.spans.end.tolist()
        # Offsets of tokens are computed only where there are spans.
        for part in np.flatnonzero(np.diff(answers.span_offsets)).tolist() if spans else ():
            sentence, start = answers.sentence(part), parts[part][1]
            text, offsets = sentence.text or "", sentence.offsets or ()
            span_rows = answers.spans_of(part)
            for row in range(span_rows.start, span_rows.stop):
                first, last = offsets[begin[row]][0], offsets[end[row] - 1][1]
                block.starts.append(start + first)
                block.ends.append(start + last)
                block.span_texts.append(text[first:last])
        return block

    def lists(self, name: str, *, scored: bool) -> list[list[Any]]:
        """A column as Python has it: the tokens, tags, probabilities or spans of each row."""
        answers = self.answers
        flat: list[Any]
        if name == "tokens":
            flat = self.tokens
        elif name == "tags":
            flat = [answers.labels[i] for i in answers.ids.tolist()]
        elif name == "probabilities":
            flat = answers.probabilities.tolist()
        else:
            labels = [answers.spans.kinds[kind] for kind in answers.spans.kind.tolist()]
            columns = {"start": self.starts, "end": self.ends, "label": labels, "text": self.span_texts}
            if scored:
                columns["probability"] = answers.span_probabilities.tolist()
            flat = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        offsets = offsets_of(self.span_counts if name == "spans" else self.lengths)
        return [flat[start:end] for start, end in pairwise(offsets.tolist())]

    def array(self, name: str, kind: Any, *, scored: bool) -> Any:
        """The tokens, tags, probabilities or spans of each row as an Arrow array of type `kind`."""
        answers = self.answers
        if name == "spans":
            fields = [numbers(np.array(offsets, np.int32)) for offsets in (self.starts, self.ends)]
            fields += [chosen(answers.spans.kinds, answers.spans.kind), strings(self.span_texts)]
            fields += [numbers(answers.span_probabilities)] if scored else []
            values = arrow().StructArray.from_arrays(fields, fields=list(kind.value_type))
            return lists(values, self.span_counts, kind)
        if name == "tags":
            values = chosen(answers.labels, answers.ids)
        else:
            values = strings(self.tokens) if name == "tokens" else numbers(answers.probabilities)
        return lists(values, self.lengths, kind)


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """Blocks of answers for the rows that could be tagged, in order, and the reason for each row that could not."""

    count: int
    blocks: list[AnswerBlock]
    refused: dict[int, str]
    scored: bool
    """Whether spans have probabilities."""

    def without_refused(self) -> RowAnswers:
        """The answers as those of a table that has only the rows that could be tagged."""
        return RowAnswers(self.count - len(self.refused), self.blocks, {}, self.scored)

    def lists(self, name: str) -> list[Any]:
        """A column with one value per row: a list, and None where the row is refused."""
        values = iter([value for block in self.blocks for value in block.lists(name, scored=self.scored)])
        return [None if row in self.refused else next(values) for row in range(self.count)]

    def arrow(self, name: str) -> Any:
        """A column as a chunked array with one value per row, null where the row is refused."""
        pa, kind = arrow(), arrow_type(name, scored=self.scored)
        column = pa.chunked_array([block.array(name, kind, scored=self.scored) for block in self.blocks], type=kind)
        if not self.refused:
            return column
        good = np.array([row not in self.refused for row in range(self.count)])
        if not good.any():
            return pa.chunked_array([pa.nulls(self.count, kind)])
        return column.take(pa.array(np.cumsum(good) - 1, mask=~good))

    def added_to(self, table: Any, names: Sequence[str], prefix: str, *, errors: bool) -> Any:
        """A table of the kind that is given, with columns of answers, and one of reasons for refusing if `errors`."""
        reasons = [self.refused.get(row) for row in range(self.count)]
        if _is_arrow(table):
            pa = arrow()
            whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
            for name in names:
                whole = whole.append_column(prefix + name, self.arrow(name))
            if errors:
                whole = whole.append_column(prefix + _ERROR, strings(reasons))
            if not isinstance(table, pa.RecordBatch):
                return whole
            batches = whole.combine_chunks().to_batches()
            return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=whole.schema)
        added = {prefix + name: self.lists(name) for name in names}
        if errors:
            added[prefix + _ERROR] = reasons
        if not _is_pandas(table):
            return {**table, **added}
        pandas, frame = needed("pandas", "dask", "a pandas frame"), table.copy(deep=False)
        for name, values in added.items():
            # A list of lists of one length would become a matrix.
            frame[name] = pandas.Series(values, index=frame.index, dtype=object)
        return frame


def column_names(outputs: tuple[str, ...], *, with_tokens: bool) -> list[str]:
    """The columns that are added, without their prefix: tags are of no use without the tokens that they belong to."""
    names = ["tokens"] if with_tokens and {"tags", "probabilities"} & set(outputs) else []
    return names + [name for name in OUTPUTS if name in outputs]


def arrow_type(name: str, *, scored: bool) -> Any:
    """The Arrow type of a column of answers."""
    pa = arrow()
    if name in ("tokens", "tags"):
        return pa.list_(pa.string())
    if name == "probabilities":
        return pa.list_(pa.float64())
    span = [("start", pa.int32()), ("end", pa.int32()), ("label", pa.string()), ("text", pa.string())]
    return pa.list_(pa.struct([*span, ("probability", pa.float64())] if scored else span))


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


def _column_names_of(table: Any) -> list[str]:
    """The names of a table's columns."""
    if _is_arrow(table):
        return list(table.schema.names)
    if _is_pandas(table) or isinstance(table, Mapping):
        return [str(name) for name in (table.columns if _is_pandas(table) else table)]
    raise DataError(f"expected an Arrow table, a pandas frame or a dict of columns, found {shown(table)}")


def _is_arrow(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "pyarrow" and hasattr(table, "schema")


def _is_pandas(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns")


def _check_names(names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"expected columns of different names, found {twice!r} {names.count(twice)} times")


def _check_type(schema: Any, name: str, *, is_text: bool) -> None:
    """Refuse a column to be tagged whose Arrow type is neither texts nor lists of tokens; null is taken for either."""
    types = arrow().types

    def plain(kind: Any) -> Any:  # of the values themselves: those of a dictionary, or of an extension of Arrow
        while types.is_dictionary(kind) or hasattr(kind, "storage_type"):
            kind = kind.value_type if types.is_dictionary(kind) else kind.storage_type
        return kind

    kind = plain(schema.field(name).type)
    is_list = "list" in str(kind)
    if is_list and not is_text:
        kind = plain(getattr(kind, "value_type", kind))
    holds = types.is_string, types.is_large_string, getattr(types, "is_string_view", types.is_null), types.is_null
    if not any(is_kind(kind) for is_kind in holds) or not (is_text or is_list or types.is_null(kind)):
        expected = "strings" if is_text else "lists of strings"
        raise DataError(f"expected {expected} in the column {name!r}, found {schema.field(name).type}")


def checked_text(value: Any, name: str) -> str | TrellisError:
    """A text that UTF-8 can hold, or what is wrong with it."""
    if isinstance(value, TrellisError):
        return value
    if not isinstance(value, str):
        # Pandas and NumPy have other values than None for what is missing; NaN is the one that differs from itself.
        missing = value is None or type(value).__name__ == "NAType" or value != value
        return DataError(f"expected a text in {name!r}, found {'null' if missing else shown(value)}")
    return value if is_unicode(value) else DataError(f"the text in {name!r} has a lone surrogate, as no UTF-8 has")


def _sentences_of(table: Any, tokens: str) -> list[Item | TrellisError]:
    """The sentences of rows: tokens, further columns of strings as long as these, and the text that they are of."""
    columns: dict[str, list[Any]] = {}
    for name in _column_names_of(table):
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
    if not _is_arrow(table):
        key = next(key for key in (table.columns if _is_pandas(table) else table) if str(key) == name)
        return [value.tolist() if hasattr(value, "tolist") else value for value in table[key]]
    column = table.column(name)
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = []
        for value in column:
            try:
                values.append(value.as_py())
            except UnicodeDecodeError as error:
                values.append(DataError(f"expected text in UTF-8: {error.reason} at byte {error.start}"))
    return values
