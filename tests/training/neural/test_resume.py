"""A training that was killed goes on to the very weights of one that was not."""

import errno
import os
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.store.newer import as_of_format
from tests.training.neural import victim
from tests.training.neural.toys import Labels, Linear, train_in
from trellis import files, store
from trellis.config import to_dict
from trellis.errors import ModelError, NewerFormatError, StoreError
from trellis.training.checkpoint import Checkpoints
from trellis.training.neural import CheckpointWarning, TrainingSettings, train
from trellis.training.neural.epochs import to_arrays, to_tensors

ROOT = Path(__file__).parents[3]
SETTINGS = victim.SETTINGS
UNTIMED = {"seconds": 0.0, "seconds_left": 0.0, "tokens_per_second": 0.0}


def weights(task):
    return {name: value.numpy().tobytes() for name, value in task.module.state_dict().items()}


def untimed(history):
    """What two runs have in common."""
    steps = [{**{k: getattr(s, k) for k in s.__slots__}, **UNTIMED} for s in history.steps]
    return steps, history.reason, history.kept


def resumed(folder, settings=SETTINGS, task=None):
    task = task or Labels()
    history = train_in(folder, task, settings, resume=True)
    return weights(task), untimed(history)


def fails_at(call):
    """A task whose loss, asked for so many times, ends the training as a kill would."""
    task, calls = Labels(), []
    loss = task.loss

    def counted(examples):
        calls.append(examples)
        if len(calls) == call:
            raise OSError("killed")
        return loss(examples)

    task.loss = counted
    return task


@pytest.fixture(scope="module")
def uninterrupted():
    task = Labels()
    history = train(task, SETTINGS)
    return weights(task), untimed(history)


