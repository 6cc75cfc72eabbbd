"""Folders of shards, tagged: which are left to do, who does them, and what came of it.

    OUT/_trellis/job.json       what the run is: the model's fingerprint and every setting that the output depends on
    OUT/_trellis/SHA256SUMS     checksums of all outputs, for ``sha256sum -c``, once all are done
    OUT/_trellis/.lock          who is writing there, while someone is

The files of each shard are in shard.py.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trellis
from trellis import files
from trellis.corpus.tables import parquet
from trellis.distributed.bulk import BulkTagger
from trellis.distributed.engines import check_engine, open_engine
from trellis.distributed.reading import ShardReader
from trellis.distributed.running import FolderProgress, FolderReport, ShardRun
from trellis.distributed.shard import META, ShardJob
from trellis.distributed.shards import PARQUET, common_format, find_shards
from trellis.distributed.writing import check_form
from trellis.errors import ConfigError, DataError, ModelError
from trellis.training.lock import locked
from trellis.training.record import read_json, write_json


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
    check_form(to)
    check_engine(engine, workers)
    shards = find_shards(inputs)
    form = common_format(shards, format)
    if PARQUET in (to, form):
        parquet()  # what is missing is said before any work
    _check_apart(inputs, Path(out))
    tagger = BulkTagger(
        os.path.abspath(model), text=text, tokens=tokens, outputs=outputs, sentences=sentences, prefix=prefix
    )
    if form in ("conllu", "wordtag") and tagger.tagger.makes_words:
        raise ConfigError(f"the model makes words of characters: it takes raw text, and {form} has words already")
    own = {} if form in (PARQUET, "jsonl", "text", "tokens") else dict(reading or {})
    how = ShardReader(form, text, tokens, encoding, own)
    about = _settings(tagger, how, to)
    job = ShardJob(tagger, how, to, os.path.abspath(out), _fingerprint(about), strict)
    with _opened(Path(out), about, resume) as known:
        run = ShardRun(job, shards, known, progress)
        if run.left:
            with open_engine(engine, workers) as workers_of:
                run.work(workers_of)
        return run.finish()


def _check_apart(inputs: Sequence[str | os.PathLike[str]], out: Path) -> None:
    """The output is no input of the next run, nor the other way round."""
    for given in inputs:
        one, other = Path(given).resolve(), out.resolve()
        if one == other or one in other.parents or other in one.parents:
            raise ConfigError(f"the output {out} and the input {given} lie within each other: choose another folder")


def _settings(tagger: BulkTagger, how: ShardReader, to: str) -> dict[str, Any]:
    """Everything that the output depends on, beside the shards."""
    return {
        "model": tagger.fingerprint,
        "to": to,
        "from": how.format,
        "text": how.text,
        "tokens": how.tokens,
        "outputs": list(tagger.wanted),
        "sentences": tagger.sentences,
        "prefix": tagger.prefix,
        "encoding": how.encoding,
        "reading": dict(how.options),
        "trellis": trellis.__version__,
    }


def _fingerprint(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


@contextmanager
def _opened(out: Path, about: dict[str, Any], resume: bool) -> Iterator[bool]:
    """Hold the output folder: an empty one for a new run, that of the same run to resume; says which it is."""
    known = _check_folder(out, about, resume)
    try:
        (out / META).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{out} cannot be written: {error.strerror or error}") from None
    with locked(out / META, "is tagging into it"):
        if known:
            _remove_partial(out)
        write_json(out / META / "job.json", about)
        try:
            yield known
        except BaseException:
            _remove_partial(out)  # of workers that were ended
            raise


def _remove_partial(out: Path) -> None:
    for folder, _, _ in os.walk(out):
        files.remove_partial(folder)


def _check_folder(out: Path, about: dict[str, Any], resume: bool) -> bool:
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
    if not resume and _has_output(out):
        raise DataError(f"{out} holds tagged shards already: go on with --resume, or choose another folder")
    if _has_output(out):
        _check_same(out, before, about)
    return True


def _has_output(out: Path) -> bool:
    """Whether a shard was written; what begins with a dot is left of one that was not."""
    return any(
        not name.startswith(".")
        for place, _, names in os.walk(out)
        if META not in Path(place).relative_to(out).parts[:1]
        for name in names
    )


def _check_same(out: Path, before: Any, about: Mapping[str, Any]) -> None:
    old = before if isinstance(before, dict) else {}
    changed = [name for name in about if old.get(name) != about[name]]
    if "model" in changed:
        raise ModelError(
            f"{out} was begun with another model (SHA-256 {str(old.get('model'))[:16]}..., now "
            f"{about['model'][:16]}...): --resume would mix the answers of two models; choose another folder"
        )
    if changed:
        was, now = f"{changed[0]} = {old.get(changed[0])!r}", f"{about[changed[0]]!r}"
        raise ConfigError(
            f"{out} was begun with {was}, now {now}: --resume goes on with the same settings only; "
            "choose another folder for others"
        )
