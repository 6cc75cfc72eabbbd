"""Extreme scores: every way to the same answer agrees with exact fractions over all paths.

One generator makes the scores: dead ends (states from which the end cannot be reached, or which cannot be reached from
the start) with large scores, magnitudes from denormal numbers to the end of the type's range side by side, forbidden
scores anywhere. The ways: scaled arithmetic and log space, each instruction set, both precisions, transitions as edges,
the segments of one token each, plain torch, and the k-best search beside Viterbi.

What is promised, and checked here. Let M be the largest score in absolute value among those on complete paths, at
least 1, T the length and eps that of the type. Then log Z, the score of the path of Viterbi, log odds of marginals and
log probabilities are off by at most 16 T eps M. Scores that are on no complete path have no influence at all: answers
stay the same bit by bit whatever they are.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from tests.chain.strategies import check
from trellis.chain import ChainScores, SegmentScores
from trellis.chain.torch import scan

NEG_INF = -np.inf
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SEEDS = st.integers(0, 2**32)


@dataclass(frozen=True)
class Exact:
    """All complete paths of one sequence with their exact scores, best first."""

    paths: list[tuple[int, ...]]
    scores: list[Fraction]

    @property
    def log_weights(self) -> np.ndarray:
        """Score of each path minus the best one, rounded once."""
        return np.array([float(score - self.scores[0]) for score in self.scores])

    @property
    def probabilities(self) -> np.ndarray:
        weights = np.exp(self.log_weights)
        return weights / weights.sum()

    @property
    def log_partition(self) -> float:
        return float(self.scores[0] + Fraction(float(np.log(np.exp(self.log_weights).sum()))))

    @property
    def entropy(self) -> float:
        p = self.probabilities
        return float(-(p[p > 0] * np.log(p[p > 0])).sum())


def exact(scores: ChainScores) -> Exact:
    """Enumerate the paths of a batch of one sequence."""
    T, L = scores.emissions.shape
    found = []
    for path in itertools.product(range(L), repeat=T):
        terms = [scores.start[path[0]], scores.end[path[-1]], *scores.emissions[range(T), path]]
        terms += [scores.transitions[i, j] for i, j in itertools.pairwise(path)]
        if NEG_INF not in terms:
            found.append((sum(map(Fraction, map(float, terms))), path))
    found.sort(key=lambda pair: (-pair[0], pair[1][::-1]))
    return Exact([path for _, path in found], [score for score, _ in found])


def alive(scores: ChainScores, truth: Exact) -> np.ndarray:
    """Which states lie on a complete path, bool [T, L]."""
    mask = np.zeros(scores.emissions.shape, dtype=bool)
    for path in truth.paths:
        mask[range(len(path)), path] = True
    return mask


def tolerance(scores: ChainScores, truth: Exact) -> float:
    """16 T eps M."""
    mask = alive(scores, truth)
    used = [scores.emissions[mask], scores.start[mask[0]], scores.end[mask[-1]]]
    for t in range(1, len(mask)):
        used.append(scores.transitions[np.ix_(mask[t - 1], mask[t])].ravel())
    values = np.abs(np.concatenate(used).astype(np.float64))
    largest = max(1.0, float(values[np.isfinite(values)].max()))
    return 16 * len(mask) * float(np.finfo(scores.emissions.dtype).eps) * largest


def extreme(seed: int, dtype: type) -> ChainScores:
    """Scores of one short sequence: mixed magnitudes, forbidden scores, dead ends with large scores."""
    rng = np.random.default_rng(seed)
    T, L = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    info = np.finfo(dtype)
    ladder = [0.0, float(info.smallest_subnormal), float(info.tiny), 1e-3, 1.0, 30.0, 90.0, 800.0, 1e8]
    ladder += [1e30] if dtype is np.float32 else [1e15, 1e17, 1e300]
    largest = int(rng.integers(4, len(ladder) + 1))  # most cases stay moderate, so that the promise is not void

    def draw(*shape: int) -> np.ndarray:
        sizes = np.array(ladder[:largest])[rng.integers(largest, size=shape)]
        calm = rng.random(shape) < 0.6
        return np.where(calm, rng.normal(size=shape), rng.normal(size=shape) * sizes).astype(dtype)

    emissions, transitions, start, end = draw(T, L), draw(L, L), draw(L), draw(L)
    share = rng.choice([0.0, 0.1, 0.4])
    for array in (emissions, transitions, start, end):
        array[rng.random(array.shape) < share] = NEG_INF
    for label in range(1, L):
        kind = rng.integers(5)
        if kind == 0:  # a dead end: nothing follows
            transitions[label] = NEG_INF
            end[label] = NEG_INF
        elif kind == 1:  # nothing leads there
            transitions[:, label] = NEG_INF
            start[label] = NEG_INF
        if kind < 2:
            emissions[:, label] = rng.choice([1.0, 50.0, 1e8, ladder[-1]], size=T) * rng.normal(size=T)
    return ChainScores(emissions, [T], transitions, start, end)


def extreme_with_paths(seed: int, dtype: type) -> tuple[ChainScores, Exact]:
    """The first of the cases from this seed on that has a complete path."""
    for offset in itertools.count():
        scores = extreme(seed + offset, dtype)
        truth = exact(scores)
        if truth.paths:
            return scores, truth
    raise AssertionError


def as_edges(scores: ChainScores) -> ChainScores:
    """The same chain with its transitions in the edges."""
    edges = np.repeat(scores.transitions[None], len(scores.emissions) - 1, axis=0)
    none = np.zeros_like(scores.transitions)
    return ChainScores(scores.emissions, scores.lengths, none, scores.start, scores.end, edges=edges)


def as_segments(scores: ChainScores) -> SegmentScores:
    """The same chain as segments of one token each."""
    arrays = [x.astype(np.float64) for x in (scores.emissions[:, None], scores.transitions, scores.start, scores.end)]
    return SegmentScores(arrays[0], scores.lengths, *arrays[1:])


def as_torch(scores: ChainScores) -> scan.Chain:
    arrays = (scores.emissions, scores.lengths, scores.transitions, scores.start, scores.end)
    return scan.Chain(*map(torch.from_numpy, arrays))


def token_probabilities(truth: Exact, shape: tuple[int, ...]) -> np.ndarray:
    result = np.zeros(shape)
    for path, p in zip(truth.paths, truth.probabilities, strict=True):
        result[range(len(path)), path] += p
    return result


def assert_probabilities(found: np.ndarray, expected: np.ndarray, off: float) -> None:
    """Log odds may be off by `off`; nothing of that saves a probability from lying between 0 and 1."""
    found = np.asarray(found, dtype=np.float64)
    assert np.all((found >= 0) & (found <= 1 + 1e-5))
    np.testing.assert_allclose(found, expected, atol=min(1.0, np.expm1(min(off, 1.0))) + 1e-12, rtol=0)


@pytest.mark.usefixtures("instruction_set")
@DTYPES
@check(SEEDS, max_examples=150)
def test_log_partition_and_marginals_agree_with_exact_fractions(dtype: type, seed: int) -> None:
    scores, truth = extreme_with_paths(seed, dtype)
    off, total = tolerance(scores, truth), truth.log_partition
    expected = token_probabilities(truth, scores.emissions.shape)
    for own in (scores, as_edges(scores)):
        assert abs(float(own.log_partition()[0]) - total) <= off
        for pairwise in (False, True):  # scaled, and log space
            answer = own.marginals(pairwise=pairwise)
            assert abs(float(answer.log_partition[0]) - total) <= off
            assert_probabilities(answer.tokens, expected, off)
    segments = as_segments(scores)
    assert abs(float(segments.log_partition()[0]) - total) <= off
    assert_probabilities(segments.marginals().segments[:, 0], expected, off)


@DTYPES
@check(SEEDS, max_examples=100)
def test_plain_torch_agrees_with_exact_fractions(dtype: type, seed: int) -> None:
    scores, truth = extreme_with_paths(seed, dtype)
    off, chain = tolerance(scores, truth), as_torch(scores)
    assert abs(float(scan.log_partition(chain)[0]) - truth.log_partition) <= off
    expected = token_probabilities(truth, scores.emissions.shape)
    assert_probabilities(scan.marginals(chain)[1].numpy(), expected, off)
    assert_best(scores, truth, tuple(scan.viterbi(chain)[0].tolist()))


def assert_best(scores: ChainScores, truth: Exact, path: tuple[int, ...]) -> None:
    """The path is complete, and no path is better by more than the tolerance."""
    assert path in truth.paths
    gap = truth.scores[0] - truth.scores[truth.paths.index(path)]
    assert float(gap) <= tolerance(scores, truth)


@pytest.mark.usefixtures("instruction_set")
@DTYPES
@check(SEEDS, max_examples=150)
def test_viterbi_and_kbest_find_the_best_path_of_exact_fractions(dtype: type, seed: int) -> None:
    scores, truth = extreme_with_paths(seed, dtype)
    off = tolerance(scores, truth)
    for own in (scores, as_edges(scores)):
        best = own.viterbi()
        assert_best(scores, truth, tuple(best.tags.tolist()))
        assert abs(float(best.scores[0]) - float(truth.scores[0])) <= off
        found = own.kbest(4)
        assert len(found.scores[0]) == min(4, len(truth.paths))
        assert_best(scores, truth, tuple(found.tags[0][0].tolist()))
        for score, expected in zip(found.scores[0], truth.scores, strict=False):
            assert abs(float(score) - float(expected)) <= off
    path = as_segments(scores).viterbi()
    assert_best(scores, truth, tuple(path.paths[0][:, 2].tolist()))


@pytest.mark.usefixtures("instruction_set")
@DTYPES
@check(SEEDS, max_examples=150)
def test_entropy_is_never_negative_and_agrees(dtype: type, seed: int) -> None:
    scores, truth = extreme_with_paths(seed, dtype)
    off = tolerance(scores, truth)
    found = [float(own.entropy()[0]) for own in (scores, as_edges(scores), as_segments(scores))]
    assert min(found) >= 0.0
    if off < 0.01:  # p log p of a path changes by at most that much times its own surprise
        bound = 8 * off * (1 + float(np.abs(truth.log_weights).clip(max=800).max())) + 1e-12
        np.testing.assert_allclose(found, truth.entropy, atol=bound)


@DTYPES
@check(SEEDS, max_examples=60)
def test_samples_come_as_often_as_their_paths_are_probable(dtype: type, seed: int) -> None:
    scores, truth = extreme_with_paths(seed, dtype)
    n, off = 2000, tolerance(scores, truth)
    drawn = [tuple(path) for path in scores.sample(n, seed=seed % 1000).tolist()]
    assert set(drawn) <= set(truth.paths)
    for path, p in zip(truth.paths, truth.probabilities, strict=True):
        slack = 5 * np.sqrt(n * p * (1 - p)) + n * min(1.0, np.expm1(min(off, 1.0))) + 1
        assert abs(drawn.count(path) - n * p) <= slack


@pytest.mark.usefixtures("instruction_set")
@DTYPES
@check(SEEDS, max_examples=150)
def test_scores_on_no_complete_path_change_no_bit_of_any_answer(dtype: type, seed: int) -> None:
    scores, truth = extreme_with_paths(seed, dtype)
    rng = np.random.default_rng(seed)
    dead = ~alive(scores, truth) & (scores.emissions > NEG_INF)
    others = [np.where(dead, NEG_INF, scores.emissions)]
    if dead.any():
        noise = (rng.normal(size=dead.shape) * rng.choice([1e-3, 1e3, 1e20], size=dead.shape)).astype(dtype)
        others.append(np.where(dead, noise, scores.emissions))
    wanted = answers(scores, truth)
    for emissions in others:
        changed = ChainScores(emissions.astype(dtype), scores.lengths, scores.transitions, scores.start, scores.end)
        for expected, found in zip(wanted, answers(changed, truth), strict=True):
            np.testing.assert_array_equal(found, expected)


def answers(scores: ChainScores, truth: Exact) -> list[np.ndarray]:
    """All that a chain can say, as arrays."""
    marginals, log_space, best = scores.marginals(), scores.marginals(pairwise=True), scores.viterbi()
    spans, path = [[0, 0, len(scores.emissions)]], [list(truth.paths[-1])]
    found = [scores.log_partition(), marginals.tokens, marginals.transitions, log_space.tokens, best.tags, best.scores]
    found += [scores.entropy(), scores.kbest(3).scores[0], scores.sample(5, seed=1), scores.span_log_prob(spans, path)]
    found += [scores.nll(truth.paths[0]), scores.nll(truth.paths[0], weights=np.ones(len(truth.paths[0])))]
    return [np.asarray(x) for x in found]
