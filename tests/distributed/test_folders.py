"""Folders of shards: what is read, what is written, what is bad, and runs that are killed and go on."""

from __future__ import annotations

import gzip
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trellis
from tests.distributed.conftest import TEXTS, tree
from trellis.distributed import FolderProgress, folders, tag_folder
from trellis.distributed.bulk import file_digest
from trellis.distributed.engines import LocalEngine, WorkerLost
from trellis.distributed.folders import Done, Shard, ShardJob, Tell, find_shards
from trellis.errors import ConfigError, DataError, ModelError


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_shard_of_text_becomes_rows_in_order_with_their_lines(ner_model, shards, tmp_path, inline):
    report = tag_folder(ner_model, [shards], tmp_path / "out", outputs=["tags", "spans", "probabilities"])
    assert (report.shards, report.before, report.rows, report.bad, report.failed) == (6, 0, 30, 0, {})
    rows = pq.read_table(tmp_path / "out" / "part-1.parquet").to_pylist()
    texts = TEXTS[1:] + TEXTS[:1]
    assert [(row["line"], row["text"]) for row in rows] == list(enumerate(texts, 1))
    found = [one.to_dict() for one in trellis.load(ner_model).annotate(texts)]
    for name in ("tokens", "tags", "spans", "probabilities"):
        assert [row[name] for row in rows] == [one[name] for one in found]
    assert report.tokens == 6 * sum(len(one["tokens"]) for one in found)


def test_the_done_marks_hold_checksums_that_other_programs_can_check(ner_model, shards, tmp_path, inline):
    out = tmp_path / "out"
    tag_folder(ner_model, [shards], out)
    mark = json.loads((out / "_trellis" / "done" / "part-2.json").read_text())
    assert mark["output_sha256"] == file_digest(out / "part-2.parquet")
    assert mark["source_sha256"] == file_digest(shards / "part-2.txt")
    assert mark["model"] == file_digest(ner_model / "model.safetensors")
    assert mark["rows"] == 5
    sums = (out / "_trellis" / "SHA256SUMS").read_text().splitlines()
    assert sums[2] == f"{mark['output_sha256']}  part-2.parquet"
    assert len(sums) == 6


FORMATS = {
    "text": "".join(f"{text}\n" for text in TEXTS),
    "jsonl": "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(TEXTS)),
    "conll": "Anna\tX\tO\nslept\tY\tO\n\nIn\tX\tO\nRome\tY\tO\n",
    "tokens": "Anna slept\nIn Rome\n",
}
SUFFIXES = {"text": "txt", "jsonl": "jsonl", "conll": "conll", "tokens": "tok"}


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_compressed_or_not_and_every_form(ner_model, tmp_path, inline, form, packed, to):
    place = tmp_path / "in" / "deep"
    place.mkdir(parents=True)
    data = FORMATS[form].encode()
    name = f"a.{SUFFIXES[form]}"
    (place / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)
    asked = form if form == "tokens" else None
    tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to=to, format=asked)
    path = tmp_path / "out" / "deep" / f"a.{to}"
    rows = pq.read_table(path).to_pylist() if to == "parquet" else lines_of(path)
    tagger = trellis.load(ner_model)
    if form in ("text", "jsonl"):
        assert [row["text"] for row in rows] == TEXTS
        assert [row["tags"] for row in rows] == [list(one.tags) for one in tagger.annotate(TEXTS)]
    else:
        assert [row["tokens"] for row in rows] == [["Anna", "slept"], ["In", "Rome"]]
        assert [row["tags"] for row in rows] == tagger.predict([["Anna", "slept"], ["In", "Rome"]])
    if form == "jsonl":
        kept = [json.loads(row["fields"])["id"] for row in rows] if to == "parquet" else [row["id"] for row in rows]
        assert kept == list(range(5)), "what else a record has is kept"
    if form == "conll":
        kept = [json.loads(row["fields"]) for row in rows] if to == "parquet" else rows
        assert kept[0]["1"] == ["X", "Y"]


