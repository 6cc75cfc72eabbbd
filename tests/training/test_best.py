"""The best so far: which weights are kept, when patience ends, and that an interruption mixes nothing."""

import signal

from trellis.training import Step
from trellis.training.best import Best


def step(number, dev=None):
    return Step(number, 1.0, None, dev, 0.0, None)


def run(scores):
    best = Best()
    for number, dev in enumerate(scores, 1):
        best.add(step(number, dev), f"w{number}" if best.is_better(dev) else None)
    return best


def test_the_first_of_equal_scores_is_kept():
    best = run([0.1, 0.5, 0.5, 0.3])
    assert (best.kept, best.weights, best.score) == (1, "w2", 0.5)
    assert best.history("converged").kept == 1


def test_without_scores_the_last_is_kept():
    best = run([None, None])
    assert (best.kept, best.weights, best.score) == (1, "w2", None)


def test_patience_counts_from_the_best_and_only_where_there_are_scores():
    assert [run([0.5, 0.4, 0.4][:n]).is_out_of_patience(2) for n in (1, 2, 3)] == [False, False, True]
    assert not run([0.5, 0.4, 0.4]).is_out_of_patience(None)
    assert not run([None] * 9).is_out_of_patience(1)
    assert not Best().is_out_of_patience(1)


def test_an_interrupt_finds_weights_and_step_together():
    """Ctrl-C at every moment that Python hears of it: each is the end of a call."""

    def press(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, press)
    try:
        for delay in range(1, 300):
            best = Best()
            try:
                signal.setitimer(signal.ITIMER_REAL, delay * 1e-6)
                for number in range(100_000):
                    best.add(step(number, number / 1e6), number)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert best.weights == (None if best.kept < 0 else best.steps[best.kept].iteration)
            assert best.kept == len(best.steps) - 1
    finally:
        signal.signal(signal.SIGALRM, before)
