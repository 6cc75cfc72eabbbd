"""Folders of shards, tagged: which files they are, how one is tagged, and what came of the run.

    OUT/NAME.parquet                 a tagged shard
    OUT/_trellis/bad/NAME.jsonl      its bad records, if it has any: file, line or row, reason, record
    OUT/_trellis/done/NAME.json      its mark, written last: checksums, counts, and what it was made with
    OUT/_trellis/job.json            the model's fingerprint and every setting that the output depends on
    OUT/_trellis/SHA256SUMS          checksums of all outputs, for ``sha256sum -c``, once all are done
    OUT/_trellis/.lock               who is writing there, while someone is

Each file appears once it is whole, so whatever is killed, a shard is done or it is not. Workers run `ShardJob.run`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import numpy as np

import trellis
from trellis import files
from trellis.corpus import (
    FORMATS,
    Source,
    Stream,
    dumps,
    find_files,
    format_of_path,
    get_format,
    records,
    split_suffixes,
)
from trellis.corpus.rows import arrow, opened_parquet, parquet, parquet_chunks
from trellis.distributed.bulk import (
    BulkTagger,
    Item,
    NameTaken,
    RowAnswers,
    checked_sentence,
    checked_text,
    column_names,
    file_digest,
    numbers,
    strings,
)
from trellis.distributed.engines import Engine, SettingsRefused, Tell, WorkerLost, check_engine, open_engine
from trellis.errors import ConfigError, CorpusError, DataError, ModelError, TrellisError, shown
from trellis.ragged import in_blocks
from trellis.text import Sentence, splitter
from trellis.training.checkpoint import locked
from trellis.untrusted import read_json

META = "_trellis"
PARQUET, TEXT, TOKENS, JSONL = "parquet", "text", "tokens", "jsonl"
# Of the formats of corpora, those whose files are read piece by piece; texts with spans are JSON Lines like others.
SHARD_FORMATS = (PARQUET, JSONL, TEXT, TOKENS, *(name for name in FORMATS if name in ("conll", "conllu", "wordtag")))
OUTPUT_FORMATS = (PARQUET, JSONL)
_SUFFIXES = {".parquet": PARQUET, ".txt": TEXT, ".text": TEXT, ".seg": TEXT}
_OPTION = "--{0} (in Python {0}=)"
_ATTEMPTS = 3
"""How often a shard is tried whose worker dies: another process may have taken the memory."""
_HELD = 1 << 20
"""Characters of bad records that are held in memory; more of them lie on the disk meanwhile."""
_CHUNK_ROWS = 4096
_CHUNK_CHARACTERS = 1 << 20
_ROW_GROUP = 1 << 26
"""Bytes of tables that are written as one row group."""


@dataclass(frozen=True)
class FolderProgress:
    """How far a run is."""

    shards: int
    all_shards: int
    rows: int
    """Rows that this run has tagged so far, also in shards that are not done."""
    tokens: int
    """Tokens of these rows."""
    bytes: int
    """Bytes of the shards that this run has done."""
    left: int
    """Bytes of the shards that are not done."""
    done_tokens: int
    """Tokens of the shards that this run has done."""


@dataclass
class FolderReport:
    """Shards, rows and tokens that are done after a run, and what failed."""

    shards: int
    before: int
    """Shards that an earlier run had done."""
    rows: int = 0
    tokens: int = 0
    bad: int = 0
    """Records that could not be tagged: see ``_trellis/bad``."""
    failed: dict[str, str] = field(default_factory=dict)
    """Shards that could not be tagged, and why."""


def tag_folder(
    model: str | os.PathLike[str],
    inputs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    to: str = "parquet",
    engine: str = "local",
    workers: int | None = None,
    resume: bool = False,
    format: str | None = None,
    text: str | None = None,
    tokens: str | None = None,
    outputs: Sequence[str] | None = None,
    sentences: bool = False,
    prefix: str = "",
    encoding: str = "utf-8",
    reading: Mapping[str, Any] | None = None,
    strict: bool = False,
    progress: Callable[[FolderProgress], None] = lambda progress: None,
) -> FolderReport:
    """Tag all files of some folders into a folder with a file for each.

    The output depends on the input, the model and the settings alone, not on the engine or the number of workers.

    Args:
        model: a model folder or file.
        inputs: folders, and single files.
        out: the folder to write; it must be empty or not exist, except to resume.
        to: "parquet" or "jsonl".
        engine: "local", "ray" or "spark".
        workers: how many shards are tagged at a time; by default as many as there are cores.
        resume: go on with a run that was killed, or whose shards failed: what is done stays.
        format: of the input; by default what the names of the files say.
        text: column or field of the texts.
        tokens: column or field of the tokens.
        outputs: "tags", "spans", "probabilities"; by default tags, and spans if the model finds spans.
        sentences: each text is a document, to be split into sentences.
        prefix: stands before the names of all added columns.
        encoding: of text files.
        reading: further options for the reader of CoNLL files.
        strict: fail at the first record that cannot be tagged, instead of listing it and going on.
        progress: called now and then, in several threads, one at a time.

    """
    if to not in OUTPUT_FORMATS:
        raise DataError(f"shards are written as {' or '.join(OUTPUT_FORMATS)}, not as {to!r}")
    check_engine(engine, workers)
    shards = find_shards(inputs)
    form = _format_of(shards, format)
    if PARQUET in (to, form):
        parquet()  # what is missing is said before any work
    for path in inputs:
        source, target = Path(path).resolve(), Path(out).resolve()
        if source == target or source in target.parents or target in source.parents:
            raise ConfigError(f"the output {out} and the input {path} lie within each other: choose another folder")
    tagger = BulkTagger(
        os.path.abspath(model), text=text, tokens=tokens, outputs=outputs, sentences=sentences, prefix=prefix
    )
    if form in ("conllu", "wordtag") and tagger.tagger.makes_words:
        raise ConfigError(f"the model makes words of characters: it takes raw text, and {form} has words already")
    options = {} if form in (PARQUET, JSONL, TEXT, TOKENS) else dict(reading or {})
    # Everything that the output depends on, beside the shards.
    settings = {
        "model": tagger.fingerprint,
        "to": to,
        "from": form,
        "text": text,
        "tokens": tokens,
        "outputs": list(tagger.wanted),
        "sentences": sentences,
        "prefix": prefix,
        "encoding": encoding,
        "reading": options,
        "trellis": trellis.__version__,
    }
    fingerprint = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    job = ShardJob(tagger, form, to, os.path.abspath(out), fingerprint, strict, encoding, options)
    with _output_folder(Path(out), settings, resume) as is_resumed:
        run = ShardRun(job, shards, is_resumed, progress)
        if run.left:
            with open_engine(engine, workers) as opened:
                run.work(opened)
        return run.finish()


@contextmanager
def _output_folder(out: Path, settings: dict[str, Any], resume: bool) -> Iterator[bool]:
    """Hold the output folder: an empty one for a new run, that of the same run to resume; says which it is."""
    is_resumed = _check_folder(out, settings, resume)
    try:
        (out / META).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{out} cannot be written: {error.strerror or error}") from None

    def remove_partial() -> None:
        for folder, _, _ in os.walk(out):
            files.remove_partial(folder)

    with locked(out / META, "is tagging into it"):
        if is_resumed:
            remove_partial()
        files.write_json(out / META / "job.json", settings)
        try:
            yield is_resumed
        except BaseException:
            remove_partial()  # of workers that were ended
            raise


def _check_folder(out: Path, settings: dict[str, Any], resume: bool) -> bool:
    """Whether there is a run to go on with; anything else in the folder is refused, as is another run."""
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file: expected a folder for the tagged shards")
    earlier = read_json(out / META / "job.json")
    if earlier is None:
        names = sorted(name for name in os.listdir(out) if name != META) if out.is_dir() else []
        if names:
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            raise DataError(f"{out} holds other things ({some}): choose a folder that is empty or does not exist")
        return False
    has_output = any(
        not name.startswith(".")  # what begins with a dot is left of a shard that was not written
        for folder, _, names in os.walk(out)
        if META not in Path(folder).relative_to(out).parts[:1]
        for name in names
    )
    if has_output and not resume:
        raise DataError(f"{out} holds tagged shards already: go on with --resume, or choose another folder")
    if has_output:
        old = earlier if isinstance(earlier, dict) else {}
        changed = [name for name in settings if old.get(name) != settings[name]]
        if "model" in changed:
            raise ModelError(
                f"{out} was begun with another model (SHA-256 {str(old.get('model'))[:16]}..., now "
                f"{settings['model'][:16]}...): --resume would mix the answers of two models; choose another folder"
            )
        for name in changed:
            raise ConfigError(
                f"{out} was begun with {name} = {old.get(name)!r}, now {settings[name]!r}: --resume goes on with the "
                "same settings only; choose another folder for others"
            )
    return True


def find_shards(inputs: Sequence[str | os.PathLike[str]]) -> list[Shard]:
    """The files of folders, at any depth, and files that are named themselves; sorted, so that every run has the same.

    What begins with a dot or an underscore in a folder is no data, as for Spark and Hive.
    """
    shards = []
    for path, inside in find_files(inputs):
        suffix, packing = split_suffixes(path)
        name, about = inside.as_posix(), path.stat()
        stem = name[: len(name) - len(suffix) - len(packing)]
        shards.append(Shard(os.path.abspath(path), stem or name, about.st_size, about.st_mtime_ns))
    if not shards:
        raise DataError(f"there is nothing to tag in {', '.join(map(str, inputs))}: expected files in it")
    shards.sort(key=lambda shard: shard.name)
    for one, other in pairwise(shards):
        if one.name == other.name:
            raise DataError(f"{one.path} and {other.path} would both be written as {one.name}: rename one of them")
    return shards


def _format_of(shards: list[Shard], asked: str | None) -> str:
    """The format of all shards: the one that is asked for, or what their names say, which must be the same for all."""
    if asked is not None:
        if asked not in SHARD_FORMATS:
            raise ConfigError(f"unknown format {asked!r} of shards, expected one of {', '.join(SHARD_FORMATS)}")
        return asked
    first = ""
    for shard in shards:
        try:
            form = _SUFFIXES.get(split_suffixes(shard.path)[0]) or format_of_path(shard.path).name
        except DataError:
            raise DataError(
                f"{shard.path}: its name tells no format; give --from (in Python format=) with one of "
                f"{', '.join(SHARD_FORMATS)}, or move it elsewhere if it is no data"
            ) from None
        if form not in SHARD_FORMATS:
            raise DataError(f"{shard.path}: shards cannot be {form}, only {', '.join(SHARD_FORMATS)}")
        first = first or form
        if form != first:
            raise DataError(
                f"the folder mixes formats: {shards[0].path} is {first}, {shard.path} is {form}; tag them in runs of "
                "their own, or give the format of all with --from (in Python format=)"
            )
    return first


class ShardRun:
    """A run: the shards that are left, and what came of those that were tried."""

    def __init__(
        self, job: ShardJob, shards: list[Shard], is_resumed: bool, progress: Callable[[FolderProgress], None]
    ) -> None:
        self._job, self._show = job, progress
        marks = ((shard.name, self._mark(shard)) for shard in shards if is_resumed)
        self._marks = {name: mark for name, mark in marks if mark is not None}
        self.left = [shard for shard in shards if shard.name not in self._marks]
        self._report = FolderReport(len(shards), len(self._marks))
        size = sum(shard.size for shard in self.left)
        self._progress = FolderProgress(len(self._marks), len(shards), 0, 0, 0, size, 0)
        self._telling, self._stopping = threading.Lock(), False

    def _mark(self, shard: Shard) -> Done | None:
        """The mark of a shard that is done and has not changed since."""
        values = read_json(self._job.path_of("done", shard))
        try:
            mark = Done(**values)
        except TypeError:  # none, or not one
            return None
        output = self._job.path_of("output", shard)
        if not output.is_file() or output.stat().st_size != mark.output_bytes:
            return None
        if mark.settings != self._job.settings or mark.source_bytes != shard.size:
            return None
        is_unchanged = shard.time == mark.source_time or file_digest(shard.path) == mark.source_sha256
        return mark if is_unchanged else None

    def work(self, engine: Engine) -> None:
        """Tag what is left, as many shards at a time as there are workers, large ones first."""
        waiting = sorted(self.left, key=lambda shard: -shard.size)
        with ThreadPoolExecutor(engine.workers) as pool:
            under_way: dict[Future[Done | str], Shard] = {}
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < engine.workers:
                        shard = waiting.pop(0)
                        under_way[pool.submit(self._try, engine, shard)] = shard
                    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                        self._take(under_way.pop(future), future.result())
            except BaseException:
                self._stopping = True
                engine.close()  # so that the threads come to their ends
                raise

    def _try(self, engine: Engine, shard: Shard) -> Done | str:
        problem = ""
        for _ in range(_ATTEMPTS):
            try:
                return engine.run(self._job, shard, lambda rows, tokens: self._advance(rows=rows, tokens=tokens))
            except WorkerLost as error:
                problem = str(error)
                if self._stopping:
                    break
        return f"{shard.path}: {problem}, {_ATTEMPTS} times: is it too large for the memory?"

    def _take(self, shard: Shard, result: Done | str) -> None:
        if isinstance(result, Done):
            self._marks[shard.name] = result
            self._advance(shards=1, bytes=shard.size, left=-shard.size, done_tokens=result.tokens)
        elif self._job.strict or (isinstance(result, SettingsRefused) and not self._marks):
            raise DataError(result)
        else:
            self._report.failed[shard.path] = result

    def _advance(self, **counts: int) -> None:
        """Add counts to the progress, and show it."""
        with self._telling:
            sums = {name: getattr(self._progress, name) + count for name, count in counts.items()}
            self._progress = replace(self._progress, **sums)
            self._show(self._progress)

    def finish(self) -> FolderReport:
        """Write the checksums if all is done, and say what came of it."""
        marks = [self._marks[name] for name in sorted(self._marks)]
        if not self._report.failed:
            sums = "".join(f"{mark.output_sha256}  {mark.output}\n" for mark in marks)
            files.write_text(Path(self._job.out, META, "SHA256SUMS"), sums)
        rows, tokens, bad = (sum(getattr(mark, name) for mark in marks) for name in ("rows", "tokens", "bad"))
        return replace(self._report, rows=rows, tokens=tokens, bad=bad)


@dataclass(frozen=True)
class Shard:
    """One file to be tagged."""

    path: str
    name: str
    """The path within its folder without suffix, which is that of the output."""
    size: int
    """Bytes on the disk."""
    time: int
    """When it was last changed, in nanoseconds."""


@dataclass(frozen=True)
class Record:
    """One text or sentence of a shard."""

    line: int
    item: Item | TrellisError
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The fields of a JSON record, or the further columns of a sentence, which the output keeps."""
    raw: str = ""
    """The text in the file, for the list of bad records."""


