"""`trellis tag` of folders: options, messages, exit codes; what is written is tested with `trellis.distributed`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.cli.tag import described
from trellis.distributed import FolderProgress


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "in").mkdir()
    (here / "in" / "a.txt").write_text("Anna lives in Rome.\nIt rained.\n")
    (here / "in" / "b.txt").write_bytes(b"Paul slept.\n\xff\n")
    return here


def test_a_folder_becomes_a_folder_and_resume_goes_on(folder, shell, ner_model):
    done = shell("tag", ner_model, "in", "--to", "jsonl", "--out", "out", "--workers", "1", "--probs")
    assert done.code == 0
    assert done.out == ""
    assert done.err.splitlines() == [
        "out: 2 of 2 shards done: 3 rows, 11 tokens",
        "out: 1 record could not be tagged: see out/_trellis/bad",
    ]
    record = json.loads(Path("out/a.jsonl").read_text().splitlines()[0])
    assert [*record] == ["line", "text", "tokens", "tags", "spans", "probabilities"]
    again = shell("tag", ner_model, "in", "--to", "jsonl", "--out", "out", "--probs")
    assert (again.code, again.err) == (
        1,
        "trellis: out holds tagged shards already: go on with --resume, or choose another folder\n",
    )
    more = shell("tag", ner_model, "in", "--to", "jsonl", "--out", "out", "--probs", "--resume")
    assert more.err.startswith("out: 2 of 2 shards done, 2 of them before: 3 rows, 11 tokens\n")


def test_a_bad_record_is_an_error_if_it_is_asked_for(folder, shell, ner_model):
    done = shell("tag", ner_model, "in", "--out", "out", "--workers", "1", "--on-error", "stop")
    assert done.code == 1
    assert "b.txt:2: expected text in utf-8, found byte 0xff" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["in"], "in is tagged into a folder of tagged files: name it with --out"),
        (["--engine", "local"], "name the folder to tag"),
        (["in", "--out", "out", "--kbest", "2"], "--kbest is for single files"),
        (["in", "--out", "out", "--pipe", "--engine", "local"], "--pipe is for single files"),
        (["in", "--out", "out", "--engine", "hadoop"], "unknown engine 'hadoop', expected one of local, ray, spark"),
        (["in", "--out", "out", "--outputs", "tag"], "unknown output 'tag'"),
        (["in", "--out", "out", "--from", "pdf"], "--from: expected one of text, tokens, conll"),
        (["in", "--out", "out", "--to", "conll"], "shards are written as parquet or jsonl, not as 'conll'"),
        (["in", "--out", "in/out"], "lie within each other"),
        (["nowhere", "--out", "out", "--workers", "1"], "nowhere: no such file or folder"),
    ],
)
def test_what_cannot_be_meant_is_said(folder, shell, ner_model, options, message):
    done = shell("tag", ner_model, *options)
    assert done.code in (1, 2)
    assert message in done.err
    assert not Path("out/_trellis/done").exists()


def test_a_missing_model_is_an_error_before_any_work(folder, shell):
    done = shell("tag", "nowhere", "in", "--out", "out")
    assert (done.code, "nowhere" in done.err) == (1, True)
    assert not Path("out").exists()


def test_shards_that_fail_are_named_and_the_exit_code_says_so(folder, shell, ner_model):
    Path("in/c.txt").write_bytes(b"%PDF-1.7 not a text")
    done = shell("tag", ner_model, "in", "--out", "out", "--workers", "1")
    assert done.code == 1
    assert "1 shard failed; --resume tries them again:" in done.err
    assert "c.txt: expected text, found a PDF document" in done.err
    assert Path("out/a.parquet").exists()


def test_a_terminal_sees_how_far_it_is(folder, ner_model):
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "trellis", "tag", str(ner_model), "in", "--out", "out", "--workers", "1"]
    subprocess.run(command, stderr=follower, check=True, env=os.environ | {"TERM": "xterm", "COLUMNS": "100"})
    os.close(follower)
    seen = os.read(leader, 100_000).decode()
    assert "2 of 2 shards" in seen
    assert "tokens/s" in seen


def test_the_rest_is_estimated_from_the_bytes_that_are_left():
    # 1000 tokens of 5000 bytes are done and 200 are under way, in 60 s: 15,000 bytes are 3000 tokens, 2800 are left.
    progress = FolderProgress(shards=1, all_shards=4, rows=9, tokens=1200, bytes=5000, left=15_000, done_tokens=1000)
    assert described(progress, 60.0) == "1 of 4 shards, 1,200 tokens, 20 tokens/s, about 2 min 20 s left"
    assert described(progress, 6000.0).endswith("about 3 h 53 min left")
    none = FolderProgress(shards=0, all_shards=4, rows=9, tokens=1200, bytes=0, left=15_000, done_tokens=0)
    assert described(none, 60.0) == "0 of 4 shards, 1,200 tokens, 20 tokens/s"
