"""Scores of transitions that depend on the place, where scaled arithmetic is at its limits and where sums are long."""

import numpy as np
import pytest

from tests.chain import oracle
from tests.chain.oracle import Case
from trellis import chain

pytestmark = pytest.mark.usefixtures("instruction_set")
NEVER = -np.inf


def two_labels(steps: list[list[list[float]]], start: list[float], end: list[float]) -> Case:
    """One sequence whose scores are all in its edges, its start and its end."""
    T = len(steps) + 1
    parts = (np.zeros((T, 2)), np.array([T]), np.zeros((2, 2)), np.array(start), np.array(end), np.array(steps))
    return Case(*parts)


def agrees_with_enumeration(case: Case) -> None:
    scores = chain.ChainScores(*case.arrays())
    np.testing.assert_allclose(scores.log_partition(), oracle.log_partition(case), rtol=1e-12)
    found, (_, _, moves) = scores.marginals(), oracle.expected_counts(case)
    np.testing.assert_allclose(found.tokens, oracle.token_marginals(case), atol=1e-12)
    np.testing.assert_allclose(found.transitions, moves, atol=1e-12)


def test_a_step_that_is_flushed_to_zero_matters_if_all_others_are_worse() -> None:
    first, second = [[0.0, -400.0], [0.0, 0.0]], [[-330.0, NEVER], [NEVER, 0.0]]
    agrees_with_enumeration(two_labels([first, second], [0.0, NEVER], [-330.0, 0.0]))


def test_a_label_that_is_lost_at_first_matters_if_it_wins_in_the_end() -> None:
    case = two_labels([[[-200.0, NEVER], [NEVER, 0.0]]] * 4, [0.0, 0.0], [-200.0, 0.0])
    case.emissions[0, 1] = -800.0
    agrees_with_enumeration(case)


def test_labels_that_nothing_leads_to_do_not_hide_the_others_on_the_way_back() -> None:
    agrees_with_enumeration(two_labels([[[-200.0, NEVER], [0.0, 0.0]]] * 6, [0.0, NEVER], [0.0, 0.0]))


def test_expected_transitions_of_a_long_sequence_are_the_sums_of_its_pairs() -> None:
    rng = np.random.default_rng(0)
    T, L = 200, 3
    emissions, transitions, edges = (rng.normal(size=shape) for shape in ((T, L), (L, L), (T - 1, L, L)))
    scores = chain.ChainScores(emissions, np.array([T]), transitions, np.zeros(L), np.zeros(L), edges)
    scaled, in_log_space = scores.marginals(), scores.marginals(pairwise=True)
    assert in_log_space.pairwise is not None
    np.testing.assert_allclose(scaled.transitions, in_log_space.pairwise.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(scaled.tokens, in_log_space.tokens, rtol=1e-10)


def test_draws_follow_the_edges() -> None:
    case = two_labels([[[2.0, 0.0], [0.0, -1.0]], [[0.0, 3.0], [1.0, 0.0]]], [0.0, 0.5], [0.0, 0.0])
    drawn = chain.ChainScores(*case.arrays()).sample(20_000, seed=1).reshape(-1, 3)
    (paths,) = oracle.enumerate_paths(case)
    shares = [(drawn == path).all(axis=1).mean() for path in paths.tags]
    np.testing.assert_allclose(shares, paths.probabilities, atol=0.015)
