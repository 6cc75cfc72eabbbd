"""Segments (semi-Markov): every answer against the list of all coverings of small sequences."""

from itertools import pairwise, product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from trellis import chain
from trellis.chain import SegmentScores
from trellis.errors import ChainError, NonFiniteError, NoPathError, ShapeError, TagRangeError


def cuts(T: int, K: int) -> list[list[tuple[int, int]]]:
    """All ways to cut T tokens into pieces of at most K."""
    if T == 0:
        return [[]]
    return [[*rest, (T - k, T)] for k in range(1, min(K, T) + 1) for rest in cuts(T - k, K)]


def coverings(scores: SegmentScores, b: int) -> list[tuple[list[tuple[int, int, int]], float]]:
    """Every covering of a sequence with its score, by the definition."""
    one = scores.part(b)
    found = []
    for pieces in cuts(len(one.segments), scores.longest):
        for labels in product(range(scores.num_labels), repeat=len(pieces)):
            path = [(begin, end, label) for (begin, end), label in zip(pieces, labels, strict=True)]
            total = sum(one.segments[end - 1, end - begin - 1, label] for begin, end, label in path)
            total += sum(one.transitions[i, j] for i, j in pairwise(labels))
            total += one.start[labels[0]] + one.end[labels[-1]] if labels else 0.0
            found.append((path, float(total)))
    return found


@st.composite
def batches(draw: st.DrawFn) -> SegmentScores:
    K, L = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from([1.0, 30.0, 800.0]))
    arrays = [random.normal(0, size, shape) for shape in ((sum(lengths), K, L), (L, L), (L,), (L,))]
    if draw(st.booleans()):
        for array in arrays:
            array[random.random(array.shape) < 0.15] = -np.inf
    return SegmentScores(arrays[0], lengths, *arrays[1:])


def log_sum(values: list[float]) -> float:
    top = max(values, default=-np.inf)
    return top if np.isneginf(top) else float(top + np.log(np.sum(np.exp(np.array(values) - top))))


def has_paths(scores: SegmentScores) -> bool:
    return all(log_sum([s for _, s in coverings(scores, b)]) > -np.inf for b in range(len(scores.lengths)))


@given(batches())
@settings(max_examples=150)
def test_answers_are_those_of_the_list_of_all_coverings(scores: SegmentScores) -> None:
    if not has_paths(scores):
        with pytest.raises(NoPathError, match="has no valid path"):
            scores.log_partition()
        return
    expected = [coverings(scores, b) for b in range(len(scores.lengths))]
    log_z = np.array([log_sum([s for _, s in own]) for own in expected])
    np.testing.assert_allclose(scores.log_partition(), log_z, rtol=1e-12, atol=1e-9)
    best = scores.viterbi()
    np.testing.assert_allclose(best.scores, [max(s for _, s in own) for own in expected], rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(scores.score(best.paths), best.scores, rtol=1e-12, atol=1e-9)
    for b, own in enumerate(expected):
        p = np.exp([s - log_z[b] for _, s in own])
        logs = np.array([s - log_z[b] if s > -np.inf else 0.0 for _, s in own])
        np.testing.assert_allclose(scores.entropy()[b], -(p * logs).sum(), rtol=1e-9, atol=1e-9)


@given(batches())
@settings(max_examples=100)
def test_marginals_are_sums_over_the_coverings(scores: SegmentScores) -> None:
    if not has_paths(scores):
        return
    found, offset = scores.marginals(), 0
    segments, a, s, e = (np.zeros_like(x) for x in (found.segments, found.transitions, found.start, found.end))
    for b, T in enumerate(scores.lengths.tolist()):
        for path, score in coverings(scores, b):
            p = np.exp(score - found.log_partition[b])
            for begin, end, label in path:
                segments[offset + end - 1, end - begin - 1, label] += p
            for (*_, i), (*_, j) in pairwise(path):
                a[i, j] += p
            if path:
                s[path[0][2]] += p
                e[path[-1][2]] += p
        offset += T
    for got, wanted in ((found.segments, segments), (found.transitions, a), (found.start, s), (found.end, e)):
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-9)


