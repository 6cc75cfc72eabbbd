"""One shard from start to finish: read, tagged, written, and marked as done. This is what a worker does.

    OUT/NAME.parquet                 the tagged shard
    OUT/_trellis/bad/NAME.jsonl      its bad records, if it has any: file, line or row, reason, record
    OUT/_trellis/done/NAME.json      the mark, written last: checksums, counts, and what it was made with

Each file appears once it is whole, so whatever is killed, a shard is done or it is not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import numpy as np

from trellis import files
from trellis.arrays import IntArray
from trellis.corpus import dumps
from trellis.corpus.tables import arrow, opened_parquet, parquet_chunks
from trellis.distributed.answering import Answered
from trellis.distributed.arrow_arrays import numbers, strings
from trellis.distributed.bulk import BulkTagger
from trellis.distributed.columns import NameTaken, arrow_type, as_arrow, as_lists, column_names
from trellis.distributed.opening import file_digest
from trellis.distributed.reading import Record, ShardReader
from trellis.distributed.shards import PARQUET, TEXT, Shard
from trellis.distributed.tables import row_of, with_answers
from trellis.distributed.writing import line_of, open_rows
from trellis.errors import DataError, TrellisError
from trellis.text import Sentence

META = "_trellis"
_OPTION = "--{0} (in Python {0}=)"
_HELD = 1 << 20
"""Characters of bad records that are held in memory; more of them lie on the disk meanwhile."""
_Place = Callable[[int], tuple[int, str]]
"""Where a row of some rows stands in its shard, counted from 1, and what stands there."""
Tell = Callable[[int, int], None]
"""Called with how many more sentences and tokens are done."""


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

    def place(self, kind: str, shard: Shard) -> Path:
        """Where a file of a shard goes: "output", "bad" or "done"."""
        if kind == "output":
            return Path(self.out, f"{shard.name}.{self.form}")
        return Path(self.out, META, kind, f"{shard.name}.{'json' if kind == 'done' else 'jsonl'}")

    def run(self, shard: Shard, tell: Tell = lambda rows, tokens: None) -> Done:
        """Tag a shard and mark it."""
        digest = file_digest(shard.path)
        places = {kind: self.place(kind, shard) for kind in ("output", "bad", "done")}
        for path in places.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        with SpooledTemporaryFile(_HELD, "w+", encoding="utf-8", newline="\n") as bad:
            with files.replacing(places["output"]) as partial:
                work = _Work(self, shard, tell, bad)
                work.write(partial)
                size, checksum = partial.stat().st_size, file_digest(partial)
            _write_bad(places["bad"], bad if work.bad else None)
        output = places["output"].relative_to(self.out).as_posix()
        done = Done(
            settings=self.settings,
            model=self.tagger.fingerprint,
            source=shard.path,
            source_bytes=shard.size,
            source_time=shard.time,
            source_sha256=digest,
            output=output,
            output_bytes=size,
            output_sha256=checksum,
            rows=work.rows,
            tokens=work.tokens,
            bad=work.bad,
        )
        files.write_text(places["done"], json.dumps(asdict(done), indent=2) + "\n")
        return done


class _Work:
    """A shard being tagged: its counts, and its bad records."""

    def __init__(self, job: ShardJob, shard: Shard, tell: Tell, bad: IO[str]) -> None:
        self._job, self._shard, self._tell, self._bad = job, shard, tell, bad
        self.rows = self.tokens = self.bad = 0

    def write(self, path: Path) -> None:
        """Write the tagged rows."""
        if self._job.reading.format == PARQUET:
            self._write_parquet(path)
            return
        with open_rows(path, self._job.form, self._schema() if self._job.form == PARQUET else None) as file:
            for number, read in enumerate(self._job.reading.chunks(self._shard.path)):
                chunk = self._checked_names(read, is_first=number == 0)
                found = self._job.tagger.answer([record.item for record in chunk])
                answered = self._counted(found, _lines_from(chunk), "line")
                good = [record for row, record in enumerate(chunk) if row not in answered.refused]
                file.write(self._rows(good, _good(answered)))

    def _write_parquet(self, path: Path) -> None:
        tagger = self._job.tagger
        with opened_parquet(self._shard.path) as source:
            schema = tagger.schema(source.schema_arrow, _OPTION)
            with open_rows(path, self._job.form, schema) as file:
                first = 0
                for batch in parquet_chunks(source, self._shard.path):
                    found, names = tagger.ask(batch)
                    answered = self._counted(found, _rows_from(first, batch), "row")
                    first += len(batch)
                    kept = batch.take(numbers(_kept(answered))) if answered.refused else batch
                    table = arrow().Table.from_batches([kept])
                    scored = tagger.scored
                    file.write(with_answers(table, _good(answered), names, tagger.prefix, scored=scored, errors=False))

    def _counted(self, answered: Answered, place_of: _Place, unit: str) -> Answered:
        """Take note of what was done, and of the rows that are refused."""
        for row, reason in sorted(answered.refused.items()):
            place, raw = place_of(row)
            if self._job.strict:
                raise DataError(f"{self._shard.path}:{place}: {reason}")
            record = {"record": raw} if raw else {}
            self._bad.write(dumps({"file": self._shard.path, unit: place, "reason": reason, **record}))
            self.bad += 1
        rows = answered.count - len(answered.refused)
        tokens = sum(len(block.tokens) for block in answered.blocks)
        self.rows, self.tokens = self.rows + rows, self.tokens + tokens
        self._tell(rows, tokens)
        return answered

    def _checked_names(self, chunk: list[Record], *, is_first: bool) -> list[Record]:
        """Records of which a field would be replaced by an answer are bad; so are the settings if a shard begins so."""
        if self._job.form == PARQUET:  # there, the fields have a column of their own
            return chunk
        names = {self._named(name) for name in column_names(self._job.tagger.wanted, with_tokens=True)}
        checked = [self._checked_name(record, names) for record in chunk]
        taken = next((record for record in checked if isinstance(record.item, NameTaken)), None)
        if is_first and taken is not None and all(isinstance(record.item, TrellisError) for record in checked):
            raise NameTaken(f"{self._shard.path}:{taken.line}: {taken.item}")
        return checked

    def _checked_name(self, record: Record, names: set[str]) -> Record:
        own = self._job.reading.tokens or "tokens"  # are the answer themselves
        kept = names - {own} if isinstance(record.item, Sentence) else names
        taken = next((name for name in record.fields if name in kept), None)
        if taken is None or isinstance(record.item, TrellisError):
            return record
        called = _OPTION.format("prefix")
        said = f"the record has a field {taken!r} already: give {called} for the names of new fields"
        return replace(record, item=NameTaken(said))

    def _named(self, name: str) -> str:
        return self._job.tagger.prefix + name

    def _rows(self, good: list[Record], answered: Answered) -> Any:
        """The rows of records with their answers."""
        tagger = self._job.tagger
        names, scored = column_names(tagger.wanted, with_tokens=True), tagger.scored
        if self._job.form == PARQUET:
            added = [as_arrow(answered, name, scored=scored) for name in names]
            return arrow().table([*self._base(good), *added], schema=self._schema())
        lists = {self._named(name): as_lists(answered, name, scored=scored) for name in names}
        rows = zip(good, zip(*lists.values(), strict=True), strict=True)
        return [self._lead(record) | dict(zip(lists, row, strict=True)) for record, row in rows]

    def _lead(self, record: Record) -> dict[str, Any]:
        """What stands before the answers in a line of JSON."""
        if self._job.reading.format == "jsonl":
            return dict(record.fields)
        text = {"text": record.item} if isinstance(record.item, str) else {}
        return {"line": record.line, **text, **record.fields}

    def _base(self, good: list[Record]) -> list[Any]:
        """The columns before the answers: the line, the text, and as JSON what else a record has."""
        items = [record.item for record in good]
        texts = [item if isinstance(item, str) else getattr(item, "text", None) for item in items]
        columns = [numbers(np.array([record.line for record in good], np.int64)), strings(texts)]
        if self._job.reading.format != TEXT:
            columns.append(strings([_fields(record, self._job.reading) for record in good]))
        return columns

    def _schema(self) -> Any:
        pa, tagger = arrow(), self._job.tagger
        schema = [("line", pa.int64()), ("text", pa.string())]
        if self._job.reading.format != TEXT:
            schema.append(("fields", pa.string()))
        names = column_names(tagger.wanted, with_tokens=True)
        return pa.schema([*schema, *((self._named(name), arrow_type(name, scored=tagger.scored)) for name in names)])


def _fields(record: Record, reading: ShardReader) -> str | None:
    """The fields that have no column of their own, as JSON."""
    taken = reading.text or "text", reading.tokens or "tokens"
    rest = {name: value for name, value in record.fields.items() if name not in taken}
    return dumps(rest).rstrip("\n") if rest else None


def _lines_from(chunk: list[Record]) -> _Place:
    return lambda row: (chunk[row].line, chunk[row].raw)


def _rows_from(first: int, batch: Any) -> _Place:
    """Rows of Parquet, as JSON."""
    return lambda row: (first + row + 1, line_of(row_of(batch, row)).rstrip("\n"))


def _kept(answered: Answered) -> IntArray:
    return np.array([row for row in range(answered.count) if row not in answered.refused], np.int64)


def _good(answered: Answered) -> Answered:
    """The answers alone, without the rows that are refused."""
    return Answered(answered.count - len(answered.refused), answered.blocks, {})


def _write_bad(path: Path, bad: IO[str] | None) -> None:
    """The list of bad records; none if there are none, and none of an earlier run."""
    if bad is None:
        path.unlink(missing_ok=True)
        return
    bad.seek(0)
    with files.replacing(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
        shutil.copyfileobj(bad, file)
