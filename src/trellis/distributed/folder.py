"""Folders of shards, tagged: which files they are, which are left to do, and what came of the run.

    OUT/_trellis/job.json       what the run is: the model's fingerprint and every setting that the output depends on
    OUT/_trellis/SHA256SUMS     checksums of all outputs, for ``sha256sum -c``, once all are done
    OUT/_trellis/.lock          who is writing there, while someone is

The files of each shard are in shard.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import trellis
from trellis import files
from trellis.corpus import find_files, format_of_path, split_suffixes
from trellis.corpus.tables import parquet
from trellis.distributed.bulk import BulkTagger, file_digest
from trellis.distributed.engines import Engine, Result, SettingsRefused, WorkerLost, check_engine, open_engine
from trellis.distributed.shard import (
    JSONL,
    META,
    OUTPUT_FORMATS,
    PARQUET,
    SHARD_FORMATS,
    TEXT,
    TOKENS,
    Done,
    Shard,
    ShardJob,
    ShardReader,
)
from trellis.errors import ConfigError, DataError, ModelError
from trellis.training.lock import locked
from trellis.untrusted import read_json

_SUFFIXES = {".parquet": PARQUET, ".txt": TEXT, ".text": TEXT, ".seg": TEXT}
_ATTEMPTS = 3
"""How often a shard is tried whose worker dies: another process may have taken the memory."""


@dataclass(frozen=True)
class FolderProgress:
    """How far a run is."""

    shards: int
    all_shards: int
    rows: int
    tokens: int
    """Of this run, those of shards that are not done among them."""
    bytes: int
    """Of the shards that this run has done."""
    left: int
    """Bytes of the shards that are not done."""
    done_tokens: int
    """Of the shards that this run has done."""


@dataclass
class FolderReport:
    """What came of a run."""

    shards: int
    before: int
    """Shards that an earlier run had done."""
    rows: int = 0
    tokens: int = 0
    bad: int = 0
    """Records that could not be tagged, of all shards: see ``_trellis/bad``."""
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
    form = _common_format(shards, format)
    if PARQUET in (to, form):
        parquet()  # what is missing is said before any work
    for given in inputs:
        one, other = Path(given).resolve(), Path(out).resolve()
        if one == other or one in other.parents or other in one.parents:
            raise ConfigError(f"the output {out} and the input {given} lie within each other: choose another folder")
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
    reader = ShardReader(form, text, tokens, encoding, options)
    job = ShardJob(tagger, reader, to, os.path.abspath(out), fingerprint, strict)
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
    with locked(out / META, "is tagging into it"):
        if is_resumed:
            _remove_partial(out)
        files.write_json(out / META / "job.json", settings)
        try:
            yield is_resumed
        except BaseException:
            _remove_partial(out)  # of workers that were ended
            raise


def _remove_partial(out: Path) -> None:
    for folder, _, _ in os.walk(out):
        files.remove_partial(folder)


def _check_folder(out: Path, settings: dict[str, Any], resume: bool) -> bool:
    """Whether there is a run to go on with; anything else in the folder is refused, as is another run."""
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file: expected a folder for the tagged shards")
    before = read_json(out / META / "job.json")
    if before is None:
        found = sorted(name for name in os.listdir(out) if name != META) if out.is_dir() else []
        if found:
            some = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
            raise DataError(f"{out} holds other things ({some}): choose a folder that is empty or does not exist")
        return False
    has_output = any(
        not name.startswith(".")  # what begins with a dot is left of a shard that was not written
        for folder, _, names in os.walk(out)
        if META not in Path(folder).relative_to(out).parts[:1]
        for name in names
    )
    if not has_output:
        return True
    if not resume:
        raise DataError(f"{out} holds tagged shards already: go on with --resume, or choose another folder")
    old = before if isinstance(before, dict) else {}
    changed = [name for name in settings if old.get(name) != settings[name]]
    if "model" in changed:
        raise ModelError(
            f"{out} was begun with another model (SHA-256 {str(old.get('model'))[:16]}..., now "
            f"{settings['model'][:16]}...): --resume would mix the answers of two models; choose another folder"
        )
    if changed:
        was, now = f"{changed[0]} = {old.get(changed[0])!r}", f"{settings[changed[0]]!r}"
        raise ConfigError(
            f"{out} was begun with {was}, now {now}: --resume goes on with the same settings only; "
            "choose another folder for others"
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


def _common_format(shards: list[Shard], asked: str | None) -> str:
    """The format of all shards: the one that is asked for, or what their names say, which must be the same for all."""
    if asked is not None:
        if asked not in SHARD_FORMATS:
            raise ConfigError(f"unknown format {asked!r} of shards, expected one of {', '.join(SHARD_FORMATS)}")
        return asked
    first = _format_of(shards[0])
    other = next((shard for shard in shards if _format_of(shard) != first), None)
    if other is not None:
        raise DataError(
            f"the folder mixes formats: {shards[0].path} is {first}, {other.path} is {_format_of(other)}; tag them in "
            "runs of their own, or give the format of all with --from (in Python format=)"
        )
    return first


def _format_of(shard: Shard) -> str:
    found = _SUFFIXES.get(split_suffixes(shard.path)[0])
    try:
        found = found or format_of_path(shard.path).name
    except DataError:
        raise DataError(
            f"{shard.path}: its name tells no format; give --from (in Python format=) with one of "
            f"{', '.join(SHARD_FORMATS)}, or move it elsewhere if it is no data"
        ) from None
    if found not in SHARD_FORMATS:
        raise DataError(f"{shard.path}: shards cannot be {found}, only {', '.join(SHARD_FORMATS)}")
    return found


class ShardRun:
    """A run: the shards that are left, and what came of those that were tried."""

    def __init__(
        self, job: ShardJob, shards: list[Shard], is_resumed: bool, progress: Callable[[FolderProgress], None]
    ) -> None:
        self._job, self._shards, self._progress = job, shards, progress
        marks = {shard.name: self._mark(shard) for shard in shards} if is_resumed else {}
        self.left = [shard for shard in shards if marks.get(shard.name) is None]
        self._marks = {name: mark for name, mark in marks.items() if mark is not None}
        self._before = len(self._marks)
        self._failed: dict[str, str] = {}
        self._rows = self._tokens = self._done_tokens = self._bytes = 0
        self._size = sum(shard.size for shard in self.left)
        self._telling, self._stopping = threading.Lock(), False

    def _mark(self, shard: Shard) -> Done | None:
        """The mark of a shard that is done and has not changed since."""
        values = read_json(self._job.path_of("done", shard))
        try:
            mark = Done(**values)
        except TypeError:  # none, or not one
            return None
        output = self._job.path_of("output", shard)
        if not output.is_file() or output.stat().st_size != mark.output_bytes or mark.settings != self._job.settings:
            return None
        if shard.size != mark.source_bytes:
            return None
        unchanged = shard.time == mark.source_time or file_digest(shard.path) == mark.source_sha256
        return mark if unchanged else None

    def work(self, engine: Engine) -> None:
        """Tag what is left, as many shards at a time as there are workers, large ones first."""
        waiting = sorted(self.left, key=lambda shard: -shard.size)
        with ThreadPoolExecutor(engine.workers) as pool:
            under_way: dict[Future[Result], Shard] = {}
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

    def _try(self, engine: Engine, shard: Shard) -> Result:
        lost = ""
        for _ in range(_ATTEMPTS):
            try:
                return engine.run(self._job, shard, self._tell)
            except WorkerLost as error:
                lost = str(error)
                if self._stopping:
                    break
        return f"{shard.path}: {lost}, {_ATTEMPTS} times: is it too large for the memory?"

    def _tell(self, rows: int, tokens: int) -> None:
        with self._telling:
            self._rows, self._tokens = self._rows + rows, self._tokens + tokens
            self._show()

    def _take(self, shard: Shard, result: Result) -> None:
        if isinstance(result, Done):
            self._marks[shard.name] = result
            self._done_tokens, self._bytes = self._done_tokens + result.tokens, self._bytes + shard.size
        elif self._job.strict or (isinstance(result, SettingsRefused) and not self._marks):
            raise DataError(result)
        else:
            self._failed[shard.path] = result
        with self._telling:
            self._show()

    def _show(self) -> None:
        shards = len(self._marks), len(self._shards)
        left = self._size - self._bytes
        self._progress(FolderProgress(*shards, self._rows, self._tokens, self._bytes, left, self._done_tokens))

    def finish(self) -> FolderReport:
        """Write the checksums if all is done, and say what came of it."""
        marks = [self._marks[name] for name in sorted(self._marks)]
        if not self._failed:
            sums = "".join(f"{mark.output_sha256}  {mark.output}\n" for mark in marks)
            files.write_text(Path(self._job.out, META, "SHA256SUMS"), sums)
        rows, tokens, bad = (sum(getattr(mark, name) for mark in marks) for name in ("rows", "tokens", "bad"))
        return FolderReport(len(self._shards), self._before, rows, tokens, bad, self._failed)