@given(batches(), st.integers(1, 12))
@settings(max_examples=100)
def test_the_k_best_are_the_first_of_the_sorted_list(scores: SegmentScores, k: int) -> None:
    if not has_paths(scores):
        return
    found = scores.kbest(k)
    for b in range(len(scores.lengths)):
        wanted = sorted((s for _, s in coverings(scores, b) if s > -np.inf), reverse=True)[:k]
        np.testing.assert_allclose(found.scores[b], wanted, rtol=1e-12, atol=1e-9)
        assert len({tuple(map(tuple, path.tolist())) for path in found.paths[b]}) == len(wanted)
        for path, score in zip(found.paths[b], found.scores[b], strict=True):
            assert scores.part(b).score([path])[0] == pytest.approx(score, rel=1e-12, abs=1e-9)


def some(lengths: list[int], K: int = 3, L: int = 2, seed: int = 0) -> SegmentScores:
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=shape) for shape in ((sum(lengths), K, L), (L, L), (L,), (L,))]
    return SegmentScores(arrays[0], lengths, *arrays[1:])


def test_samples_have_the_frequencies_of_the_distribution() -> None:
    scores, n = some([3]), 20_000
    drawn = scores.sample(n, seed=3).paths[0]
    counts: dict[tuple[tuple[int, ...], ...], int] = {}
    for path in drawn:
        key = tuple(map(tuple, path.tolist()))
        counts[key] = counts.get(key, 0) + 1
    log_z = scores.log_partition()[0]
    for path, score in coverings(scores, 0):
        p = np.exp(score - log_z)
        assert counts.get(tuple(path), 0) / n == pytest.approx(p, abs=5 * np.sqrt(p / n))


def test_the_gradient_of_a_weighted_log_partition_is_the_weighted_marginals() -> None:
    scores, weights = some([4, 0, 2]), np.array([1.0, 3.0, -0.5])
    found = scores.weighted_marginals(weights)
    names = ("segments", "transitions", "start", "end")
    for name in names:
        gradient = getattr(found, name)
        for place in np.ndindex(gradient.shape):
            values = []
            for step in (1e-6, -1e-6):
                parts = {own: getattr(scores, own).copy() for own in names}
                parts[name][place] += step
                other = SegmentScores(parts["segments"], scores.lengths, *(parts[own] for own in names[1:]))
                values.append((weights * other.log_partition()).sum())
            assert (values[0] - values[1]) / 2e-6 == pytest.approx(gradient[place], abs=1e-7)
    with pytest.raises(ShapeError, match=r"weights must be \(B,\) = \(3,\), got \(2,\)"):
        scores.weighted_marginals(np.array([1.0, 2.0]))


def test_a_batch_gives_what_single_sequences_give_with_any_number_of_threads() -> None:
    scores = some([7, 0, 40, 1, 300] * 6, K=5, L=6)
    before = chain.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 5):
            chain.set_num_threads(threads)
            marginals = scores.marginals()
            answers = (marginals.segments, marginals.transitions, scores.entropy(), scores.viterbi().scores)
            found.append([answer.tobytes() for answer in answers])
    finally:
        chain.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    each = [scores.part(b).log_partition()[0] for b in range(len(scores.lengths))]
    assert scores.log_partition().tolist() == each


def test_an_empty_sequence_has_the_empty_covering() -> None:
    scores = some([0])
    assert scores.log_partition().tolist() == scores.entropy().tolist() == [0.0]
    assert scores.viterbi().paths[0].shape == (0, 3)
    assert scores.nll([[]]).tolist() == [0.0]
    assert [path.shape for path in scores.sample(2).paths[0]] == [(0, 3), (0, 3)]
    assert SegmentScores(np.empty((0, 2, 1)), [], [[0.0]]).log_partition().shape == (0,)


def test_scores_before_the_sequence_are_ignored() -> None:
    scores = some([2, 2])
    spoiled = scores.segments.copy()
    spoiled[[0, 2], 1:], spoiled[[1, 3], 2:] = np.nan, np.inf
    other = SegmentScores(spoiled, scores.lengths, scores.transitions, scores.start, scores.end)
    assert other.log_partition().tolist() == scores.log_partition().tolist()
    assert np.array_equal(other.marginals().segments, scores.marginals().segments)


