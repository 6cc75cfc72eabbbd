"""The loop: what is kept, when it stops, what it says, and what it leaves behind."""

import random

import numpy as np
import pytest
import torch

from tests.training.neural.toys import Labels, Linear, train_in
from trellis.errors import ConfigError, ModelError
from trellis.training import read_history
from trellis.training.neural import DivergedWarning, TrainingSettings, train
from trellis.training.neural.epochs import tensorboard_folder

SGD = {
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "schedule": "constant",
    "warmup": 0.0,
    "weight_decay": 0.0,
    "batch_size": 5,
}


def snapshots(task):
    """The weights at each validation."""
    seen, validate = [], task.validate

    def watched(gather):
        seen.append(task.module.weight.detach().clone())
        return validate(gather)

    task.validate = watched
    return seen


def test_the_best_epoch_is_kept():
    task = Linear()
    task.scores = [0.1, 0.5, 0.5, 0.3]
    seen = snapshots(task)
    history = train(task, TrainingSettings(**SGD, epochs=4))
    assert (history.kept, history.reason) == (1, "max_iterations")
    assert torch.equal(task.module.weight, seen[1])
    assert not torch.equal(seen[1], seen[3])
    assert not task.module.training
    assert [(s.dev, s.precision, s.recall, s.best) for s in history.steps] == [
        (0.1, 0.5, 0.25, 0.1),
        (0.5, 0.5, 0.25, 0.5),
        (0.5, 0.5, 0.25, 0.5),
        (0.3, 0.5, 0.25, 0.5),
    ]


def test_without_held_out_data_the_last_epoch_is_kept():
    task = Linear()
    seen = snapshots(task)
    history = train(task, TrainingSettings(**SGD, epochs=3))
    assert history.kept == 2
    assert torch.equal(task.module.weight, seen[2])
    assert history.loss < history.steps[0].loss


def test_early_stopping_counts_epochs_since_the_best():
    task = Linear()
    task.scores = [0.1, 0.3, 0.2, 0.3, 0.9]
    history = train(task, TrainingSettings(**SGD, epochs=9, patience=2))
    assert (history.reason, len(history.steps), history.kept) == ("early_stopping", 4, 1)


def test_validation_sees_averaged_weights_and_they_are_what_is_kept():
    task, plain = Linear(), Linear()
    seen, raw = snapshots(task), snapshots(plain)
    train(plain, TrainingSettings(**SGD, epochs=2))
    train(task, TrainingSettings(**SGD, epochs=2, averaging="swa", averaging_start=2))
    assert torch.equal(seen[0], raw[0])
    assert not torch.allclose(seen[1], raw[1])
    assert torch.equal(task.module.weight, seen[1])


def test_the_same_seed_gives_the_same_weights_and_another_others():
    trained = []
    for seed in (3, 3, 4):
        task = Labels()
        train(task, TrainingSettings(epochs=2, batch_size=4, seed=seed))
        trained.append(torch.cat([p.reshape(-1) for p in task.module.parameters()]))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])


def test_chance_is_left_as_it_was():
    def draw():
        return torch.rand(()).item(), np.random.random(), random.random()

    def seed():
        torch.manual_seed(1), np.random.seed(1), random.seed(1)

    task = Labels()
    seed()
    expected = draw()
    seed()
    train(task, TrainingSettings(epochs=1))
    assert draw() == expected


class TestDivergence:
    def broken_after(self, epochs):
        """A task whose loss is NaN in the second step after so many epochs of four steps."""
        task = Linear()
        loss = task.loss

        def bad(examples):
            value, count = loss(examples)
            return value * (float("nan") if len(task.seen) == 4 * epochs + 2 else 1.0), count

        task.loss = bad
        return task

    def test_the_best_so_far_is_kept_with_a_warning(self, tmp_path):
        task = self.broken_after(2)
        task.scores = [0.4, 0.2]
        seen = snapshots(task)
        with pytest.warns(DivergedWarning, match=r"diverged at step 10: the loss is nan.*weights of epoch 1 are kept"):
            history = train_in(tmp_path, task, TrainingSettings(**SGD, epochs=9))
        assert (history.reason, len(history.steps), history.kept) == ("diverged", 2, 0)
        assert torch.equal(task.module.weight, seen[0])
        assert read_history(tmp_path) == history

    def test_without_a_finished_epoch_there_is_nothing_to_keep(self):
        with pytest.raises(ModelError, match="diverged at step 2: the loss is nan"):
            train(self.broken_after(0), TrainingSettings(**SGD, epochs=9))


