"""Processes that train one model together; several real ones are in tests/engines."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import trellis
from trellis import demo
from trellis.errors import ModelError, StoreError
from trellis.models.folder import training
from trellis.training.best import Best
from trellis.training.folder import TrainingFolder
from trellis.training.process_group import signals_deferred, together
from trellis.training.savepoints import Reached, Savepoints


def test_together_is_alone_without_others():
    with together() as team:
        assert (team.rank, team.count) == (0, 1)
        assert team.gather("x") == ["x"]


def test_neural_taggers_do_not_share_sentences(monkeypatch):
    class Several:
        rank, count = 0, 2

    monkeypatch.setattr("trellis.models.tagger.current_group", Several)
    with pytest.raises(ModelError, match="is not trained by processes with sentences of their own"):
        trellis.NeuralTagger().fit(demo.english().train[:2])


def test_signals_wait_until_an_exchange_is_over():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with signals_deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            assert heard == []
        assert heard == [signal.SIGTERM]
        with signals_deferred(forget=True):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_killed_crf_goes_on_where_it_was(tmp_path):
    sentences = demo.english().train[:150]
    lines = ["".join(f"{t}\t{tag}\n" for t, tag in zip(s.tokens, s.tags, strict=True)) for s in sentences]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    command = [sys.executable, "-m", "trellis", "train", "-m", "crf", "--train", "train.conll", "--out", "model"]
    command += ["--set", "epsilon=0", "--set", "delta=0", "--set", "checkpoint_seconds=0"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("model/checkpoints/checkpoint-0000000[3-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    running.kill()
    running.wait()
    refused = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert "continue it with --resume" in refused.stderr
    command += ["--resume", "--set", "max_iterations=4"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "model" / "history.json").read_text())["steps"]
    assert [step["iteration"] for step in steps] == list(range(1, len(steps) + 1))
    losses = [step["loss"] for step in steps]
    assert losses == sorted(losses, reverse=True)
    assert trellis.load(tmp_path / "model").labels_


class Killed(Exception):
    """As if the process were gone."""


@pytest.mark.parametrize(
    "options",
    [{}, {"c1": 0.2}, {"out_of_core": True}, {"precision": "single"}],
    ids=["lbfgs", "owlqn", "out of core", "single precision"],
)
def test_a_resumed_crf_takes_the_steps_of_one_that_was_never_killed(tmp_path, options):
    sentences, dev = demo.english().train[:100], demo.english().dev[:20]
    settings = {"features": "ner", "max_iterations": 25, "checkpoint_seconds": 0, **options}
    whole = trellis.CRF(**settings).fit(sentences, dev=dev)
    for last in (1, 9, 25):

        def stop(step, last=last):
            if step.iteration == last:
                raise Killed

        with pytest.raises(Killed), training(tmp_path, "crf", "crf", resume=True) as place:
            trellis.CRF(**settings).fit(sentences, dev=dev, progress=stop, folder=place)
    with training(tmp_path, "crf", "crf", resume=True) as place:
        resumed = trellis.CRF(**settings).fit(sentences, dev=dev, folder=place)
    assert [step.loss for step in resumed.history_.steps] == [step.loss for step in whole.history_.steps]
    assert [step.gradient_norm for step in resumed.history_.steps] == [s.gradient_norm for s in whole.history_.steps]
    assert resumed.history_.reason == whole.history_.reason
    assert resumed.parameters_.weights.tolist() == whole.parameters_.weights.tolist()


def test_a_checkpoint_with_a_damaged_memory_is_refused(tmp_path):
    TrainingFolder(tmp_path, "crf").identify()

    def refused(match, **memory):
        place = Reached(np.zeros(3), Best(), lambda: memory)
        Savepoints(TrainingFolder(tmp_path, "crf", resume=True), 0.0).write(place)
        with pytest.raises(StoreError, match=match):
            Savepoints(TrainingFolder(tmp_path, "crf", resume=True), 0.0).restore(3)

    refused("must be square, with an odd number of rows", products=np.zeros((3, 2)))
    refused("memory.s0", products=np.zeros((3, 3)), losses=np.zeros(1))
    steps = {"s0": np.zeros(2, np.float32), "y0": np.zeros(3, np.float32)}
    refused("memory.s0.*must have the shape", products=np.zeros((3, 3)), losses=np.zeros(1), **steps)


def test_a_place_of_another_size_is_refused(tmp_path):
    TrainingFolder(tmp_path, "crf").identify()
    Savepoints(TrainingFolder(tmp_path, "crf"), 0.0).write(Reached(np.zeros(3), Best()))
    resumed = Savepoints(TrainingFolder(tmp_path, "crf", resume=True), 0.0)
    assert resumed.restore(3).weights.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(StoreError, match=r"must have the shape \(4\), got \(3\)"):
        resumed.restore(4)
