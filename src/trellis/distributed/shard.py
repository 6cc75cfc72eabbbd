"""One shard from start to finish: read, tagged, written, and marked as done. This is what a worker does.

    OUT/NAME.parquet                 the tagged shard
    OUT/_trellis/bad/NAME.jsonl      its bad records, if it has any: file, line or row, reason, record
    OUT/_trellis/done/NAME.json      the mark, written last: checksums, counts, and what it was made with

Each file appears once it is whole, so whatever is killed, a shard is done or it is not.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Self

import numpy as np

from trellis import files
from trellis.corpus import FORMATS, RelayingSource, Source, Stream, dumps, get_format, records
from trellis.corpus.tables import arrow, opened_parquet, parquet, parquet_chunks
from trellis.distributed.answers import Item, RowAnswers
from trellis.distributed.bulk import BulkTagger, file_digest
from trellis.distributed.tables import (
    NameTaken,
    arrow_type,
    as_arrow,
    as_lists,
    checked_sentence,
    checked_text,
    column_names,
    numbers,
    row_of,
    strings,
    with_answers,
)
from trellis.errors import CorpusError, DataError, TrellisError, shown
from trellis.text import Sentence, splitter

META = "_trellis"
PARQUET, TEXT, TOKENS, JSONL = "parquet", "text", "tokens", "jsonl"
# Of the formats of corpora, those whose files are read piece by piece; texts with spans are JSON Lines like others.
SHARD_FORMATS = (PARQUET, JSONL, TEXT, TOKENS, *(name for name in FORMATS if name in ("conll", "conllu", "wordtag")))
OUTPUT_FORMATS = (PARQUET, JSONL)
Tell = Callable[[int, int], None]
"""Called with how many more sentences and tokens are done."""
_OPTION = "--{0} (in Python {0}=)"
_HELD = 1 << 20
"""Characters of bad records that are held in memory; more of them lie on the disk meanwhile."""
_CHUNK_ROWS = 4096
_CHUNK_CHARACTERS = 1 << 20
_ROW_GROUP = 1 << 26
"""Bytes of tables that are written as one row group."""


@dataclass(frozen=True)
class Shard:
    """One file to be tagged."""

    path: str
    name: str
    """Of the output, without its suffix: the path within its folder."""
    size: int
    """In bytes, as it lies on the disk."""
    time: int
    """When it was last changed, in nanoseconds."""


@dataclass(frozen=True)
class Record:
    """One text or sentence of a shard."""

    line: int
    item: Item | TrellisError
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else is to be kept: the fields of a JSON record, the further columns of a sentence."""
    raw: str = ""
    """As it stands in the file, for the list of bad records."""