@pytest.fixture(scope="module")
def forks():
    """A process that forks trainings, so that torch is imported once; it does not use torch itself."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    command = [sys.executable, "-m", "tests.training.neural.victim"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:

        def ask(folder, *kill):
            print(folder, *kill, file=process.stdin, flush=True)
            return process.stdout.readline().strip()

        yield ask
        process.stdin.close()


def test_killed_at_every_event(forks, uninterrupted, tmp_path):
    """At each step, write, sync, rename and removal in turn."""
    outcomes = []
    for kill in range(1, 200):
        folder = tmp_path / str(kill)
        outcomes.append(forks(folder, kill))
        if outcomes[-1] == "finished":
            break
        if kill % 3 == 0:  # Now and then the second life is short as well.
            forks(folder, 1 + kill % 7)
        assert resumed(folder) == uninterrupted, f"killed at event {kill}"
        assert not list(folder.glob(".*")), "something half-written was left"
        shutil.rmtree(folder)
    assert set(outcomes[:-1]) == {"killed"}
    assert outcomes[-1] == "finished"
    assert len(outcomes) > 30


def test_killed_again_and_again_at_random_moments(forks, uninterrupted, tmp_path):
    rng = random.Random(1)
    outcomes = [forks(tmp_path, "after", f"{rng.uniform(0.01, 0.12):.3f}") for _ in range(8)]
    assert set(outcomes) <= {"killed", "finished"}
    assert resumed(tmp_path) == uninterrupted


def test_a_finished_training_is_only_loaded_again(uninterrupted, tmp_path):
    assert resumed(tmp_path) == uninterrupted
    task = Labels()
    task.loss = None
    assert resumed(tmp_path, task=task) == uninterrupted


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "truncated":
        content = content[: len(content) // 2]
    elif how == "empty":
        content = bytearray()
    else:
        place = len(content) - 5 if how == "a bit in the tensors" else 400
        content[place] ^= 4
    path.write_bytes(content)


class TestDamage:
    @pytest.mark.parametrize("how", ["truncated", "empty", "a bit in the tensors", "a bit in the header"])
    def test_the_checkpoint_before_it_is_used(self, how, uninterrupted, tmp_path):
        resumed(tmp_path)
        files = sorted(tmp_path.glob("checkpoint-*"))
        assert len(files) == 2
        damage(files[-1], how)
        with pytest.warns(CheckpointWarning, match=r"step \d+ cannot be used, going back.*checkpoint-\d+.safetensors"):
            assert resumed(tmp_path) == uninterrupted

    def test_all_damaged_is_the_beginning(self, uninterrupted, tmp_path):
        resumed(tmp_path)
        for path in tmp_path.glob("checkpoint-*"):
            damage(path, "truncated")
        with pytest.warns(CheckpointWarning) as seen:
            assert resumed(tmp_path) == uninterrupted
        said = [str(one.message) for one in seen]
        assert len(said) == 2
        assert "cannot be used, going back to the one before it: " in said[0]
        assert said[1].startswith("no checkpoint can be used, training starts from the beginning; that of step ")

    def test_one_of_a_newer_version_is_an_error_and_stays(self, tmp_path):
        resumed(tmp_path)
        files = sorted(tmp_path.glob("checkpoint-*"))
        as_of_format(99, files[-1])
        with pytest.raises(NewerFormatError, match="has format 99"):
            resumed(tmp_path)
        assert sorted(tmp_path.glob("checkpoint-*")) == files

    def test_the_damaged_one_is_gone_after_the_next_is_written(self, tmp_path):
        resumed(tmp_path)
        newest = max(tmp_path.glob("checkpoint-*"))
        damage(newest, "truncated")
        with pytest.warns(CheckpointWarning):
            resumed(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            resumed(tmp_path)


class TestChanges:
    def test_a_changed_module_is_named(self, tmp_path):
        resumed(tmp_path)
        task = Labels()
        task.module.out = torch.nn.Linear(12, 5)
        with pytest.raises(ModelError, match=r"'out\.bias' are \(4,\) there, \(5,\) here"):
            resumed(tmp_path, task=task)

    @pytest.mark.parametrize(("schedule", "warmup"), [("constant", 0.0), ("constant", 3.0), ("plateau", 2.0)])
    def test_more_epochs_are_the_same_as_from_the_start_where_no_rate_depends_on_them(self, schedule, warmup, tmp_path):
        settings = {"schedule": schedule, "warmup": warmup, "batch_size": 5}
        whole = Labels()
        train(whole, TrainingSettings(**settings, epochs=4))
        resumed(tmp_path, TrainingSettings(**settings, epochs=2))
        assert resumed(tmp_path, TrainingSettings(**settings, epochs=4))[0] == weights(whole)

    @pytest.mark.parametrize("schedule", ["linear", "cosine"])
    def test_more_epochs_take_the_rates_of_the_longer_training(self, schedule, tmp_path):
        settings = {"schedule": schedule, "warmup": 0.0, "batch_size": 5}
        whole = train(Labels(), TrainingSettings(**settings, epochs=4))
        train_in(tmp_path, Labels(), TrainingSettings(**settings, epochs=2))
        longer = train_in(tmp_path, Labels(), TrainingSettings(**settings, epochs=4), resume=True)
        assert len(longer.steps) == 4
        assert [s.learning_rate for s in longer.steps[2:]] == [s.learning_rate for s in whole.steps[2:]]
        assert longer.steps[1].learning_rate < whole.steps[1].learning_rate

    def test_a_longer_training_that_is_killed_goes_on_as_well(self, tmp_path):
        """To the same weights, whatever number of epochs it began with."""
        settings = {"schedule": "linear", "batch_size": 5}
        for folder in ("whole", "killed"):
            train_in(tmp_path / folder, Labels(), TrainingSettings(**settings, epochs=2))
        longer = TrainingSettings(**settings, epochs=5)
        whole = resumed(tmp_path / "whole", longer)
        task = fails_at(8)
        with pytest.raises(OSError, match="killed"):
            train_in(tmp_path / "killed", task, longer, resume=True)
        assert resumed(tmp_path / "killed", longer) == whole

    def test_a_lowered_learning_rate_stays_lowered(self, tmp_path):
        settings = {"schedule": "plateau", "plateau_patience": 1, "warmup": 0.0}
        rates = []
        for epochs, scores in ((2, [0.5, 0.4]), (4, [0.4, 0.4])):
            task = Linear()
            task.scores = scores
            history = train_in(tmp_path, task, TrainingSettings(**settings, epochs=epochs), resume=True)
            rates = [step.learning_rate for step in history.steps]
        assert rates == [0.005, 0.005, 0.0025, 0.00125]

    def test_patience_counts_across_lives(self, tmp_path):
        settings = {"schedule": "constant", "warmup": 0.0}
        task = Linear()
        task.scores = [0.5, 0.4]
        train_in(tmp_path, task, TrainingSettings(**settings, epochs=2, patience=2))
        task = Linear()
        task.scores = [0.3, 0.9]
        history = train_in(tmp_path, task, TrainingSettings(**settings, epochs=9, patience=2), resume=True)
        assert (history.reason, len(history.steps), history.kept) == ("early_stopping", 3, 0)


class TestFolder:
    @pytest.mark.parametrize("keep", [1, 3])
    def test_only_the_newest_checkpoints_stay(self, keep, tmp_path):
        train_in(tmp_path, Labels(), TrainingSettings(**{**to_dict(SETTINGS), "keep": keep, "epochs": 5}))
        assert len(list(tmp_path.glob("checkpoint-*"))) == keep

    def test_checkpoints_come_every_few_steps_and_each_epoch(self, tmp_path, monkeypatch):
        saved = []
        monkeypatch.setattr(Checkpoints, "save", lambda self, step, *rest: saved.append(step))
        train_in(tmp_path, Labels(), TrainingSettings(epochs=2, batch_size=4, checkpoint_every=4))
        assert saved == [4, 6, 8, 12]
        saved.clear()
        train_in(tmp_path, Labels(), TrainingSettings(epochs=2, batch_size=4))
        assert saved == [6, 12]


def test_a_disk_that_is_full_at_any_write_loses_nothing(uninterrupted, tmp_path, monkeypatch):
    """One clear error, nothing half-written, and training goes on once there is room."""
    sync, names = files._sync, []

    def full_at_the_last_of(path):
        if path.is_file():
            names.append(path.name)
            if len(names) == count:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(path)

    for count in range(1, 99):
        folder = tmp_path / str(count)
        names.clear()
        with monkeypatch.context() as patched:
            patched.setattr(files, "_sync", full_at_the_last_of)
            try:
                train_in(folder, Labels(), SETTINGS)
                break
            except StoreError as error:
                problem = str(error)
        name = names[-1].removeprefix(".").removesuffix(".partial").rpartition(".")[0]
        assert f"{name} cannot be written: No space left on device" in problem
        assert not list(folder.glob(".*"))
        assert resumed(folder) == uninterrupted
    assert any(name.startswith(".checkpoint-") for name in names)
    assert count > 10


def test_tensors_of_all_kinds_survive(tmp_path):
    kinds = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int16, torch.int8)
    tensors = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in kinds}
    tensors |= {"bool": torch.tensor([True, False]), "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 3)}
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(3, {"x": 1.5}, {"weights": to_arrays(tensors), "none": {}})
    found = checkpoints.newest(lambda saved: saved)
    assert (checkpoints.steps(), found.values, found.part("none").arrays) == ([3], {"x": 1.5}, {})
    restored = to_tensors(found.part("weights"), tensors)
    for name, tensor in tensors.items():
        back = restored[name]
        assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(back, tensor)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda m, _: m.pop("values"), "the manifest lacks the field 'values': expected an object"),
        (lambda m, _: m.update(values=[1]), "the field 'values' must be an object, got a list"),
        (lambda _, a: a.update({"weights:a": a["weights:a"].astype(np.float64)}), "must be float32, got float64"),
        (lambda _, a: a.update({"weights:a": a["weights:a"][:5]}), r"must have the shape \(6\), got \(5\)"),
        (lambda _, a: a.clear(), "the array 'a' is missing"),
        (lambda _, a: a.update({"weights:a": a["weights:a"] * np.nan}), "must lie in -inf..inf, got nan"),
    ],
)
def test_a_checkpoint_that_lies_is_passed_over(tmp_path, spoil, problem):
    checkpoints, tensors = Checkpoints(tmp_path, keep=2), {"a": torch.arange(6.0)}
    for step in (1, 2):
        checkpoints.save(step, {"step": step}, {"weights": to_arrays(tensors)})
    newest = tmp_path / "checkpoint-00000002.safetensors"
    stored = store.load(newest)
    manifest, arrays = dict(stored.manifest.values), dict(stored.arrays)
    spoil(manifest, arrays)
    store.save(newest, stored.kind, manifest, arrays)
    with pytest.warns(CheckpointWarning, match=problem):
        values, read = checkpoints.newest(lambda saved: (saved.values, to_tensors(saved.part("weights"), tensors)))
    assert values == {"step": 1}
    assert torch.equal(read["a"], tensors["a"])


def test_nothing_is_pickled(tmp_path):
    resumed(tmp_path)
    for path in tmp_path.glob("checkpoint-*"):
        arrays = store.load(path).arrays
        assert arrays
        assert all(array.dtype != np.dtype(object) for array in arrays.values())
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pt", ".pkl", ".bin")]