def test_parquet_keeps_its_columns_and_the_order_across_row_groups(ner_model, tmp_path, inline, monkeypatch):
    monkeypatch.setattr("trellis.corpus.rows._ROWS", 3)
    monkeypatch.setattr("trellis.distributed.folders._ROW_GROUP", 1)
    table = pa.table({"id": range(20), "text": TEXTS * 4, "when": pa.array(range(20), pa.timestamp("ms"))})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet", row_group_size=7)
    tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out")
    tagged = pq.read_table(tmp_path / "out" / "a.parquet")
    assert tagged.select(table.column_names) == table
    assert tagged.column("tags").to_pylist() == [list(one.tags) for one in trellis.load(ner_model).annotate(TEXTS * 4)]
    tag_folder(ner_model, [tmp_path / "in"], tmp_path / "lines", to="jsonl")
    rows = lines_of(tmp_path / "lines" / "a.jsonl")
    assert rows[3]["when"] == "1970-01-01 00:00:00.003000"
    assert [row["id"] for row in rows] == list(range(20))


def test_an_empty_shard_becomes_an_empty_one(ner_model, tmp_path, inline):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "in" / "a.parquet")
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out")
    assert (report.rows, report.failed) == (0, {})
    assert pq.read_table(tmp_path / "out" / "a.parquet").column_names == ["text", "tokens", "tags", "spans"]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "b.txt").write_bytes(b"")
    assert tag_folder(ner_model, [tmp_path / "texts"], tmp_path / "out2").rows == 0


BAD_LINES = (
    b'{"text": "Anna slept."}\n'  # 1
    b"{broken\n"
    b'{"text": 3}\n'
    b"[1, 2]\n"
    b'{"body": "no text"}\n'  # 5
    b'{"text": "\\ud800"}\n'
    b'{"text": "\xff"}\n'
    b'{"tokens": ["a", null]}\n'
    b'{"text": "It rained."}\n'  # 9
)


def test_bad_records_are_listed_with_their_places_and_the_rest_is_tagged(ner_model, tmp_path, inline):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(BAD_LINES)
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to="jsonl")
    assert (report.rows, report.bad, report.failed) == (2, 7, {})
    assert [row["text"] for row in lines_of(tmp_path / "out" / "a.jsonl")] == ["Anna slept.", "It rained."]
    bad = lines_of(tmp_path / "out" / "_trellis" / "bad" / "a.jsonl")
    assert [one["line"] for one in bad] == list(range(2, 9))
    assert {one["file"] for one in bad} == {str(tmp_path / "in" / "a.jsonl")}
    reasons = "\n".join(one["reason"] for one in bad)
    for part in ("expected JSON", "found 3", "expected a JSON object", "expected a field 'text'", "lone surrogate"):
        assert part in reasons
    assert bad[0]["record"] == "{broken"


HOSTILE = {
    "cut.jsonl.gz": gzip.compress(BAD_LINES)[:-9],
    "nonsense.parquet": b"PAR1 and no more",
    "empty.parquet": b"",
    "picture.txt": b"\x89PNG\r\n\x1a\n" + bytes(100),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_shard_fails_alone_and_leaves_nothing(ner_model, tmp_path, inline, name):
    (tmp_path / "in").mkdir()
    good = tmp_path / "in" / f"good{name[name.index('.') :]}"
    if ".parquet" in name:
        pq.write_table(pa.table({"text": TEXTS}), good)
    else:
        data = b'{"text": "Anna."}\n' if "json" in name else b"Anna.\n"
        good.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "in" / name).write_bytes(HOSTILE[name])
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out")
    assert list(report.failed) == [str(tmp_path / "in" / name)]
    assert name in report.failed[str(tmp_path / "in" / name)]
    left = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert left == {"good.parquet", "_trellis/job.json", "_trellis/done/good.json"}


def test_resume_does_what_is_left_and_only_that(ner_model, shards, tmp_path, inline):
    whole, out = tmp_path / "whole", tmp_path / "out"
    tag_folder(ner_model, [shards], whole)
    tag_folder(ner_model, [shards], out)
    (out / "part-1.parquet").unlink()  # lost
    (out / "part-2.parquet").write_bytes(b"cut")
    (out / "_trellis" / "done" / "part-3.json").write_text("{")  # no mark
    (out / "_trellis" / "done" / "part-4.json").unlink()
    (out / ".part-4.parquet.0123abcd.partial").write_bytes(b"left by a kill")
    os.utime(shards / "part-0.txt")  # touched, not changed
    inline.asked.clear()
    (out / "_trellis" / "done" / "part-3.json").write_text("[]")
    report = tag_folder(ner_model, [shards], out, resume=True)
    assert sorted(inline.asked) == ["part-1", "part-2", "part-3", "part-4"]
    assert (report.before, report.shards, report.rows) == (2, 6, 30)
    assert tree(out) == tree(whole)