@dataclass(frozen=True)
class ShardReader:
    """How shards are read."""

    format: str
    text: str | None = None
    tokens: str | None = None
    encoding: str = "utf-8"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the reader of the format, such as the column of the tokens."""

    def chunks(self, path: str) -> Iterator[list[Record]]:
        """The records of a file that is not Parquet, in lists that are bounded by their records and characters."""
        assert self.format != PARQUET
        source = RelayingSource(path, encoding=self.encoding, on_error="skip")
        chunk: list[Record] = []
        size = 0
        for found in source.relayed(self._records(source)):
            if isinstance(found, CorpusError):
                record = Record(found.line, DataError(found.problem), raw=found.whole)
            else:
                record = found
            chunk.append(record)
            size += len(record.raw)
            if len(chunk) >= _CHUNK_ROWS or size >= _CHUNK_CHARACTERS:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _records(self, source: Source) -> Iterator[Record]:
        if self.format == JSONL:
            return (self._of_json(number, raw, value) for number, raw, value in records(source))
        if self.format == TEXT:
            return (Record(number, line, raw=line) for number, line in source.lines())
        if self.format == TOKENS:
            split = splitter("whitespace").split
            return (Record(number, Sentence(split(line)), raw=line) for number, line in source.lines())
        sentences = Stream.of(get_format(self.format), source, dict(self.options))
        return (
            Record(one.line_of(0) or 0, one.with_tags(None), one.columns, " ".join(one.tokens)) for one in sentences
        )

    def _of_json(self, line: int, raw: str, value: Any) -> Record:
        if not isinstance(value, dict):
            return Record(line, DataError(f"expected a JSON object, found {shown(value)}"), raw=raw)
        if self.text is None and (self.tokens is not None or "tokens" in value):
            return Record(line, checked_sentence(value, self.tokens or "tokens"), value, raw)
        name = self.text or "text"
        if name not in value:
            problem = f"expected a field {name!r}, found {', '.join(map(shown, islice(value, 10))) or 'none'}"
            return Record(line, DataError(problem), raw=raw)
        return Record(line, checked_text(value[name], name), value, raw)


@dataclass(frozen=True)
class Done:
    """The mark of a shard."""

    settings: str
    """The fingerprint of everything that the output depends on, the model among it."""
    model: str
    source: str
    source_bytes: int
    source_time: int
    source_sha256: str
    output: str
    output_bytes: int
    output_sha256: str
    rows: int
    tokens: int
    bad: int


@dataclass(frozen=True)
class ShardJob:
    """How every shard of a run is tagged; it is pickled to the workers."""

    tagger: BulkTagger
    reading: ShardReader
    form: str
    out: str
    settings: str
    strict: bool = False
    """Whether a bad record is an error."""

    def path_of(self, kind: str, shard: Shard) -> Path:
        """Where a file of a shard goes: "output", "bad" or "done"."""
        if kind == "output":
            return Path(self.out, f"{shard.name}.{self.form}")
        return Path(self.out, META, kind, f"{shard.name}.{'json' if kind == 'done' else 'jsonl'}")

    def run(self, shard: Shard, tell: Tell = lambda rows, tokens: None) -> Done:
        """Tag a shard and mark it."""
        digest = file_digest(shard.path)
        paths = {kind: self.path_of(kind, shard) for kind in ("output", "bad", "done")}
        for path in paths.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        with SpooledTemporaryFile(_HELD, "w+", encoding="utf-8", newline="\n") as bad:
            with files.replacing(paths["output"]) as partial:
                tagging = _Tagging(self, shard, tell, bad)
                tagging.write(partial)
                size, checksum = partial.stat().st_size, file_digest(partial)
            if tagging.bad:
                bad.seek(0)
                with (
                    files.replacing(paths["bad"]) as partial,
                    open(partial, "w", encoding="utf-8", newline="\n") as file,
                ):
                    shutil.copyfileobj(bad, file)
            else:
                paths["bad"].unlink(missing_ok=True)  # of an earlier run
        done = Done(
            settings=self.settings,
            model=self.tagger.fingerprint,
            source=shard.path,
            source_bytes=shard.size,
            source_time=shard.time,
            source_sha256=digest,
            output=paths["output"].relative_to(self.out).as_posix(),
            output_bytes=size,
            output_sha256=checksum,
            rows=tagging.rows,
            tokens=tagging.tokens,
            bad=tagging.bad,
        )
        files.write_text(paths["done"], json.dumps(asdict(done), indent=2) + "\n")
        return done


class _Tagging:
    """A shard being tagged: what is written, its counts, and its bad records."""

    def __init__(self, job: ShardJob, shard: Shard, tell: Tell, bad: IO[str]) -> None:
        self._job, self._shard, self._tell, self._bad = job, shard, tell, bad
        self._prefix, self._scored = job.tagger.prefix, job.tagger.scored
        self._names = column_names(job.tagger.wanted, with_tokens=True)
        self.rows = self.tokens = self.bad = 0

    def write(self, path: Path) -> None:
        """Write the tagged rows."""
        if self._job.reading.format == PARQUET:
            self._write_parquet(path)
            return
        schema = self._schema() if self._job.form == PARQUET else None
        with _open_rows(path, self._job.form, schema) as file:
            for number, chunk in enumerate(self._job.reading.chunks(self._shard.path)):
                if self._job.form != PARQUET:  # there, the fields have a column of their own
                    chunk = self._check_names(chunk, is_first=number == 0)
                answers = self._job.tagger.answer([record.item for record in chunk])
                self._count(answers, "line", partial(_line_and_content, chunk))
                good = [record for row, record in enumerate(chunk) if row not in answers.refused]
                answers = answers.without_refused()
                if schema is None:
                    file.write(self._json_rows(good, answers))
                else:
                    added = [as_arrow(answers, name, scored=self._scored) for name in self._names]
                    file.write(arrow().table([*self._given_columns(good), *added], schema=schema))

    def _write_parquet(self, path: Path) -> None:
        tagger = self._job.tagger
        with opened_parquet(self._shard.path) as source:
            schema = tagger.schema(source.schema_arrow, _OPTION)
            with _open_rows(path, self._job.form, schema) as file:
                first = 1
                for batch in parquet_chunks(source, self._shard.path):
                    answers, names = tagger.ask(batch)
                    self._count(answers, "row", partial(_row_and_content, first, batch))
                    first += len(batch)
                    if answers.refused:
                        good = [row for row in range(answers.count) if row not in answers.refused]
                        batch = batch.take(numbers(np.array(good, np.int64)))
                    table = arrow().Table.from_batches([batch])
                    answers = answers.without_refused()
                    file.write(with_answers(table, answers, names, self._prefix, scored=self._scored, errors=False))

    def _count(self, answers: RowAnswers, unit: str, locate: Callable[[int], tuple[int, str]]) -> None:
        """Count what was done and list the rows that are refused; `locate` gives a row's number and its content."""
        for row, reason in sorted(answers.refused.items()):
            number, raw = locate(row)
            if self._job.strict:
                raise DataError(f"{self._shard.path}:{number}: {reason}")
            record = {"record": raw} if raw else {}
            self._bad.write(dumps({"file": self._shard.path, unit: number, "reason": reason, **record}))
            self.bad += 1
        rows = answers.count - len(answers.refused)
        tokens = sum(len(block.tokens) for block in answers.blocks)
        self.rows, self.tokens = self.rows + rows, self.tokens + tokens
        self._tell(rows, tokens)

    def _check_names(self, chunk: list[Record], *, is_first: bool) -> list[Record]:
        """Records of which a field would be replaced by an answer are bad; so are the settings if a shard begins so."""
        added = {self._prefix + name for name in self._names}
        tokens = self._job.reading.tokens or "tokens"  # of a sentence, these are the answer themselves
        checked = []
        for record in chunk:
            names = added - {tokens} if isinstance(record.item, Sentence) else added
            taken = next((name for name in record.fields if name in names), None)
            if taken is not None and not isinstance(record.item, TrellisError):
                problem = f"the record has a field {taken!r} already: give {_OPTION.format('prefix')} for the names"
                record = replace(record, item=NameTaken(f"{problem} of new fields"))
            checked.append(record)
        refused = next((record for record in checked if isinstance(record.item, NameTaken)), None)
        if is_first and refused is not None and all(isinstance(record.item, TrellisError) for record in checked):
            raise NameTaken(f"{self._shard.path}:{refused.line}: {refused.item}")
        return checked

    def _json_rows(self, good: list[Record], answers: RowAnswers) -> list[dict[str, Any]]:
        added = {self._prefix + name: as_lists(answers, name, scored=self._scored) for name in self._names}
        rows = []
        for record, values in zip(good, zip(*added.values(), strict=True), strict=True):
            if self._job.reading.format == JSONL:
                given = dict(record.fields)
            else:
                text = {"text": record.item} if isinstance(record.item, str) else {}
                given = {"line": record.line, **text, **record.fields}
            rows.append(given | dict(zip(added, values, strict=True)))
        return rows

    def _given_columns(self, good: list[Record]) -> list[Any]:
        """The columns before the answers: the line, the text, and as JSON the fields that have no column."""
        items = [record.item for record in good]
        texts = [item if isinstance(item, str) else getattr(item, "text", None) for item in items]
        columns = [numbers(np.array([record.line for record in good], np.int64)), strings(texts)]
        reading = self._job.reading
        if reading.format != TEXT:
            known = reading.text or "text", reading.tokens or "tokens"
            rest = [{name: value for name, value in one.fields.items() if name not in known} for one in good]
            columns.append(strings([dumps(fields).rstrip("\n") if fields else None for fields in rest]))
        return columns

    def _schema(self) -> Any:
        pa = arrow()
        given = [("line", pa.int64()), ("text", pa.string())]
        if self._job.reading.format != TEXT:
            given.append(("fields", pa.string()))
        added = [(self._prefix + name, arrow_type(name, scored=self._scored)) for name in self._names]
        return pa.schema([*given, *added])


