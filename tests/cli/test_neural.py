"""The commands with a neural family: the same folder, the same answers, and training that goes on."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import trellis
from trellis.models import folder
from trellis.training import LiveLine, read_history

TINY = (
    *("--set", "encoder.hidden=8", "--set", "encoder.words.size=8", "--set", "encoder.characters.output=4"),
    *("--set", "training.schedule=constant", "--set", "training.warmup=0"),
)
TRAIN = ("train", "--train", "train.conll", "--dev", "dev.conll", "--out", "model", *TINY)


@pytest.mark.parametrize("name", ["bilstm-crf", "softmax"])
def test_train_tag_eval_inspect_and_explain(here, shell, name):
    done = shell(*TRAIN, "-m", name, "--set", "training.epochs=2")
    assert done.code == 0, done.err
    assert "epoch 2/2" in done.err
    record = folder.read_record("model")
    assert (record["model"], record["iterations"]) == (name, 2)
    tagger = trellis.load("model")
    assert tagger.config.head == name.removeprefix("bilstm-")
    Path("text.txt").write_text("Anna lives in Rome.\n")
    tagged = json.loads(shell("tag", "model", "text.txt", "--to", "jsonl").out)
    assert tagged["tags"] == list(tagger("Anna lives in Rome.").tags)
    assert json.loads(shell("eval", "model", "dev.conll", "--json").out)["scores"]["micro"]["gold"] == 4
    inspected = json.loads(shell("inspect", "model", "--json").out)
    assert len(inspected["labels"]) == 5
    assert len(inspected["transitions"]) == len(inspected["states"]) == 9  # learned in BIOES
    assert json.loads(shell("explain", "model", "Anna slept", "--json").out)["why"][0]["token"] == "Anna"


CRF = (*TRAIN, "-m", "bilstm-crf", "--set", "training.epochs=4")


def test_stream_learns_from_a_folder_what_memory_would(here, shell):
    Path("shards").mkdir()
    Path("shards", "one.conll").write_bytes(Path("train.conll").read_bytes())
    options = (*CRF[3:], "--set", "training.epochs=2")
    held = shell("train", "--train", "train.conll", *options, "--out", "held")
    streamed = shell("train", "--train", "shards", "--stream", *options, "--out", "streamed", "--test", "dev.conll")
    assert (held.code, streamed.code) == (0, 0), held.err + streamed.err
    assert trellis.load("held").model_.vocabulary == trellis.load("streamed").model_.vocabulary
    assert Path("held", "model.safetensors").stat().st_size == Path("streamed", "model.safetensors").stat().st_size
    losses = [[step["loss"] for step in json.loads(Path(name, "history.json").read_text())["steps"]] for name in NAMES]
    assert losses[0] == losses[1]
    data = [folder.read_record(name)["data"]["train"] for name in NAMES]
    assert data[1] == {**data[0], "path": "shards"}


NAMES = ("held", "streamed")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-m", "bilstm-crf", "--train", "."), "is a folder, expected a file or a folder of brat: --stream learns"),
        (("-m", "bilstm-crf", "--train", "-", "--stream"), "which standard input cannot be"),
        (("-m", "hmm", "--train", "train.conll", "--stream"), "hmm learns from sentences in memory: leave it out, or"),
        (("-m", "bilstm-crf", "--train", "train.conll", "--stream", "--on-bad-tags", "drop"), "needs all sentences at"),
        (("-m", "bilstm-crf", "--train", "words.conll", "--stream", "--task", "seg"), "as they are, and these are not"),
    ],
)
def test_what_stream_cannot_do(here, shell, given, said):
    Path("words.conll").write_text("New\tADJ\nYork\tNOUN\n")
    done = shell("train", *given, "--out", "model")
    assert done.code in (1, 2)
    assert said in done.err


KILLED = """
import os, sys
from trellis.cli import main
from trellis.training import LiveLine
LiveLine.__call__ = lambda *_: os.kill(os.getpid(), 9)
main(sys.argv[1:])
"""


def stop(shell, arguments, epochs):
    """Have the command end after so many epochs, as an error would end it; what a kill is like, faults.py tries."""

    def die(self, step):
        if step.is_whole and step.iteration == epochs:
            raise SystemExit(9)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LiveLine, "__call__", die)
        assert shell(*arguments).code == 9


@pytest.fixture
def whole(here, shell):
    done = shell(*CRF[:5], "--out", "whole", *CRF[7:])
    assert done.code == 0, done.err
    return Path("whole/model.safetensors").read_bytes()


def test_a_killed_training_goes_on_with_resume_only(here, shell, whole):
    killed = subprocess.run([sys.executable, "-c", KILLED, *CRF], capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert sorted(os.listdir("model")) == [".lock", ".owner.json", "checkpoints"]
    assert sorted(os.listdir("model/checkpoints"))[-1] == "state.json"
    unused = shell("tag", "model", "train.conll")
    assert unused.code == 1
    assert unused.err.startswith("trellis: the folder model holds no model: it holds a bilstm-crf training that did ")
    assert unused.err.endswith("; continue it with trellis train --resume\n")
    unread = [argument.replace("train.conll", "unread") for argument in CRF]
    refused = shell(*unread)
    assert refused.code == 1
    assert refused.err.startswith("trellis: model holds a bilstm-crf training that did not end, begun 20")
    assert "continue it with --resume (in Python, resume=True), or discard it with --overwrite" in refused.err
    done = shell(*CRF, "--resume")
    assert done.code == 0, done.err
    assert "epoch 2/4" in done.err
    assert "epoch 1/4" not in done.err
    assert Path("model/model.safetensors").read_bytes() == whole
    assert sorted(os.listdir("model")) == sorted(os.listdir("whole"))


def test_resuming_what_was_never_begun_says_so_and_begins(here, shell, whole):
    done = shell(*CRF, "--resume")
    assert "model: no checkpoint to resume from, training starts from the beginning" in done.err
    assert Path("model/model.safetensors").read_bytes() == whole


def test_damaged_checkpoints_are_told_in_a_line_each(here, shell, whole):
    stop(shell, CRF, 3)
    paths = sorted(Path("model/checkpoints").glob("checkpoint-*"))
    for path in paths:
        path.write_bytes(path.read_bytes()[:1000])
    command = [sys.executable, "-m", "trellis", *CRF, "--resume", "--quiet"]
    done = subprocess.run(command, capture_output=True, timeout=120, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(paths) == 2
    assert lines[0].startswith("trellis: checkpoint of step ")
    assert lines[1].startswith("trellis: no checkpoint can be used, training starts from the beginning; that of step ")
    assert Path("model/model.safetensors").read_bytes() == whole


def test_or_is_discarded_if_asked_for(here, shell, whole):
    stop(shell, CRF, 2)
    done = shell(*CRF, "--overwrite")
    assert "epoch 1/4" in done.err
    assert Path("model/model.safetensors").read_bytes() == whole


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_the_best_model_which_goes_on(here, shell, whole, monkeypatch, number, code):
    def press(self, step):
        if step.is_whole and step.iteration == 2:
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patched:
        patched.setattr(LiveLine, "__call__", press)
        stopped = shell(*CRF)
    assert stopped.code == code
    assert "the best model so far was kept. --resume continues the training." in stopped.err
    assert read_history("model").reason == "interrupted"
    assert trellis.load("model").labels_
    assert shell(*CRF, "--resume").code == 0
    assert Path("model/model.safetensors").read_bytes() == whole


def test_a_full_disk_at_a_checkpoint_is_one_error_and_goes_on(here, shell, whole):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    assert max(path.stat().st_size for path in Path("whole").iterdir()) > 12_000
    command = [sys.executable, "-m", "trellis", *CRF]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, timeout=120)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert re.match(r"trellis: model/checkpoints/(kept|checkpoint)-00000001\.safetensors ", last)
    assert "cannot be written: File too large" in last
    assert "Traceback" not in done.stderr
    assert not Path("model").exists()
    assert shell(*CRF).code == 0
    assert Path("model/model.safetensors").read_bytes() == whole
