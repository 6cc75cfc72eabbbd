"""The best so far: which weights are kept, when patience ends, and that an interruption mixes nothing."""

from contextlib import suppress

import numpy as np

from trellis import training
from trellis.training import Resumption, Step, TrainingState, lbfgs
from trellis.training.checkpoint import TrainingFolder


def step(number, dev=None, loss=1.0):
    return Step(number, loss, None, dev, 0.0, None)


def run(scores, losses=None):
    best = TrainingState()
    for number, dev in enumerate(scores, 1):
        loss = None if losses is None else losses[number - 1]
        one = step(number, dev, 1.0 if loss is None else loss)
        best.add(one, f"w{number}" if best.is_better(dev, loss) else None)
    return best


def test_the_first_of_equal_scores_is_kept():
    best = run([0.1, 0.5, 0.5, 0.3])
    assert (best.kept, best.weights, best.score) == (1, "w2", 0.5)
    assert best.history("converged").kept == 1


def test_of_equal_scores_the_lower_loss_is_kept_where_losses_tell():
    best = run([0.5, 1.0, 1.0, 1.0, 0.9], [9.0, 8.0, 3.0, 4.0, 1.0])
    assert (best.kept, best.weights, best.score) == (2, "w3", 1.0)


def test_equal_scores_do_not_renew_patience():
    losses = [5.0, 4.0, 3.0]
    assert [run([1.0] * n, losses[:n]).stop_reason(None, 2) for n in (1, 2, 3)] == [None, None, "early_stopping"]


def test_without_scores_the_last_is_kept():
    best = run([None, None])
    assert (best.kept, best.weights, best.score) == (1, "w2", None)


def test_patience_counts_from_the_best_and_only_where_there_are_scores():
    assert [run([0.5, 0.4, 0.4][:n]).stop_reason(None, 2) for n in (1, 2, 3)] == [None, None, "early_stopping"]
    assert not run([0.5, 0.4, 0.4]).stop_reason(None, None)
    assert not run([None] * 9).stop_reason(None, 1)
    assert not TrainingState().stop_reason(None, 1)


def test_patience_begins_when_something_is_right():
    assert not run([0.0] * 9).stop_reason(None, 2)
    ends = [run([0.0, 0.0, 0.0, 0.3, 0.2, 0.3][:n]).stop_reason(None, 2) for n in (3, 4, 5, 6)]
    assert ends == [None, None, None, "early_stopping"]


class Interrupting(list):
    """Steps that press Ctrl-C when they are asked for something the n-th time."""

    def __init__(self, n):
        super().__init__()
        self.left = n

    def _count(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def append(self, item):
        self._count()
        super().append(item)
        self._count()

    def __len__(self):
        self._count()
        return super().__len__()


def test_an_interrupt_finds_weights_and_step_together():
    """At every call that adding an iteration makes, before it and after it."""
    for n in range(1, 20):
        best = TrainingState(Interrupting(n))
        with suppress(KeyboardInterrupt):
            for number in range(5):
                best.add(step(number, number / 10), number)
        assert best.weights == (None if best.kept < 0 else best.steps[best.kept].iteration)


class Bowl:
    """1 + 1/2 x' S x, steeper in some directions."""

    def evaluate(self, weights, gradient):
        gradient[:] = weights * STEEP
        return 1.0 + 0.5 * float(weights @ gradient)


STEEP = np.linspace(1, 50, 8)
SETTINGS = {"epsilon": 0.0, "delta": 0.2, "period": 10}


def folder_of(path, resume=False):
    folder = TrainingFolder(path, "crf", resume=resume)
    folder.identify()
    return folder


def test_a_training_that_goes_on_stops_where_it_would_have_stopped(tmp_path):
    start = np.ones(8)
    whole = training.run(lbfgs(Bowl(), start, **SETTINGS), start).history
    for cut in range(1, len(whole.steps)):
        first = folder_of(tmp_path / str(cut))
        training.run(lbfgs(Bowl(), start, **SETTINGS), Resumption(start, first), max_iterations=cut)
        again = Resumption(start, folder_of(tmp_path / str(cut), resume=True))
        rest = training.run(lbfgs(Bowl(), again.weights, state=again.optimizer, **SETTINGS), again).history
        assert (len(rest.steps), rest.reason) == (len(whole.steps), whole.reason)


def test_a_training_that_had_converged_takes_no_further_step(tmp_path):
    start = np.ones(8)
    done = training.run(lbfgs(Bowl(), start, **SETTINGS), Resumption(start, folder_of(tmp_path)))
    again = Resumption(start, folder_of(tmp_path, resume=True))
    rest = training.run(lbfgs(Bowl(), again.weights, state=again.optimizer, **SETTINGS), again)
    assert rest.history.reason == done.history.reason == "converged"
    assert len(rest.history.steps) == len(done.history.steps)
    np.testing.assert_array_equal(rest.weights, done.weights)
