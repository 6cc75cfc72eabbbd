"""Every operation on NumPy arrays, held to enumeration: T in 0..5, L in 1..4, every instruction set, both dtypes."""

import functools
import itertools
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from tests.chain import oracle
from tests.chain.oracle import NEG_INF, Case
from tests.chain.strategies import (
    FINITE,
    LARGE,
    TIED,
    allowed_masks,
    arrays,
    bools,
    check,
    grid_case,
    labelled_cases,
    spans_of,
    valid_cases,
)
from trellis import chain

ALL_SIZES = st.sampled_from([FINITE, TIED, LARGE]).flatmap(labelled_cases)
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
GRID = [
    *itertools.product([1, 2, 3, 4], [0.0, 0.2, 0.5], [1.0, 1e3], [False]),
    *itertools.product([1, 2, 3, 4], [0.0, 0.3], [1.0, 1e3], [True]),
]


def make(case: Case, dtype: npt.DTypeLike = np.float64) -> chain.ChainScores:
    return chain.ChainScores(*(x if x is case.lengths else x.astype(dtype) for x in case.arrays()))


def rounded(case: Case, dtype: npt.DTypeLike) -> Case:
    """The scores as the kernels see them, in float64 for the oracle."""
    scores = make(case, dtype)
    parts = (scores.emissions, scores.lengths, scores.transitions, scores.start, scores.end, scores.edges)
    return Case(*(x if x is None or x.dtype == np.int64 else x.astype(np.float64) for x in parts))


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-10) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def all_spans(case: Case, tags: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    spans = [(b, i, j) for b, T in enumerate(case.lengths) for j in range(T + 1) for i in range(j)]
    return np.array(spans), [case.split(tags)[b][i:j] for b, i, j in spans]


class Exact:
    """The answers for one batch with a sequence of every length, by enumeration; shared by all instruction sets."""

    def __init__(self, L: int, forbidden: float, scale: float, with_edges: bool, dtype: npt.DTypeLike) -> None:
        case, tags = grid_case(L, forbidden, scale, with_edges)
        self.case, self.tags, self.tolerance = rounded(case, dtype), tags, TOLERANCE[np.dtype(dtype)]
        self.scores = make(case, dtype)
        self.log_partition = oracle.log_partition(self.case)
        self.path_score = oracle.path_score(self.case, tags)
        self.entropy = oracle.entropy(self.case)
        self.weights = np.linspace(0, 2, len(tags))
        self.weighted_nll = oracle.weighted_nll(self.case, tags, self.weights)
        self.tokens, self.pairs = oracle.token_marginals(self.case), oracle.pairwise_marginals(self.case)
        self.counts = oracle.expected_counts(self.case)
        self.best = oracle.viterbi(self.case)
        self.all_paths = oracle.kbest(self.case, L**5)
        self.spans, self.span_tags = all_spans(self.case, tags)
        rng = np.random.default_rng(0)
        self.sides = {name: rng.random((len(self.spans), L)) < 0.6 for name in ("before", "after")}
        self.free_spans = oracle.span_log_prob(self.case, self.spans, self.span_tags)
        self.bound_spans = oracle.span_log_prob(self.case, self.spans, self.span_tags, **self.sides)


exact_answers = functools.cache(Exact)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize(("L", "forbidden", "scale", "with_edges"), GRID)
@DTYPES
class TestEveryLength:
    """One batch with a sequence of every length, in the kernels of every instruction set."""

    @pytest.fixture
    def exact(self, L: int, forbidden: float, scale: float, with_edges: bool, dtype: npt.DTypeLike) -> Exact:
        return exact_answers(L, forbidden, scale, with_edges, dtype)

    def test_values_of_sequences(self, exact: Exact) -> None:
        close(exact.scores.log_partition(), exact.log_partition, exact.tolerance)
        close(exact.scores.score(exact.tags), exact.path_score)  # summed in double whatever the dtype
        close(exact.scores.entropy(), exact.entropy, exact.tolerance)
        loss = exact.scores.nll(exact.tags, weights=exact.weights)
        close(loss, exact.weighted_nll, exact.tolerance)
        nll = exact.log_partition - exact.path_score
        close(exact.scores.nll(exact.tags), nll, exact.tolerance * max(1.0, abs(exact.path_score).max()))

    @pytest.mark.parametrize("pairwise", [False, True])
    def test_marginals(self, exact: Exact, pairwise: bool) -> None:
        found = exact.scores.marginals(pairwise=pairwise)
        close(found.log_partition, exact.log_partition, exact.tolerance)
        close(found.tokens, exact.tokens, exact.tolerance)
        counts = (found.start, found.end, found.transitions)
        for actual, expected in zip(counts, exact.counts, strict=True):
            close(actual, expected, exact.tolerance)
        assert {x.dtype for x in (found.tokens, *counts)} == {exact.scores.emissions.dtype}
        assert (found.pairwise is not None) == pairwise
        if found.pairwise is not None:
            close(found.pairwise, exact.pairs, exact.tolerance)

    def test_viterbi(self, exact: Exact) -> None:
        decoded = exact.scores.viterbi()
        close(decoded.scores, exact.best[1])
        close(decoded.scores, oracle.path_score(exact.case, decoded.tags))
        assert decoded.tags.tolist() == exact.best[0].tolist()

    @pytest.mark.parametrize("k", [1, 2, 7, 2000])
    def test_k_best_equals_the_sorted_enumeration_and_gives_fewer_where_fewer_exist(self, exact: Exact, k: int) -> None:
        found = exact.scores.kbest(k)
        for tags, values, (best_tags, best_values) in zip(found.tags, found.scores, exact.all_paths, strict=True):
            assert tags.tolist() == best_tags[:k].tolist()
            close(values, best_values[:k])

    def test_every_span(self, exact: Exact) -> None:
        free = exact.scores.span_log_prob(exact.spans, exact.span_tags)
        close(free, exact.free_spans, exact.tolerance)
        bound = exact.scores.span_log_prob(exact.spans, exact.span_tags, **exact.sides)
        close(bound, exact.bound_spans, exact.tolerance)

    def test_samples_are_valid_paths(self, exact: Exact) -> None:
        drawn = exact.scores.sample(5, seed=3)
        assert drawn.shape == (5, len(exact.tags))
        for path in drawn:
            assert np.isfinite(oracle.path_score(exact.case, path)).all()


class TestRandomCases:
    """Hypothesis on scores of all sizes, with minus infinities anywhere and `allowed` masks."""

    @check(ALL_SIZES, st.data())
    def test_allowed_is_the_same_as_forbidden_emissions(
        self, labelled: tuple[Case, np.ndarray], data: st.DataObject
    ) -> None:
        case, tags = labelled
        allowed = data.draw(allowed_masks(case, tags))
        known, scores = case.with_allowed(allowed), make(case)
        close(scores.log_partition(allowed=allowed), oracle.log_partition(known))
        close(scores.entropy(allowed=allowed), oracle.entropy(known))
        close(scores.marginals(allowed=allowed).tokens, oracle.token_marginals(known))
        close(scores.marginals(allowed=allowed, pairwise=True).tokens, oracle.token_marginals(known))
        close(scores.viterbi(allowed=allowed).scores, oracle.viterbi(known)[1])
        for values, (_, expected) in zip(scores.kbest(3, allowed=allowed).scores, oracle.kbest(known, 3), strict=True):
            close(values, expected)
        rows = np.arange(len(tags))
        assert all(allowed[rows, path].all() for path in scores.sample(4, allowed=allowed))

    @check(labelled_cases(), st.data())
    def test_partial_labels_have_the_probability_of_their_paths(
        self, labelled: tuple[Case, np.ndarray], data: st.DataObject
    ) -> None:
        case, tags = labelled
        allowed = data.draw(allowed_masks(case, tags))
        scores = make(case)
        found = scores.log_partition(allowed=allowed) - scores.log_partition()
        expected = [
            np.log(sum(p for path, p in zip(paths.tags, paths.probabilities, strict=True) if own_allows(path, own)))
            for paths, own in zip(oracle.enumerate_paths(case), case.split(allowed), strict=True)
        ]
        close(found, np.array(expected))

    @check(ALL_SIZES, st.data())
    def test_span_probability_between_given_neighbours_and_known_labels(
        self, labelled: tuple[Case, np.ndarray], data: st.DataObject
    ) -> None:
        case, gold = labelled
        spans, tags = data.draw(spans_of(case))
        shape = (len(spans), case.num_labels)
        before, after = (data.draw(st.none() | bools(shape)) for _ in range(2))
        allowed = data.draw(allowed_masks(case, gold))
        flat = np.concatenate([np.empty(0, np.int64), *tags])
        close(
            make(case).span_log_prob(spans, flat, before=before, after=after, allowed=allowed),
            oracle.span_log_prob(case.with_allowed(allowed), spans, tags, before, after),
        )

    @check(ALL_SIZES, st.data())
    def test_weighted_loss_by_the_chain_rule(self, labelled: tuple[Case, np.ndarray], data: st.DataObject) -> None:
        case, tags = labelled
        weights = data.draw(arrays(tags.shape, st.floats(0, 3)))
        loss = make(case).nll(tags, weights=weights)
        close(loss, oracle.weighted_nll(case, tags, weights))
        assert (loss >= 0).all()
        plain = make(case).nll(tags, weights=np.ones(len(tags)))
        close(plain, make(case).log_partition() - make(case).score(tags))

    @check(valid_cases(TIED))
    def test_ties_go_to_the_smaller_label(self, case: Case) -> None:
        expected = oracle.viterbi(case)[0].tolist()
        for dtype in (np.float32, np.float64):
            assert make(case, dtype).viterbi().tags.tolist() == expected
            first = make(case, dtype).kbest(1).tags
            assert [label for tags in first for label in tags.ravel().tolist()] == expected

    @check(valid_cases(TIED), st.integers(1, 40))
    def test_k_best_are_distinct_and_in_order(self, case: Case, k: int) -> None:
        found, expected = make(case).kbest(k), oracle.kbest(case, k)
        for tags, values, (_, best) in zip(found.tags, found.scores, expected, strict=True):
            close(values, best)
            assert len({tuple(path) for path in tags.tolist()}) == len(tags) == len(best)
            assert (np.diff(values) <= 0).all()
        for b, (tags, values) in enumerate(zip(found.tags, found.scores, strict=True)):
            own = [oracle.sequence_score(case, b, tuple(path)) for path in tags]
            close(values, np.array(own, dtype=np.float64))


def own_allows(path: np.ndarray, allowed: np.ndarray) -> bool:
    return bool(allowed[np.arange(len(path)), path].all())


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("L", [5, 8, 9, 16, 17, 33])
@pytest.mark.parametrize("with_edges", [False, True])
@DTYPES
def test_label_counts_around_the_vector_width_agree_with_enumeration(
    L: int, with_edges: bool, dtype: npt.DTypeLike
) -> None:
    rng = np.random.default_rng(L)
    shapes = [(5, L), (L, L), L, L, *([(2, L, L)] if with_edges else [])]
    emissions, *others = (rng.normal(size=shape) for shape in shapes)
    case = rounded(Case(emissions, np.array([2, 0, 1, 2]), *others), dtype)
    scores, tolerance = make(case, dtype), TOLERANCE[np.dtype(dtype)]
    found = scores.marginals()
    close(found.log_partition, oracle.log_partition(case), tolerance)
    close(found.tokens, oracle.token_marginals(case), tolerance)
    close(found.transitions, oracle.expected_counts(case)[2], tolerance)
    close(scores.entropy(), oracle.entropy(case), tolerance)
    assert scores.viterbi().tags.tolist() == oracle.viterbi(case)[0].tolist()


class TestManyPaths:
    def test_k_best_of_a_long_sequence_are_those_of_its_parts(self) -> None:
        """Two halves that nothing connects: the best sums of two sorted lists, however long the chain."""
        rng = np.random.default_rng(0)
        emissions, zeros = rng.normal(size=(400, 3)), np.zeros((3, 3))
        halves = chain.ChainScores(emissions, [200, 200], zeros).kbest(300).scores
        whole = chain.ChainScores(emissions, [400], zeros).kbest(300)
        close(whole.scores[0], np.sort(np.add.outer(*halves).ravel())[::-1][:300])
        assert len({tuple(path) for path in whole.tags[0].tolist()}) == 300

    def test_memory_goes_with_the_paths_returned(self) -> None:
        """20,000 paths of 200 tokens are 32 megabytes; keeping as many for each label took 640."""
        code = """
import resource, sys
import numpy as np
from trellis import chain
rng = np.random.default_rng(0)
scores = chain.ChainScores(rng.normal(size=(200, 9)), [200], rng.normal(size=(9, 9)))
scores.kbest(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
paths = scores.kbest(20_000)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / paths.tags[0].nbytes)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert float(done.stdout) < 5


class TestInputs:
    def test_worked_log_sum_exp_figures(self) -> None:
        scores = chain.ChainScores([[9.0, 1.0, 7.0], [1.0, 999.0, 4.0]], [1, 1], np.zeros((3, 3)))
        assert scores.log_partition() == pytest.approx([9.1272, 999.0], abs=5e-5)

    def test_start_and_end_are_zero_where_left_out(self) -> None:
        emissions, transitions = np.ones((2, 2)), np.zeros((2, 2))
        short = chain.ChainScores(emissions, [2], transitions)
        full = chain.ChainScores(emissions, [2], transitions, np.zeros(2), np.zeros(2))
        assert short.log_partition() == full.log_partition()

    def test_strided_and_reversed_arrays_mean_what_they_say(self) -> None:
        case = grid_case(3, 0.2, 1.0)[0]
        wide = np.repeat(case.emissions, 2, axis=1)[:, ::2]
        turned = np.asfortranarray(case.transitions)
        assert not wide.flags.c_contiguous
        scores = chain.ChainScores(wide, case.lengths.astype(np.int32), turned, case.start[::-1][::-1], case.end)
        close(scores.log_partition(), oracle.log_partition(case))

    @pytest.mark.parametrize(
        ("given", "kept"),
        [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (np.int64, np.float64)],
    )
    def test_dtypes(self, given: npt.DTypeLike, kept: npt.DTypeLike) -> None:
        scores = chain.ChainScores(np.ones((2, 2), dtype=given), [2], np.zeros((2, 2)))
        assert scores.emissions.dtype == scores.transitions.dtype == scores.start.dtype == kept
        assert scores.marginals().tokens.dtype == kept
        assert scores.log_partition().dtype == np.float64

    def test_inputs_are_left_alone(self) -> None:
        case, tags = grid_case(3, 0.2, 1.0)
        copies = [x.copy() for x in case.arrays()]
        scores = make(case)
        scores.marginals(allowed=np.ones(case.emissions.shape, dtype=bool))
        scores.viterbi()
        scores.nll(tags, weights=np.ones(len(tags)))
        scores.sample()
        for before, after, kept in zip(
            copies,
            case.arrays(),
            (scores.emissions, scores.lengths, scores.transitions, scores.start, scores.end),
            strict=True,
        ):
            assert np.array_equal(before, after)
            assert np.array_equal(before, kept)

    @pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
    def test_batch_without_tokens(self, lengths: list[int]) -> None:
        scores = chain.ChainScores(np.empty((0, 3)), lengths, np.full((3, 3), NEG_INF), np.full(3, NEG_INF))
        zeros = [0.0] * len(lengths)
        assert scores.log_partition().tolist() == zeros
        assert scores.score([]).tolist() == zeros
        assert scores.entropy().tolist() == zeros
        assert scores.nll([], weights=[]).tolist() == zeros
        assert scores.viterbi().scores.tolist() == zeros
        assert [tags.shape for tags in scores.kbest(3).tags] == [(1, 0)] * len(lengths)
        assert [values.tolist() for values in scores.kbest(3).scores] == [[0.0]] * len(lengths)
        for pairwise in (False, True):
            found = scores.marginals(pairwise=pairwise)
            assert found.log_partition.tolist() == zeros
            assert (found.tokens.shape, found.transitions.sum(), found.start.sum()) == ((0, 3), 0.0, 0.0)
        assert scores.sample(2).shape == (2, 0)
        assert scores.span_log_prob(np.empty((0, 3), np.int64), []).shape == (0,)