def test_restricted_forbids_segments() -> None:
    scores = some([4])
    allowed = np.ones(scores.segments.shape, dtype=bool)
    allowed[:, 1:] = False
    assert len(scores.restricted(allowed).viterbi().paths[0]) == 4
    allowed[:] = False
    with pytest.raises(NoPathError, match="sequence 0 of length 4 has no valid path"):
        scores.restricted(allowed).marginals()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ([(0, 2, 0)], "they end too early"),
        ([(0, 2, 0), (3, 4, 0)], "segment 1 is 3..4"),
        ([(0, 4, 0)], "segment 0 is 0..4"),
        ([(0, 1, 0), (1, 1, 0), (1, 4, 0)], "segment 1 is 1..1"),
        ([(0, 3, 0), (3, 5, 0)], "segment 1 is 3..5"),
        ([0, 3, 0], r"must be integers \(S, 3\)"),
        ([(0.5, 3, 0)], r"must be integers \(S, 3\)"),
    ],
)
def test_paths_that_do_not_cover_their_sequence_are_refused(path: list, problem: str) -> None:
    with pytest.raises(ShapeError, match=problem):
        some([4]).nll([path])


def test_bad_scores_are_named() -> None:
    scores = some([2, 3])
    with pytest.raises(TagRangeError, match=r"segment 1 of sequence 0 has the label 2: must be in 0\.\.1"):
        scores.score([[(0, 1, 0), (1, 2, 2)], [(0, 3, 0)]])
    with pytest.raises(ShapeError, match="paths must be those of 2 sequences, got 1"):
        scores.score([[(0, 2, 0)]])
    with pytest.raises(ShapeError, match=r"transitions must be \(2, 2\)"):
        SegmentScores(scores.segments, scores.lengths, np.zeros((3, 3)))
    with pytest.raises(ShapeError, match=r"segments must be \(N, K, L\)"):
        SegmentScores(np.zeros((2, 2)), [2], np.zeros((2, 2)))
    with pytest.raises(ShapeError, match=r"allowed must be bool \(N, K, L\)"):
        scores.restricted(np.ones((5, 3)))
    spoiled = scores.segments.copy()
    spoiled[3, 1, 0] = np.nan
    with pytest.raises(NonFiniteError, match="segments of sequence 1, token 1, length 2, label 0 are nan"):
        SegmentScores(spoiled, scores.lengths, scores.transitions).viterbi()
    with pytest.raises(NonFiniteError, match=r"start\[1\] is inf"):
        SegmentScores(scores.segments, scores.lengths, scores.transitions, [0, np.inf]).log_partition()
    with pytest.raises(NonFiniteError, match="add up to more than float64 holds"):
        SegmentScores(np.full((2, 1, 1), 1.7e308), [2], [[0.0]]).log_partition()
    with pytest.raises(ChainError, match="k must be an integer >= 1"):
        scores.kbest(0)
    with pytest.raises(ChainError, match="more than one answer may hold"):
        scores.kbest(10**9)
    forbidden = scores.restricted(np.arange(2) == np.ones(scores.segments.shape))
    with pytest.raises(NoPathError, match="the segments of sequence 0 are forbidden"):
        forbidden.nll([[(0, 2, 0)], [(0, 3, 1)]])


def by_recursion(scores: SegmentScores) -> tuple[float, np.ndarray]:
    """Log Z and marginals of one sequence by the recursions in log space, as plain as they get."""
    with np.errstate(divide="ignore"):
        T, K, L = scores.segments.shape
        into, alpha = np.full((T + 1, L), -np.inf), np.full((T, L), -np.inf)
        since, beta = np.full((T, L), -np.inf), np.full((T, L), -np.inf)
        into[0], beta[T - 1] = scores.start, scores.end
        for t in range(T):
            for k in range(min(K, t + 1)):
                alpha[t] = np.logaddexp(alpha[t], into[t - k] + scores.segments[t, k])
            into[t + 1] = np.logaddexp.reduce(alpha[t][:, None] + scores.transitions)
        for t in reversed(range(T)):
            for k in range(min(K, T - t)):
                since[t] = np.logaddexp(since[t], scores.segments[t + k, k] + beta[t + k])
            if t:
                beta[t - 1] = np.logaddexp.reduce(scores.transitions + since[t], axis=1)
        log_z = np.logaddexp.reduce(alpha[T - 1] + scores.end)
        p = np.zeros((T, K, L))
        for t in range(T):
            for k in range(min(K, t + 1)):
                p[t, k] = np.exp(into[t - k] + scores.segments[t, k] + beta[t] - log_z)
        return float(log_z), p


