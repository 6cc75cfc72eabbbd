"""EM as a trainer sees it: on a mixture of two coins, which is no HMM."""

import numpy as np

from trellis.training.loop import best_of_restarts, em

HEADS = np.array([9, 8, 2, 1, 9, 3])  # of 10 throws of one of two coins


class Coins:
    """Weights are the two coins' chances of heads; which coin was thrown is hidden."""

    def expect(self, weights):
        likelihoods = weights ** HEADS[:, None] * (1 - weights) ** (10 - HEADS[:, None])
        total = likelihoods.sum(axis=1, keepdims=True)
        return -float(np.log(total / 2).sum()), likelihoods / total

    def maximise(self, weights, statistics):
        return (statistics * HEADS[:, None]).sum(axis=0) / (10 * statistics.sum(axis=0))


def test_the_loss_of_each_iterate_is_its_own_and_never_rises() -> None:
    coins, losses = Coins(), []
    for iterate in em(coins, np.array([0.6, 0.5]), tolerance=1e-9):
        assert iterate.loss == coins.expect(iterate.weights)[0]
        losses.append(iterate.loss)
        if iterate.stop:
            break
    assert iterate.stop == "converged"
    assert losses == sorted(losses, reverse=True)
    np.testing.assert_allclose(iterate.weights, [26 / 30, 6 / 30], atol=0.01)


def test_it_ends_only_when_the_gain_is_small() -> None:
    iterates = em(Coins(), np.array([0.6, 0.5]), tolerance=0.1)
    losses = [Coins().expect(np.array([0.6, 0.5]))[0]]
    for iterate in iterates:
        losses.append(iterate.loss)
        gain = losses[-2] - losses[-1]
        assert (iterate.stop == "converged") == (gain <= 0.1 * abs(iterate.loss))
        if iterate.stop:
            break
    assert gain > 0.1  # an absolute tolerance would have gone on


def test_the_best_restart_is_kept() -> None:
    same = np.array([0.5, 0.5])  # a saddle: both coins stay alike for ever
    starts = [same, np.array([0.6, 0.5]), same]
    trained = best_of_restarts(Coins(), starts, tolerance=1e-9)
    alone = best_of_restarts(Coins(), starts[1:2], tolerance=1e-9)
    np.testing.assert_array_equal(trained.weights, alone.weights)
    assert trained.history.loss < best_of_restarts(Coins(), [same]).history.loss


def test_a_held_out_score_chooses_before_the_loss() -> None:
    starts = [np.array([0.6, 0.5]), np.array([0.5, 0.6])]
    trained = best_of_restarts(Coins(), starts, validate=lambda weights: float(weights[1]), tolerance=1e-9)
    assert trained.weights[1] > trained.weights[0]


def test_an_interrupt_ends_the_restarts() -> None:
    def stop(step):
        raise KeyboardInterrupt

    starts = iter([np.array([0.6, 0.5]), np.array([0.1, 0.5])])
    trained = best_of_restarts(Coins(), starts, progress=stop)
    assert trained.history.reason == "interrupted"
    assert next(starts) is not None


def test_an_interrupt_between_restarts_keeps_the_best_of_those_before() -> None:
    def starts():
        yield np.array([0.6, 0.5])
        raise KeyboardInterrupt

    trained = best_of_restarts(Coins(), starts())
    assert (trained.history.reason, len(trained.history.steps) > 0) == ("interrupted", True)


def test_an_interrupt_in_a_worse_restart_is_not_forgotten() -> None:
    """What is kept converged long before, but the training as a whole was interrupted."""

    def stop(step):
        heard.append(step)
        if sum(step.iteration == 1 for step in heard) == 2:
            raise KeyboardInterrupt

    heard: list = []
    trained = best_of_restarts(Coins(), [np.array([0.6, 0.5]), np.array([0.5, 0.5])], progress=stop, tolerance=1e-9)
    assert trained.history.reason == "interrupted"
    assert trained.weights[0] > 0.8