def test_a_shard_that_changed_is_tagged_again(ner_model, shards, tmp_path, inline):
    tag_folder(ner_model, [shards], tmp_path / "out")
    inline.asked.clear()
    changed = (shards / "part-5.txt").read_text().replace("Anna", "Paul")
    (shards / "part-5.txt").write_text(changed)
    (shards / "part-6.txt").write_text("Rome.\n")
    tag_folder(ner_model, [shards], tmp_path / "out", resume=True)
    assert sorted(inline.asked) == ["part-5", "part-6"]


def test_resume_with_another_model_or_other_settings_is_refused(ner_model, other_model, shards, tmp_path, inline):
    out = tmp_path / "out"
    tag_folder(ner_model, [shards], out)
    before = tree(out)
    with pytest.raises(ModelError, match=r"was begun with another model .*would mix the answers of two models"):
        tag_folder(other_model, [shards], out, resume=True)
    with pytest.raises(ConfigError, match="was begun with sentences = False, now True"):
        tag_folder(ner_model, [shards], out, resume=True, sentences=True)
    with pytest.raises(DataError, match="holds tagged shards already: go on with --resume"):
        tag_folder(ner_model, [shards], out)
    assert tree(out) == before
    assert tag_folder(ner_model, [shards], out, resume=True).before == 6


def test_folders_that_cannot_be_meant(ner_model, shards, tmp_path, inline):
    (tmp_path / "none").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("mine")
    cases = [
        ([tmp_path / "nowhere"], tmp_path / "out", "nowhere: no such file or folder"),
        ([tmp_path / "none"], tmp_path / "out", "there is nothing to tag in .*none"),
        ([shards], tmp_path / "full", r"holds other things \(thesis.doc\): choose a folder that is empty"),
        ([shards], tmp_path / "full" / "thesis.doc", "is a file: expected a folder"),
        ([shards], shards / "out", "lie within each other"),
        ([shards], tmp_path, "lie within each other"),
        ([shards, shards], tmp_path / "out", "would both be written as part-0"),
        ([tmp_path / "full"], tmp_path / "out", "its name tells no format; give --from"),
    ]
    for inputs, out, message in cases:
        with pytest.raises((DataError, ConfigError), match=message):
            tag_folder(ner_model, inputs, out)
    assert not (tmp_path / "out").exists()
    (shards / "link").symlink_to(tmp_path / "full")
    with pytest.raises(DataError, match="link is a link to a folder: name that folder itself"):
        tag_folder(ner_model, [shards], tmp_path / "out")
    (shards / "link").unlink()
    os.mkfifo(shards / "pipe.txt")
    with pytest.raises(DataError, match="not a regular file"):
        tag_folder(ner_model, [shards], tmp_path / "out")


def test_mixed_formats_are_refused_unless_one_is_asked_for(ner_model, shards, tmp_path, inline):
    (shards / "b.jsonl").write_text('{"text": "Anna."}\n')
    (shards / "_SUCCESS").write_text("")
    (shards / ".hidden").write_text("")
    with pytest.raises(DataError, match=r"the folder mixes formats: .*b\.jsonl is jsonl, .*part-0\.txt is text"):
        tag_folder(ner_model, [shards], tmp_path / "out")
    assert tag_folder(ner_model, [shards], tmp_path / "out", format="text").shards == 7
    with pytest.raises(ConfigError, match="unknown format 'pdf' of shards, expected one of parquet, jsonl, text"):
        tag_folder(ner_model, [shards], tmp_path / "out2", format="pdf")