@given(
    st.integers(0, 2**32), st.sampled_from([0.1, 5.0, 60.0, 200.0, 1000.0]), st.sampled_from([0.0, 0.3]), st.booleans()
)
@settings(max_examples=150)
def test_scaled_arithmetic_is_as_exact_as_log_space(seed: int, size: float, forbidden: float, magic: bool) -> None:
    random = np.random.default_rng(seed)
    T, K, L = int(random.integers(1, 40)), int(random.integers(1, 12)), int(random.integers(1, 7))
    arrays = [random.normal(0, size, shape) for shape in ((T, K, L), (L, L), (L,), (L,))]
    for array in arrays:
        array[random.random(array.shape) < forbidden] = -10_000.0 if magic else -np.inf
    scores = SegmentScores(arrays[0], [T], *arrays[1:])
    with np.errstate(invalid="ignore"):
        log_z, p = by_recursion(scores)
    if np.isneginf(log_z):
        with pytest.raises(NoPathError):
            scores.log_partition()
        return
    found = scores.marginals()
    assert found.log_partition[0] == pytest.approx(log_z, rel=1e-12, abs=1e-9)
    assert scores.log_partition()[0] == pytest.approx(log_z, rel=1e-12, abs=1e-9)
    np.testing.assert_allclose(found.segments, p, atol=1e-8)


def test_a_label_that_nothing_reaches_may_have_any_score() -> None:
    segments = np.zeros((6, 2, 2))
    segments[:, :, 1] = 2000.0
    transitions = np.array([[0.0, -np.inf], [0.0, 0.0]])
    scores = SegmentScores(segments, [6], transitions, [0.0, -np.inf])
    assert scores.log_partition()[0] == pytest.approx(np.log(13))  # ways to cut six tokens into ones and twos
    assert scores.marginals().segments[:, :, 1].max() == 0.0


def far_below(place: str) -> SegmentScores:
    """Two tokens, one of two labels: 1 1 has the score -900, all of it at one place, and 0 0 has -2000, at its end."""
    segments, transitions = np.zeros((2, 1, 2)), np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    start, end = np.zeros(2), np.zeros(2)
    if place == "end":
        end[:] = -2000.0, -900.0
        return SegmentScores(segments, [2], transitions, start, end)
    segments[1, 0, 0] = -2000.0
    array, index = {"segments": (segments, (0, 0, 1)), "start": (start, 1), "transitions": (transitions, (1, 1))}[place]
    array[index] = -900.0
    return SegmentScores(segments, [2], transitions, start, end)


@pytest.mark.parametrize("place", ["segments", "start", "end", "transitions"])
def test_the_best_path_is_not_lost_where_it_is_far_below_another(place: str) -> None:
    scores = far_below(place)
    assert sorted(score for _, score in coverings(scores, 0))[-2:] == [-2000.0, -900.0]
    assert scores.log_partition().tolist() == [-900.0]
    found = scores.marginals()
    assert found.log_partition.tolist() == [-900.0]
    assert found.segments[:, 0, 1].tolist() == [1.0, 1.0]


def test_the_only_path_is_not_lost() -> None:
    """Nothing else is possible, and it ends with a score that is flushed to zero beside a forbidden one."""
    scores = SegmentScores(np.zeros((1, 1, 2)), [1], np.zeros((2, 2)), [-np.inf, 0.0], [0.0, -900.0])
    assert scores.log_partition().tolist() == [-900.0]


def test_what_leads_nowhere_may_be_as_large_as_it_likes() -> None:
    segments = np.zeros((3, 1, 2))
    segments[:, 0, 0] = 300.0
    transitions = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    scores = SegmentScores(segments, [3], transitions, [0.0, 0.0], [-np.inf, 0.0])
    assert scores.log_partition().tolist() == [0.0]
    assert scores.marginals().segments[:, 0, 1].tolist() == [1.0] * 3
    backwards = SegmentScores(segments, [3], transitions, [-np.inf, 0.0], [0.0, 0.0])
    assert backwards.log_partition().tolist() == [0.0]
    assert backwards.marginals().segments[:, 0].tolist() == [[0.0, 1.0]] * 3