class TestInterruption:
    def interrupted_in(self, call):
        task = Linear()
        loss = task.loss

        def pressed(examples):
            if len(task.seen) == call:
                raise KeyboardInterrupt
            return loss(examples)

        task.loss = pressed
        return task

    def test_the_best_so_far_is_kept(self):
        task = self.interrupted_in(10)
        task.scores = [0.4, 0.2]
        seen = snapshots(task)
        history = train(task, TrainingSettings(**SGD, epochs=9))
        assert (history.reason, len(history.steps), history.kept) == ("interrupted", 2, 0)
        assert torch.equal(task.module.weight, seen[0])

    def test_in_the_first_epoch_the_weights_stay_as_they_are(self):
        task = self.interrupted_in(2)
        before = task.module.weight.clone()
        history = train(task, TrainingSettings(**SGD, epochs=9))
        assert (history.reason, history.steps, history.kept) == ("interrupted", (), -1)
        assert not torch.equal(task.module.weight, before)

    def test_while_validating_on_averages(self):
        task, calls = Linear(), []

        def pressed(gather):
            calls.append(task.module.weight.detach().clone())
            if len(calls) == 2:
                raise KeyboardInterrupt

        task.validate = pressed
        history = train(task, TrainingSettings(**SGD, epochs=9, averaging="swa"))
        assert history.reason == "interrupted"
        assert torch.equal(task.module.weight, calls[0])


class TestProgress:
    def test_a_plain_function_hears_of_each_epoch(self):
        heard = []
        history = train(Linear(), TrainingSettings(**SGD, epochs=3), progress=heard.append)
        assert tuple(heard) == history.steps
        assert [(s.iteration, s.iterations, s.batch, s.batches) for s in heard] == [(n, 3, 4, 4) for n in (1, 2, 3)]
        assert heard[-1].seconds_left == 0
        assert all(s.tokens_per_second > 0 and s.learning_rate == 0.05 and s.is_whole for s in heard)

    def test_one_that_wants_more_hears_of_steps(self):
        class Heard(list):
            every = 0.0

            def __call__(self, step):
                self.append(step)

        heard = Heard()
        history = train(Linear(), TrainingSettings(**SGD, epochs=2, accumulate=2), progress=heard)
        assert [(s.iteration, s.batch, s.is_whole) for s in heard] == [
            (1, 2, False),
            (1, 4, True),
            (2, 2, False),
            (2, 4, True),
        ]
        assert tuple(s for s in heard if s.is_whole) == history.steps
        assert heard[2].seconds_left > 0

    def test_the_mean_loss_is_over_the_epochs_items(self):
        task = Linear()
        history = train(task, TrainingSettings(**{**SGD, "learning_rate": 1e-12}, epochs=1))
        assert history.loss == pytest.approx(task.loss(np.arange(20))[0].item() / 20, rel=1e-9)


class TestFiles:
    def test_history_and_curve_lie_beside_the_model(self, tmp_path):
        task = Linear()
        task.scores = [0.2, 0.6, 0.4]
        history = train_in(tmp_path / "new" / "run", task, TrainingSettings(**SGD, epochs=3))
        assert read_history(tmp_path / "new" / "run") == history
        assert "dev score" in (tmp_path / "new" / "run" / "learning-curve.svg").read_text()

    def test_a_killed_training_left_a_history_that_says_so(self, tmp_path):
        task = Linear()

        def dies():
            assert read_history(tmp_path).reason == "interrupted"
            raise RuntimeError

        task.scores = [0.1]
        validate = task.validate
        task.validate = lambda gather: validate(gather) if task.scores else dies()
        with pytest.raises(RuntimeError):
            train_in(tmp_path, task, TrainingSettings(**SGD))
        assert len(read_history(tmp_path).steps) == 1

    def test_no_checkpoints_without_a_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        train(Linear(), TrainingSettings(**SGD, epochs=2))
        assert list(tmp_path.iterdir()) == []

    def test_tensorboard_gets_steps_and_epochs(self, tmp_path):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        task = Linear()
        task.scores = [0.2, 0.6]
        history = train_in(tmp_path / "checkpoints", task, TrainingSettings(**SGD, epochs=2, tensorboard=True))
        events = EventAccumulator(str(tmp_path / "tensorboard"))
        events.Reload()
        dev = [(e.step, e.value) for e in events.Scalars("epoch/dev")]
        assert dev == [(4, pytest.approx(0.2)), (8, pytest.approx(0.6))]
        assert [e.step for e in events.Scalars("step/loss")] == list(range(1, 9))
        assert events.Scalars("epoch/loss")[1].value == pytest.approx(history.steps[1].loss, rel=1e-6)

    def test_where_tensorboard_writes(self, tmp_path):
        assert tensorboard_folder(False, tmp_path) is None
        assert tensorboard_folder(True, tmp_path) == tmp_path / "tensorboard"
        assert tensorboard_folder(str(tmp_path / "x"), None) == tmp_path / "x"
        with pytest.raises(ConfigError, match="tensorboard = true writes next to the model"):
            tensorboard_folder(True, None)


def test_no_examples_is_an_error():
    with pytest.raises(ModelError, match="no examples"):
        train(Linear(examples=0))
