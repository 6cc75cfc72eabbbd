"""The commands with a neural family: the same folder, the same answers, and training that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trellis
from trellis.models import folder

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
    assert len(json.loads(shell("inspect", "model", "--json").out)["transitions"]) == 5
    assert json.loads(shell("explain", "model", "Anna slept", "--json").out)["why"][0]["token"] == "Anna"


def test_resume_goes_on_from_the_last_checkpoint(here, shell):
    assert shell(*TRAIN, "-m", "bilstm-crf", "--set", "training.epochs=2").code == 0
    done = shell(*TRAIN, "-m", "bilstm-crf", "--set", "training.epochs=3", "--resume")
    assert done.code == 0, done.err
    assert "epoch 3/3" in done.err
    assert "epoch 2/3" not in done.err
    assert len(folder.read_history("model").steps) == 3