@dataclass(frozen=True)
class Done:
    """The mark of a shard that is done: its source, its output and their checksums."""

    settings: str
    """The fingerprint of the model and of all settings that the output depends on."""
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
    """How every shard of a run is read, tagged and written; it is pickled to the workers."""

    tagger: BulkTagger
    source: str
    """The format of the shards."""
    to: str
    out: str
    settings: str
    strict: bool = False
    """Whether a bad record is an error."""
    encoding: str = "utf-8"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the reader of the format, such as the column of the tokens."""

    def path_of(self, kind: str, shard: Shard) -> Path:
        """Where a file of a shard goes: "output", "bad" or "done"."""
        if kind == "output":
            return Path(self.out, f"{shard.name}.{self.to}")
        return Path(self.out, META, kind, f"{shard.name}.{'json' if kind == 'done' else 'jsonl'}")

    def run(self, shard: Shard, tell: Tell = lambda rows, tokens: None) -> Done:
        """Tag a shard and mark it."""
        digest = file_digest(shard.path)
        paths = {kind: self.path_of(kind, shard) for kind in ("output", "bad", "done")}
        for path in paths.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        with SpooledTemporaryFile(_HELD, "w+", encoding="utf-8", newline="\n") as bad:
            with files.replacing(paths["output"]) as partial:
                tagging = _ShardTagging(self, shard, tell, bad)
                if self.source == PARQUET:
                    tagging.tag_table(partial)
                else:
                    tagging.tag_records(partial)
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


class _ShardTagging:
    """A shard being tagged: what is written, its counts, and its bad records."""

    def __init__(self, job: ShardJob, shard: Shard, tell: Tell, bad: IO[str]) -> None:
        self._job, self._shard, self._tell, self._bad = job, shard, tell, bad
        self._tagger, self._prefix = job.tagger, job.tagger.prefix
        self.rows = self.tokens = self.bad = 0

    def tag_table(self, path: Path) -> None:
        """Write the tagged rows of a Parquet file."""
        with opened_parquet(self._shard.path) as source:
            schema = self._tagger.schema(source.schema_arrow, _OPTION)
            with self._rows_of(path, schema) as write:
                first = 1
                for batch in parquet_chunks(source, self._shard.path):
                    answers, names = self._tagger.ask(batch)
                    refused = {row: _json_line(_row_of(batch, row)).rstrip("\n") for row in answers.refused}
                    self._count(answers, "row", {row: (first + row, raw) for row, raw in refused.items()})
                    first += len(batch)
                    if refused:
                        good = [row for row in range(answers.count) if row not in refused]
                        batch = batch.take(numbers(np.array(good, np.int64)))
                    table = arrow().Table.from_batches([batch])
                    write(answers.without_refused().added_to(table, names, self._prefix, errors=False))

    def tag_records(self, path: Path) -> None:
        """Write the tagged records of a file that is not Parquet: its lines, JSON objects or sentences."""
        names = column_names(self._tagger.wanted, with_tokens=True)
        to_parquet = self._job.to == PARQUET
        schema = self._table([], RowAnswers(0, [], {}, self._tagger.scored), names).schema if to_parquet else None
        source = Source(self._shard.path, encoding=self._job.encoding, on_error="skip", keep_broken=True)
        records = (
            Record(record.line, DataError(record.problem), raw=record.whole)
            if isinstance(record, CorpusError)
            else record
            for record in source.relayed(self._records(source))
        )
        chunks = in_blocks(records, lambda record: len(record.raw), _CHUNK_CHARACTERS, _CHUNK_ROWS)
        with self._rows_of(path, schema) as write:
            for number, chunk in enumerate(chunks):
                if not to_parquet:  # there, the fields have a column of their own
                    chunk = self._check_names(chunk, names, is_first=number == 0)
                answers = self._tagger.answer([record.item for record in chunk])
                self._count(answers, "line", {row: (chunk[row].line, chunk[row].raw) for row in answers.refused})
                good = [record for row, record in enumerate(chunk) if row not in answers.refused]
                write((self._table if to_parquet else self._json_rows)(good, answers.without_refused(), names))

    def _rows_of(self, path: Path, schema: Any) -> AbstractContextManager[Callable[[Any], None]]:
        return _parquet_rows(path, schema) if self._job.to == PARQUET else _json_rows(path)

    def _records(self, source: Source) -> Iterator[Record]:
        if self._job.source == JSONL:
            return (self._json_record(number, raw, value) for number, raw, value in records(source))
        if self._job.source == TEXT:
            return (Record(number, line, raw=line) for number, line in source.lines())
        if self._job.source == TOKENS:
            split = splitter("whitespace").split
            return (Record(number, Sentence(split(line)), raw=line) for number, line in source.lines())
        sentences = Stream.of(get_format(self._job.source), source, dict(self._job.options))
        return (
            Record(one.line_of(0) or 0, one.with_tags(None), one.columns, " ".join(one.tokens)) for one in sentences
        )

    def _json_record(self, line: int, raw: str, value: Any) -> Record:
        text, tokens = self._tagger.text, self._tagger.tokens
        if not isinstance(value, dict):
            return Record(line, DataError(f"expected a JSON object, found {shown(value)}"), raw=raw)
        if text is None and (tokens is not None or "tokens" in value):
            return Record(line, checked_sentence(value, tokens or "tokens"), value, raw)
        name = text or "text"
        if name not in value:
            problem = f"expected a field {name!r}, found {', '.join(map(shown, islice(value, 10))) or 'none'}"
            return Record(line, DataError(problem), raw=raw)
        return Record(line, checked_text(value[name], name), value, raw)

    def _count(self, answers: RowAnswers, unit: str, refused: dict[int, tuple[int, str]]) -> None:
        """Count what was done and list the rows that are refused, which come with their numbers and contents."""
        for row, reason in sorted(answers.refused.items()):
            number, raw = refused[row]
            if self._job.strict:
                raise DataError(f"{self._shard.path}:{number}: {reason}")
            record = {"record": raw} if raw else {}
            self._bad.write(dumps({"file": self._shard.path, unit: number, "reason": reason, **record}))
        rows, tokens = answers.count - len(refused), sum(len(block.tokens) for block in answers.blocks)
        self.rows, self.tokens, self.bad = self.rows + rows, self.tokens + tokens, self.bad + len(refused)
        self._tell(rows, tokens)

    def _check_names(self, chunk: list[Record], names: list[str], *, is_first: bool) -> list[Record]:
        """Records with a field that an answer would replace are bad; if all first ones are, the settings are wrong."""
        added = {self._prefix + name for name in names}
        tokens = self._tagger.tokens or "tokens"  # of a sentence, these are the answer themselves
        checked = []
        for record in chunk:
            hidden = added - {tokens} if isinstance(record.item, Sentence) else added
            clash = next((name for name in record.fields if name in hidden), None)
            if clash is not None and not isinstance(record.item, TrellisError):
                problem = f"the record has a field {clash!r} already: give {_OPTION.format('prefix')} for the names"
                record = replace(record, item=NameTaken(f"{problem} of new fields"))
            checked.append(record)
        refused = next((record for record in checked if isinstance(record.item, NameTaken)), None)
        if is_first and refused is not None and all(isinstance(record.item, TrellisError) for record in checked):
            raise NameTaken(f"{self._shard.path}:{refused.line}: {refused.item}")
        return checked

    def _json_rows(self, good: list[Record], answers: RowAnswers, names: list[str]) -> list[dict[str, Any]]:
        """The fields of records with the answers behind them; records that are not JSON have their line and text."""
        columns = {self._prefix + name: answers.lists(name) for name in names}
        rows = []
        for record, values in zip(good, zip(*columns.values(), strict=True), strict=True):
            text = {"text": record.item} if isinstance(record.item, str) else {}
            place = {} if self._job.source == JSONL else {"line": record.line, **text}
            rows.append({**place, **record.fields, **dict(zip(columns, values, strict=True))})
        return rows

    def _table(self, good: list[Record], answers: RowAnswers, names: list[str]) -> Any:
        """The line and the text, as JSON the fields that have no column, and the answers."""
        texts = [one.item if isinstance(one.item, str) else getattr(one.item, "text", None) for one in good]
        columns = {"line": numbers(np.array([record.line for record in good], np.int64)), "text": strings(texts)}
        if self._job.source != TEXT:
            known = self._tagger.text or "text", self._tagger.tokens or "tokens"
            rest = [{name: value for name, value in one.fields.items() if name not in known} for one in good]
            columns["fields"] = strings([dumps(fields).rstrip("\n") if fields else None for fields in rest])
        columns |= {self._prefix + name: answers.arrow(name) for name in names}
        return arrow().table(columns)


@contextmanager
def _parquet_rows(path: Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """A function that adds the rows of a table to a Parquet file; how tables were cut does not show in the file.

    They are held back until they are worth a row group, so that the bytes of the file depend on its rows alone.
    """
    held: list[Any] = []

    def write(rows: Any) -> None:
        if len(rows):  # Parquet has no empty row groups
            held.append(rows if rows.schema.equals(schema) else rows.cast(schema))
            if sum(table.nbytes for table in held) >= _ROW_GROUP:
                flush()

    def flush() -> None:
        if held:
            whole = arrow().concat_tables(held).combine_chunks()
            file.write_table(whole, row_group_size=len(whole))
            held.clear()

    with (
        arrow().OSFile(os.fsencode(path), "wb") as sink,  # a name may be of any bytes
        parquet().ParquetWriter(sink, schema, compression="zstd") as file,
    ):
        yield write
        flush()


@contextmanager
def _json_rows(path: Path) -> Iterator[Callable[[Any], None]]:
    """A function that adds the rows of a table, or dicts, to a file of JSON Lines."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        yield lambda rows: file.writelines(map(_json_line, rows if isinstance(rows, list) else rows.to_pylist()))


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


def _row_of(batch: Any, row: int) -> dict[str, Any]:
    """A row of a record batch; what Python has no value for (nanoseconds, broken UTF-8) is a text."""
    values: dict[str, Any] = {}
    for name in batch.schema.names:
        value = batch.column(name)[row]
        try:
            values[name] = value.as_py()
        except (ValueError, OverflowError):
            if hasattr(value, "as_buffer"):  # a string
                values[name] = value.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
            else:
                values[name] = " ".join(batch.column(name).slice(row, 1).to_string().split()).strip("[] ")
    return values
