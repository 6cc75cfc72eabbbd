"""The native E-step and the M-step, against enumeration of all state paths."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.models.hmm.oracle import corpora, expected_counts, models
from trellis import _native, chain
from trellis.errors import ModelError, NoPathError
from trellis.models.hmm.estimation import HMMObjective
from trellis.models.hmm.probabilities import Probabilities
from trellis.training.loop import em


def flat(corpus):
    return np.array([o for own in corpus for o in own], dtype=np.int64), [len(own) for own in corpus]


def parameters(model) -> Probabilities:
    return Probabilities.checked(*model)


def reference(model, corpus, weights, allowed):
    """Log-likelihood and counts, summed over the sequences; None where one is impossible."""
    L, V = model[2].shape
    sums = [0.0, np.zeros(L), np.zeros((L, L)), np.zeros((L, V))]
    for x, weight, mask in zip(corpus, weights, allowed, strict=True):
        if not x:
            continue
        total, *counts = expected_counts(*model, x, mask)
        if total == 0:
            return None
        sums[0] += weight * np.log(total)
        for own, count in zip(sums[1:], counts, strict=True):
            own += weight * count
    return sums


@settings(max_examples=80, deadline=None)
@given(models(), st.data())
def test_expected_counts_equal_enumeration(model, data) -> None:
    L, V = model[2].shape
    corpus = data.draw(corpora(V))
    weights = data.draw(st.lists(st.sampled_from([1.0, 0.5, 3.0]), min_size=len(corpus), max_size=len(corpus)))
    tokens, lengths = flat(corpus)
    masked = data.draw(st.booleans())
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(tokens) * L, max_size=len(tokens) * L)), dtype=bool)
    mask = mask.reshape(len(tokens), L) | (not masked)
    own = np.split(mask, np.cumsum(lengths)[:-1])
    expected = reference(model, corpus, weights, own)
    objective = HMMObjective(
        tokens, lengths, L, V, allowed=mask if masked else None, weights=np.array(weights, dtype=float)
    )
    if expected is None:
        with pytest.raises(NoPathError, match="has probability zero under the model"):
            objective.expected_counts(parameters(model))
        return
    log_likelihood, counts = objective.expected_counts(parameters(model))
    assert log_likelihood == pytest.approx(expected[0])
    np.testing.assert_allclose(counts.start, expected[1], atol=1e-12)
    np.testing.assert_allclose(counts.transitions, expected[2], atol=1e-12)
    np.testing.assert_allclose(counts.emissions.T, expected[3], atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(models(), st.data())
def test_em_never_lowers_the_likelihood(model, data) -> None:
    L, V = model[2].shape
    tokens, lengths = flat(data.draw(corpora(V, longest=8)))
    pseudo = data.draw(st.sampled_from([0.0, 0.5, 2.0]))
    prior = Probabilities(np.full(L, pseudo), np.full((L, L), pseudo), np.full((V, L), pseudo)) if pseudo else None
    objective = HMMObjective(tokens, lengths, L, V, pseudo=prior)
    try:
        before = objective.expect(parameters(model).flat())[0]
    except NoPathError:
        assume(False)
    for number, iterate in enumerate(em(objective, parameters(model).flat(), tolerance=-1.0)):
        assert iterate.loss <= before + 1e-9 * max(1.0, abs(iterate.loss))
        p = Probabilities.from_flat(iterate.weights, L)
        np.testing.assert_allclose(p.start.sum(), 1.0)
        np.testing.assert_allclose(p.transitions.sum(axis=1), 1.0)
        np.testing.assert_allclose(p.emissions.sum(axis=0), 1.0)
        before = iterate.loss
        if number == 8:
            break


def big(L=7, V=300, B=400, seed=0):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 60, B)
    everything = parameters(
        (random.dirichlet(np.ones(L)), random.dirichlet(np.ones(L), L), random.dirichlet(np.full(V, 0.3), L))
    )
    # frequent symbols lie in several stretches of the native sum over symbols
    tokens = np.where(random.random(lengths.sum()) < 0.6, 3, random.integers(0, V, lengths.sum()))
    return tokens, lengths, everything


def test_counts_are_the_chains_marginals() -> None:
    tokens, lengths, p = big()
    _, counts = HMMObjective(tokens, lengths, 7, 300).expected_counts(p)
    with np.errstate(divide="ignore"):
        scores = chain.ChainScores(np.log(p.emissions)[tokens], lengths, np.log(p.transitions), np.log(p.start))
    found = scores.marginals()
    by_symbol = np.zeros_like(p.emissions)
    np.add.at(by_symbol, tokens, found.tokens)
    np.testing.assert_allclose(counts.emissions, by_symbol, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(counts.transitions, found.transitions, rtol=1e-9)
    np.testing.assert_allclose(counts.start, found.start, rtol=1e-9)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    tokens, lengths, p = big()
    objective = HMMObjective(tokens, lengths, 7, 300)
    threads = chain.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3, 5):
            chain.set_num_threads(count)
            results.append(objective.expected_counts(p))
    finally:
        chain.set_num_threads(threads)
    for log_likelihood, counts in results[1:]:
        assert log_likelihood == results[0][0]
        np.testing.assert_array_equal(counts.flat(), results[0][1].flat())


def test_every_instruction_set_agrees(instruction_set: str) -> None:
    """Each with the baseline, which is compared with enumeration above."""
    tokens, lengths, p = big()
    objective = HMMObjective(tokens, lengths, 7, 300)
    found = objective.expected_counts(p)[1].flat()
    _native.use_instruction_set("baseline")
    np.testing.assert_allclose(found, objective.expected_counts(p)[1].flat(), rtol=1e-10, atol=1e-13)


def test_probabilities_that_scaled_arithmetic_cannot_hold_are_exact() -> None:
    """States that differ by 1e-300 at each of many tokens: only log space keeps the way that is possible at the end."""
    tiny = 1e-300
    emissions = np.array([[1 - tiny, tiny, 0.0], [tiny, 1 - 2 * tiny, tiny]])
    model = parameters(([0.5, 0.5], np.eye(2), emissions))
    x = [0, 0, 0, 0, 2]  # only the second state can emit the last symbol, and only it leads there
    log_likelihood, counts = HMMObjective(x, [5], 2, 3).expected_counts(model)
    assert log_likelihood == pytest.approx(np.log(0.5) + 5 * np.log(tiny))
    np.testing.assert_allclose(counts.start, [0, 1])
    np.testing.assert_allclose(counts.transitions, [[0, 0], [0, 4]])
    np.testing.assert_allclose(counts.emissions, [[0, 4], [0, 0], [0, 1]])


def test_a_way_that_falls_far_behind_may_still_win() -> None:
    """Behind by 1e-450 halfway, ahead by 1e90 at the end: what underflowed on the way is everything that matters."""
    tiny = 1e-90
    model = parameters(([0.5, 0.5], np.eye(2), [[1 - tiny, tiny], [tiny, 1 - tiny]]))
    x = [0] * 5 + [1] * 6
    log_likelihood, counts = HMMObjective(x, [11], 2, 2).expected_counts(model)
    assert log_likelihood == pytest.approx(np.log(0.5) + 5 * np.log(tiny))
    np.testing.assert_allclose(counts.transitions, [[0, 0], [0, 10]], atol=1e-80)


def test_an_underflow_in_one_sequence_leaves_its_neighbours_alone() -> None:
    tiny = 1e-300
    emissions = np.array([[1 - tiny, tiny, 0.0], [0.5, 0.25, 0.25]])
    model = parameters(([0.5, 0.5], [[1, 0], [0, 1]], emissions))
    corpus = [[0, 1, 0], [1, 1, 1, 0], [0, 0], [0, 2]]
    expected = reference((model.start, model.transitions, model.emissions.T), corpus, [1] * 4, [None] * 4)
    tokens, lengths = flat(corpus)
    log_likelihood, counts = HMMObjective(tokens, lengths, 2, 3).expected_counts(model)
    assert log_likelihood == pytest.approx(expected[0])
    np.testing.assert_allclose(counts.transitions, expected[2], atol=1e-13)
    np.testing.assert_allclose(counts.emissions.T, expected[3], atol=1e-13)


def test_a_state_that_is_never_visited_keeps_its_distributions() -> None:
    model = parameters(([1, 0], [[1, 0], [0.25, 0.75]], [[0.5, 0.5], [0.1, 0.9]]))
    objective = HMMObjective([0, 1, 1], [3], 2, 2)
    weights = model.flat()
    for _ in range(3):
        weights = objective.maximise(weights, objective.expect(weights)[1])
    p = Probabilities.from_flat(weights, 2)
    np.testing.assert_array_equal(p.transitions[1], [0.25, 0.75])
    np.testing.assert_array_equal(p.emissions[:, 1], [0.1, 0.9])
    np.testing.assert_allclose(p.emissions[:, 0], [1 / 3, 2 / 3])


def test_what_is_fixed_stays() -> None:
    tokens, lengths, p = big(B=30)
    for part in ("start", "transitions", "emissions"):
        objective = HMMObjective(tokens, lengths, 7, 300, fixed=frozenset({part}))
        weights = p.flat()
        new = Probabilities.from_flat(objective.maximise(weights, objective.expect(weights)[1]), 7)
        for name in ("start", "transitions", "emissions"):
            assert np.array_equal(getattr(new, name), getattr(p, name)) == (name == part)


def test_without_sequences_only_what_is_known_counts() -> None:
    known = Probabilities(np.array([1.0, 3.0]), np.array([[2.0, 2.0], [1.0, 0.0]]), np.array([[3.0, 1.0], [0.0, 3.0]]))
    objective = HMMObjective([], [], 2, 2, known=known)
    start = parameters(([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]])).flat()
    p = Probabilities.from_flat(next(em(objective, start)).weights, 2)
    np.testing.assert_allclose(p.start, [0.25, 0.75])
    np.testing.assert_allclose(p.transitions, [[0.5, 0.5], [1, 0]])
    np.testing.assert_allclose(p.emissions, [[1, 0.25], [0, 0.75]])


def test_probabilities_of_other_shapes_are_refused() -> None:
    with pytest.raises(ModelError, match=r"must be \(2, 2\) and \(3, 2\)"):
        HMMObjective([0], [1], 2, 3).expected_counts(Probabilities.filled(2, 2))
