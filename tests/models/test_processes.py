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
from trellis.training import Iterate, Resumption, Step, lbfgs
from trellis.training.checkpoint import Checkpoints, TrainingFolder
from trellis.training.process_group import signals_deferred, together


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


@pytest.mark.parametrize("where", ["out_of_core=false", "out_of_core=true"])
def test_a_killed_crf_leaves_no_file_behind_and_goes_on_where_it_was(tmp_path, where):
    sentences = demo.english().train[:150]
    lines = ["".join(f"{t}\t{tag}\n" for t, tag in zip(s.tokens, s.tags, strict=True)) for s in sentences]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    command = [sys.executable, "-m", "trellis", "train", "-m", "crf", "--train", "train.conll", "--out", "model"]
    command += [part for own in ("epsilon=0", "delta=0", "checkpoint_seconds=0", where) for part in ("--set", own)]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("model/checkpoints/checkpoint-0000000[3-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    running.kill()
    running.wait()
    left = {path.name.split(".partial")[0] for path in tmp_path.glob("model/*")}
    assert left <= {".lock", ".owner.json", "checkpoints"}
    refused = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert "continue it with --resume" in refused.stderr
    command += ["--resume", "--set", "max_iterations=5"]
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
    [
        {},
        {"c1": 0.2},
        {"out_of_core": True},
        {"precision": "single"},
        *({"algorithm": name, "max_iterations": 6} for name in ("sgd", "ap", "pa", "arow")),
    ],
    ids=str,
)
def test_a_resumed_crf_takes_the_steps_of_one_that_was_never_killed(tmp_path, options):
    sentences, dev = demo.english().train[:100], demo.english().dev[:20]
    settings = {"features": "ner", "max_iterations": 25, "checkpoint_seconds": 0, **options}
    whole = trellis.CRF(**settings).fit(sentences, dev=dev)
    for last in (1, 4) if "algorithm" in options else (1, 9, 25):

        def stop(step, last=last):
            if step.iteration == last:
                raise Killed

        with pytest.raises(Killed):
            trellis.CRF(**settings).fit(sentences, dev=dev, progress=stop, folder=tmp_path, resume=True)
    resumed = trellis.CRF(**settings).fit(sentences, dev=dev, folder=tmp_path, resume=True)
    steps = [[(step.loss, step.gradient_norm, step.dev) for step in model.history_.steps] for model in (whole, resumed)]
    assert steps[0] == steps[1]
    assert resumed.history_.reason == whole.history_.reason
    assert resumed.parameters_.weights.tolist() == whole.parameters_.weights.tolist()
    assert resumed.settings_.learning_rate == whole.settings_.learning_rate


def resumed_at(folder, size):
    return Resumption(np.zeros(size), TrainingFolder(folder, "crf", resume=True))


class Bowl:
    """|w|^2."""

    size = 3

    def evaluate(self, weights, gradient):
        gradient[:] = 2 * weights
        return float(weights @ weights)


def test_a_checkpoint_with_a_damaged_optimizer_is_refused(tmp_path):
    TrainingFolder(tmp_path, "crf").identify()
    values = {"history": {"steps": [], "reason": "interrupted", "kept": -1}}

    def refused(match, **optimizer):
        Checkpoints(tmp_path).save(1, values, {"weights": {"weights": np.ones(3)}, "optimizer": optimizer})
        with pytest.raises(StoreError, match=match):
            next(lbfgs(Bowl(), np.ones(3), state=resumed_at(tmp_path, 3).optimizer))

    refused("must be square, with an odd number of rows", products=np.zeros((3, 2)))
    refused("'s0' is missing", products=np.zeros((3, 3)), losses=np.zeros(1))
    steps = {"s0": np.zeros(2, np.float32), "y0": np.zeros(3, np.float32)}
    refused("'s0' must have the shape", products=np.zeros((3, 3)), losses=np.zeros(1), **steps)


def test_a_checkpoint_of_another_size_is_refused(tmp_path):
    TrainingFolder(tmp_path, "crf").identify()
    first = Resumption(np.zeros(3), TrainingFolder(tmp_path, "crf"))
    first.state.add(Step(1, 1.0, None, None, 0.0, None), np.ones(3))
    first.visit(Iterate(np.ones(3), 1.0, None))
    assert resumed_at(tmp_path, 3).weights.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(StoreError, match=r"must have the shape \(4\), got \(3\)"):
        resumed_at(tmp_path, 4)