def _line_and_content(chunk: list[Record], row: int) -> tuple[int, str]:
    return chunk[row].line, chunk[row].raw


def _row_and_content(first: int, batch: Any, row: int) -> tuple[int, str]:
    return first + row, _json_line(row_of(batch, row)).rstrip("\n")


def _open_rows(path: Path, form: str, schema: Any) -> _ParquetRows | _JSONRows:
    return _ParquetRows(path, schema) if form == PARQUET else _JSONRows(path)


class _ParquetRows:
    """A Parquet file that grows by tables; how they were cut does not show in the file.

    They are held back until they are worth a row group, so that the bytes of the file depend on its rows alone.
    """

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
        if self._held:
            whole = arrow().concat_tables(self._held).combine_chunks()
            self._file.write_table(whole, row_group_size=len(whole))
        self._held, self._size = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._flush()
        self._file.close()
        self._sink.close()


class _JSONRows:
    """A file of JSON Lines that grows by tables, or by dicts."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = open(path, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed at the exit

    def write(self, rows: Any) -> None:
        """Add one line per row."""
        self._file.writelines(_json_line(record) for record in (rows if isinstance(rows, list) else rows.to_pylist()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()


def _json_line(record: Mapping[str, Any]) -> str:
    """A record as a line of JSON; what JSON has no word for (dates, bytes, NaN) is written as text."""
    try:
        json.dumps(record, allow_nan=False)
    except (TypeError, ValueError):
        return dumps({name: _as_json(value) for name, value in record.items()})
    return dumps(record)


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _as_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