def test_two_runs_do_not_write_into_one_folder(ner_model, shards, tmp_path, inline):
    seen = []

    def meanwhile(progress: FolderProgress) -> None:
        if not seen:
            seen.append(progress)
            with pytest.raises(ModelError, match=r"is in use: process .* is tagging into it"):
                tag_folder(ner_model, [shards], tmp_path / "out", resume=True)

    tag_folder(ner_model, [shards], tmp_path / "out", progress=meanwhile)
    assert seen


def test_an_interrupted_run_leaves_whole_shards_and_no_lock(ner_model, shards, tmp_path, inline):
    def interrupt(progress: FolderProgress) -> None:
        if progress.shards == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tag_folder(ner_model, [shards], tmp_path / "out", progress=interrupt)
    names = [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sorted(names) == ["job.json", *(f"part-{i}.{form}" for i in (0, 1) for form in ("json", "parquet"))]
    assert tag_folder(ner_model, [shards], tmp_path / "out", resume=True).before == 2


class DeadlyJob(ShardJob):
    """Kills its worker at two shards: at part-1 always, at part-2 once."""

    def run(self, shard: Shard, tell: Tell = lambda rows, tokens: None) -> Done:
        met = Path(self.out, f"{shard.name}.met")
        if shard.name == "part-1" or (shard.name == "part-2" and not met.exists()):
            met.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(shard, tell)


@pytest.fixture(params=["copies", "programs"])
def kind_of_workers(request, monkeypatch):
    """Workers that are copies of this process, whatever threads it has, and programs of their own."""

    def may_fork():
        return request.param == "copies" and threading.current_thread() is threading.main_thread()

    monkeypatch.setattr("trellis.distributed.engines._may_fork", may_fork)


@pytest.mark.usefixtures("kind_of_workers")
def test_a_worker_that_dies_is_replaced_and_its_shard_tried_again(ner_model, shards, tmp_path, monkeypatch):
    whole, out = tmp_path / "whole", tmp_path / "out"
    tag_folder(ner_model, [shards], whole, workers=1)
    monkeypatch.setattr(folders, "ShardJob", DeadlyJob)
    report = tag_folder(ner_model, [shards], out, workers=2)
    assert list(report.failed) == [str(shards / "part-1.txt")]
    assert "the worker process ended with code -9, 3 times" in report.failed[str(shards / "part-1.txt")]
    monkeypatch.setattr(folders, "ShardJob", ShardJob)
    for met in out.glob("*.met"):
        met.unlink()
    assert tag_folder(ner_model, [shards], out, workers=2, resume=True).before == 5
    assert tree(out) == tree(whole), "with one worker or two, killed or not"


class BrokenJob(ShardJob):
    """Meets a mistake of the program at one shard, and leaves the process at two others."""

    def run(self, shard: Shard, tell: Tell = lambda rows, tokens: None) -> Done:
        with Path(self.out, f"{shard.name}.met").open("a") as met:
            met.write("x")
        if shard.name == "part-1":
            raise KeyError("a mistake\nof two lines")
        if shard.name == "part-2":
            raise SystemExit(7)
        if shard.name == "part-3":
            os._exit(7)
        return super().run(shard, tell)


@pytest.mark.usefixtures("kind_of_workers")
def test_an_exception_in_a_worker_is_told_once_and_not_tried_again(ner_model, shards, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "ShardJob", BrokenJob)
    report = tag_folder(ner_model, [shards], tmp_path / "out", workers=1)
    broken, left, ended = (str(shards / f"part-{i}.txt") for i in (1, 2, 3))
    assert set(report.failed) == {broken, left, ended}
    assert report.failed[broken] == f"{broken}: KeyError: 'a mistake\\nof two lines'"
    assert report.failed[left] == f"{left}: SystemExit: 7"
    assert [(tmp_path / "out" / f"part-{i}.met").read_text() for i in (1, 2, 3)] == ["x", "x", "xxx"]
    assert "the worker process ended with code 7, 3 times" in report.failed[ended], "its own code, not that of a kill"


@pytest.mark.usefixtures("kind_of_workers")
def test_a_job_that_a_worker_cannot_read_is_told(shards):
    with LocalEngine(1) as engine:
        told = engine.run(Unreadable(), find_shards([shards])[0], lambda rows, tokens: None)  # type: ignore[arg-type]
        assert told == "the worker cannot read its job: ModuleNotFoundError: No module named 'nowhere'"
        assert engine.run(Unreadable(), find_shards([shards])[0], lambda rows, tokens: None) == told  # type: ignore[arg-type]


class Unreadable:
    """Pickled as something of a module that is not there."""

    def __reduce__(self) -> Any:
        return importlib.import_module, ("nowhere",)


@pytest.mark.usefixtures("kind_of_workers")
def test_an_engine_that_is_closed_ends_its_workers():
    with LocalEngine(2) as engine:
        assert len(multiprocessing.active_children()) == 2
    assert multiprocessing.active_children() == []
    with pytest.raises(WorkerLost):
        engine.run(None, None, lambda rows, tokens: None)  # type: ignore[arg-type]


UNGUARDED = """
import multiprocessing, sys, threading
from trellis.distributed import tag_folder
from trellis.distributed.engines import LocalEngine

def kinds(workers):
    with LocalEngine(workers):
        return [process.name.partition("Process")[0] for process in multiprocessing.active_children()]

assert kinds(2) == ["Fork", "Fork"]
stopping = threading.Event()
thread = threading.Thread(target=stopping.wait)
thread.start()
assert kinds(1) == ["Spawn"]
stopping.set()
thread.join()
sys.modules["torch"] = None
assert kinds(1) == ["Spawn"]
model, shards, out = sys.argv[1:]
print(tag_folder(model, [shards], out, workers=2).rows)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")
def test_workers_are_copies_where_that_is_safe_and_a_script_needs_no_guard_where_they_are_not(
    ner_model, shards, tmp_path
):
    (tmp_path / "script.py").write_text(UNGUARDED)
    command = [sys.executable, "-W", "error", "script.py", ner_model, shards, "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "30\n", "")


KILLED = """
import os, pathlib, signal, sys
from trellis.distributed.folders import ShardRun
from trellis.cli import main

take = ShardRun._take

def deadly(self, shard, result):
    take(self, shard, result)
    if len(self._marks) == 3:
        tasks = pathlib.Path("/proc/self/task").glob("*/children")
        print(*(task.read_text() for task in tasks), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

ShardRun._take = deadly
main(["tag", *sys.argv[1:]])
"""


def test_after_kill_9_of_the_whole_run_resume_goes_on(ner_model, shards, tmp_path):
    for number in range(6):
        text = (shards / f"part-{number}.txt").read_text()
        (shards / f"part-{number}.txt").write_text(text * 200)
    out, whole = tmp_path / "out", tmp_path / "whole"
    command = [sys.executable, "-c", KILLED, str(ner_model), str(shards), "--workers", "2", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    workers = [Path(f"/proc/{pid}") for pid in done.stdout.split()]
    assert len(workers) == 2
    while any(worker.exists() for worker in workers):  # they end when the one that started them has
        time.sleep(0.01)
    report = tag_folder(ner_model, [shards], out, workers=1, resume=True)
    assert 3 <= report.before < 6
    tag_folder(ner_model, [shards], whole, workers=1)
    assert tree(out) == tree(whole)


def test_a_mistake_in_the_command_leaves_no_folder(ner_model, shards, tmp_path):
    with pytest.raises(ConfigError, match="unknown engine 'rya'"):
        tag_folder(ner_model, [shards], tmp_path / "out", engine="rya")
    assert not (tmp_path / "out").exists()


def test_a_run_that_did_nothing_needs_no_resume(ner_model, shards, tmp_path, monkeypatch):
    def fails(name: str, workers: int | None) -> None:
        raise ConfigError("no such extra")

    with monkeypatch.context() as patch:
        patch.setattr(folders, "open_engine", fails)
        with pytest.raises(ConfigError, match="no such extra"):
            tag_folder(ner_model, [shards], tmp_path / "out")
    assert tag_folder(ner_model, [shards], tmp_path / "out", workers=1).shards == 6


def test_a_stop_removes_what_workers_had_begun_to_write(ner_model, shards, tmp_path, inline):
    out = tmp_path / "out"

    def interrupt(progress: FolderProgress) -> None:
        (out / ".part-9.parquet.0123.partial").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tag_folder(ner_model, [shards], out, progress=interrupt)
    assert [name for name in os.listdir(out) if name.endswith(".partial")] == []
