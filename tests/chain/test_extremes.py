"""Scores, lengths and label counts at the edges of what is promised, against a log-space reference.

The hot kernels work with scaled probabilities and hand a sequence to log space when those may have lost a path. Most
cases here are made to lose one: a label that is negligible now and decides everything later.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import strategies as st

from tests.chain.logspace import reference
from tests.chain.strategies import check
from trellis import chain
from trellis.chain import torch as chain_torch
from trellis.errors import NonFiniteError, NoPathError

NEG_INF = -np.inf
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
Scores = tuple[np.ndarray, ...]  # emissions, transitions, start, end, and edges of some


def zeros_around(emissions: npt.ArrayLike, transitions: npt.ArrayLike) -> Scores:
    e = np.asarray(emissions, dtype=np.float64)
    return e, np.asarray(transitions, dtype=np.float64), np.zeros(e.shape[1]), np.zeros(e.shape[1])


def as_type(case: Scores, dtype: npt.DTypeLike) -> Scores:
    return tuple(x.astype(dtype) for x in case)


def make(case: Scores) -> chain.ChainScores:
    return chain.ChainScores(case[0], [len(case[0])], *case[1:])


def assert_exact(case: Scores, dtype: npt.DTypeLike) -> None:
    """log Z, marginals, best score and gradients, all as the reference has them."""
    seen = as_type(case, dtype)
    expected, tolerance = reference(*seen), 1e-5 if dtype == np.float32 else 1e-10
    single = {"rtol": tolerance, "atol": tolerance}
    counts = {"rtol": tolerance, "atol": tolerance * max(1, len(seen[0]) // 10)}  # these add up over the tokens
    scores = make(seen)
    np.testing.assert_allclose(scores.log_partition(), [expected.log_partition], **single)
    np.testing.assert_allclose(scores.viterbi().scores, [expected.best], **single)
    for pairwise in (False, True):
        found = scores.marginals(pairwise=pairwise)
        np.testing.assert_allclose(found.log_partition, [expected.log_partition], **single)
        np.testing.assert_allclose(found.tokens, expected.tokens, **single)
        np.testing.assert_allclose(found.transitions, expected.transitions, **counts)
        np.testing.assert_allclose(found.start, expected.tokens[0], **single)
        np.testing.assert_allclose(found.end, expected.tokens[-1], **single)
    leaves = [torch.from_numpy(x.copy()).requires_grad_() for x in seen]
    value = chain_torch.ChainScores(leaves[0], [len(seen[0])], *leaves[1:]).log_partition()
    (3 * value).sum().backward()
    wanted = [expected.tokens, expected.transitions, expected.tokens[0], expected.tokens[-1], expected.pairs]
    for leaf, gradient in zip(leaves, wanted[: len(leaves)], strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(leaf.grad.numpy() / 3, gradient, **counts)


def repeated(transitions: np.ndarray, emissions: np.ndarray) -> np.ndarray:
    """Transitions as edges, [T - 1, L, L]."""
    return np.repeat(transitions[None], len(emissions) - 1, axis=0)


def all_in_edges(e: np.ndarray, A: np.ndarray, s: np.ndarray, f: np.ndarray) -> Scores:
    return e, np.zeros_like(A), s, f, repeated(A, e)


def emissions_in_edges(e: np.ndarray, A: np.ndarray, s: np.ndarray, f: np.ndarray) -> Scores:
    """Only the first token keeps its emissions; whatever else is forbidden or favoured, an edge says so."""
    return np.concatenate([e[:1], np.zeros_like(e[1:])]), np.zeros_like(A), s, f, repeated(A, e) + e[1:, None, :]


def in_halves(e: np.ndarray, A: np.ndarray, s: np.ndarray, f: np.ndarray) -> Scores:
    return e, A / 2, s, f, repeated(A / 2, e)


def at_odds(e: np.ndarray, A: np.ndarray, s: np.ndarray, f: np.ndarray) -> Scores:
    """Edges undo what the transitions add: the greatest of each lie far from the greatest of their sum."""
    favour = 30.0 * np.arange(A.size, dtype=np.float64).reshape(A.shape) / A.size
    return e, A + favour, s, f, repeated(-favour, e)


# The same chain, said in other ways.
WAYS: dict[str, Callable[..., Scores]] = {
    "shared": lambda *case: case,
    "all in edges": all_in_edges,
    "emissions in edges": emissions_in_edges,
    "in halves": in_halves,
    "at odds": at_odds,
}


def random_case(rng: np.random.Generator, T: int, L: int, scale: float = 1.0) -> Scores:
    emissions, transitions, start, end = (rng.normal(scale=scale, size=s) for s in ((T, L), (L, L), L, L))
    return emissions, transitions, start, end


def identity(L: int) -> np.ndarray:
    """Transitions of labels that never mix."""
    return np.where(np.eye(L, dtype=bool), 0.0, NEG_INF)


def bio_case(gap: float) -> Scores:
    """O, B-X, I-X, B-Y, I-Y; I needs its own B or I before it. X is favoured by `gap` until Y has to have been."""
    rng = np.random.default_rng(5)
    emissions, transitions, start, end = random_case(rng, 30, 5)
    for i, j in ((0, 2), (0, 4), (1, 4), (2, 4), (3, 2), (4, 2)):
        transitions[i, j] = NEG_INF
    start[[2, 4]] = NEG_INF
    emissions[5:20, [1, 2]] += gap
    emissions[20] = [-gap, -gap, -gap, -gap, 3 * gap]
    return emissions, transitions, start, end


def adversarial() -> dict[str, Scores]:
    rng = np.random.default_rng(1)
    favour = np.where(np.arange(60) % 2, 1.0, -1.0)
    cases = {
        "loses by e^-100, wins by 10 a step": zeros_around([[0, -100.0], *[[0.0, 10.0]] * 40], identity(2)),
        "loses a little at each step, wins at once": zeros_around([*[[0.0, -9.0]] * 60, [0.0, 800.0]], identity(2)),
        "kept label forbidden at the last position": zeros_around(
            [[0.0, -200.0], *[[0, 0]] * 9, [NEG_INF, 0.0]], identity(2)
        ),
        "kept label forbidden to end": (
            *zeros_around([[0.0, -95.0], [0.0, 0.0]], identity(2))[:3],
            np.array([NEG_INF, 0]),
        ),
        "backward loses what forward kept": zeros_around([[0.0, 900.0], *[[0.0, 0.0]] * 5, [0.0, -890.0]], identity(2)),
        "start flushed, then needed": (
            *zeros_around([[0.0, 0.0], [0.0, 5e3]], identity(2))[:2],
            np.array([0, -4e3]),
            np.zeros(2),
        ),
        "alternating huge favours": zeros_around(
            1e4 * favour[:, None] * np.array([1.0, -1.0, 0.0]), rng.normal(size=(3, 3))
        ),
        "alternating favours, no mixing": zeros_around(300 * favour[:, None] * np.array([1.0, -1.0]), identity(2)),
        "all labels forbidden but the worst": zeros_around([[0, -1e4], *[[NEG_INF, -1e4]] * 30], np.zeros((2, 2))),
        "cycle that only moves on": zeros_around(
            rng.normal(scale=90, size=(31, 4)), np.where(np.roll(np.eye(4, dtype=bool), 1, axis=1), 0.0, NEG_INF)
        ),
        "upper triangle": zeros_around(
            np.linspace(0, 1, 40)[:, None] * np.array([0, 70, 140.0]),
            np.where(np.triu(np.ones((3, 3))) > 0, 0.0, NEG_INF),
        ),
        "small, lost on the way by a costly step, then favoured": (
            np.array([[0.0, -70.0, 0.0], [0.0, 0.0, 0.0], *[[0.0, 0.0, 30.0]] * 8]),
            np.array([[0.0, NEG_INF, NEG_INF], [NEG_INF, NEG_INF, -40.0], [NEG_INF, NEG_INF, 0.0]]),
            np.array([0.0, 0.0, NEG_INF]),
            np.zeros(3),
        ),
        "a label that cannot be reached draws beta away": (
            np.array([[35.0, 0.0, 0.5]] * 8),
            identity(3),
            np.array([NEG_INF, 0.0, 0.0]),
            np.zeros(3),
        ),
        "one label": zeros_around(rng.normal(scale=1e4, size=(20, 1)), [[-1e4]]),
        "one token": random_case(rng, 1, 7, 1e3),
    }
    for gap in (50.0, 90.0, 200.0, 1000.0):
        cases[f"BIO with a gap of {gap:g}"] = bio_case(gap)
    for soft in (-40.9, -100.0, -339.9, -1e4):
        transitions = np.where(rng.random((4, 4)) < 0.5, soft, rng.normal(size=(4, 4)))
        cases[f"soft constraints of {soft:g}"] = (
            rng.normal(scale=3, size=(50, 4)),
            transitions,
            np.zeros(4),
            np.zeros(4),
        )
        cases[f"soft constraints of {soft:g} that must be broken"] = zeros_around(
            [[0, NEG_INF], [0, NEG_INF], [NEG_INF, 0], [0, NEG_INF]], [[0.0, soft], [soft, 0.0]]
        )
        # What a soft constraint forbids is worth more than what it costs.
        cases[f"soft constraints of {soft:g} outbid"] = zeros_around(
            [[0.0, soft], [2 * soft, 0.0], [0.0, 2 * soft]], [[0.0, soft], [soft, 0.5]]
        )
    for lost in (86.0, 87.6, 88.0, 90.0, 95.0):
        # A label that is e^-46 of the others comes back a step later, where the others pay e^-41 to go.
        emissions = np.array([[0.0, 0.0], [-lost, 0.0], [80.0, -100.0]])
        transitions, start = np.array([[0.0, -40.9], [-40.9, 0.0]]), np.array([0.0, -40.9])
        cases[f"negligible at {lost:g}, decisive later"] = (emissions, transitions, start, np.zeros(2))
        cases[f"negligible at {lost:g}, decisive earlier"] = (emissions[::-1], transitions, np.zeros(2), start)
    return cases


ADVERSARIAL = adversarial()


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("way", WAYS)
@DTYPES
def test_scaled_arithmetic_loses_no_path_that_matters(name: str, way: str, dtype: npt.DTypeLike) -> None:
    assert_exact(WAYS[way](*ADVERSARIAL[name]), dtype)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("with_edges", [False, True])
@DTYPES
def test_sequences_that_go_through_log_space_do_not_disturb_their_group(with_edges: bool, dtype: npt.DTypeLike) -> None:
    """Ordinary and lost sequences of equal length side by side: counts of the batch are the sum over both."""
    rng = np.random.default_rng(2)
    parts = [rng.normal(size=(T, 2)) for T in (12, 12, 12, 12, 12, 9, 9, 3)]
    for b in (1, 4, 6):
        parts[b][0, 1] -= 300
        parts[b][-1, 1] += 299
    transitions = identity(2)
    flat, lengths = np.concatenate(parts).astype(dtype), [len(p) for p in parts]
    edges = np.concatenate([repeated(transitions, p) for p in parts]) if with_edges else None
    shared = np.zeros((2, 2)) if with_edges else transitions
    scores = chain.ChainScores(flat, lengths, shared, edges=edges)
    expected = [reference(p.astype(dtype), transitions, np.zeros(2), np.zeros(2)) for p in parts]
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    found = scores.marginals()
    np.testing.assert_allclose(found.log_partition, [r.log_partition for r in expected], rtol=tolerance)
    np.testing.assert_allclose(found.tokens, np.concatenate([r.tokens for r in expected]), atol=tolerance)
    np.testing.assert_allclose(found.transitions, sum(r.transitions for r in expected), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.start, sum(r.tokens[0] for r in expected), rtol=tolerance)
    np.testing.assert_allclose(found.end, sum(r.tokens[-1] for r in expected), rtol=tolerance)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("L", [1, 9, 50, 300])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("with_edges", [False, True])
@DTYPES
def test_label_counts_up_to_300(L: int, scale: float, with_edges: bool, dtype: npt.DTypeLike) -> None:
    rng = np.random.default_rng(L)
    size = scale if scale < 1e4 else 3e3
    case = random_case(rng, 12, L, size)
    edges = [rng.normal(scale=size, size=(11, L, L))] if with_edges else []
    assert_exact((np.clip(case[0], -1e4, 1e4), *case[1:], *edges), dtype)


@DTYPES
@pytest.mark.parametrize("with_edges", [False, True])
@pytest.mark.parametrize("T", [1, 2, 63, 64, 65, 1000])
def test_lengths_around_the_folding_of_counts(T: int, with_edges: bool, dtype: npt.DTypeLike) -> None:
    rng = np.random.default_rng(T)
    edges = [rng.normal(size=(T - 1, 4, 4))] if with_edges else []
    assert_exact((*random_case(rng, T, 4), *edges), dtype)


@pytest.mark.parametrize("size", [1e4, 1e30, 3e38])
def test_float32_sums_of_large_transitions_and_edges_are_neither_rounded_nor_overflow(size: float) -> None:
    """The two are scaled one by one: what they differ by is exact, however large they are."""
    e = np.array([[0.0, 0.5, -0.5], [0.25, 0.0, 0.0], [0.0, -0.25, 1.0]])
    fine = np.array([[0.0, 0.5, -1.0], [2.0, 0.0, 0.25], [-0.5, 1.0, 0.0]])
    blurred = fine * (size <= 1e4)  # a number as large as the others has no such digits
    size = float(np.float32(size))
    case = (e, size + blurred, np.zeros(3), np.zeros(3), size + np.stack([blurred, -blurred]))
    seen = as_type(case, np.float32)
    plain = (e, seen[1].astype(np.float64) - size, np.zeros(3), np.zeros(3), seen[4].astype(np.float64) - size)
    expected, found = reference(*plain), make(seen).marginals()
    np.testing.assert_allclose(found.tokens, expected.tokens, rtol=1e-5)
    np.testing.assert_allclose(found.log_partition, expected.log_partition + 4 * size, rtol=1e-6)
    assert np.isfinite(make(seen).viterbi().scores).all()


LEVELS = st.sampled_from([NEG_INF, 0.0, 1.0, -1.0, 40.0, -40.0, 90.0, -90.0, 300.0, -300.0, 1e4, -1e4])


@st.composite
def level_cases(draw: st.DrawFn) -> Scores:
    """Chains of up to 8 tokens and 4 labels whose scores are all from a few levels far apart."""
    T, L = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    levels = st.sampled_from(draw(st.lists(LEVELS, min_size=1, max_size=4)))
    shapes = [(T, L), (L, L), (L,), (L,), *([(T - 1, L, L)] if draw(st.booleans()) else [])]
    sizes = [int(np.prod(s)) for s in shapes]
    return tuple(
        np.array(draw(st.lists(levels, min_size=n, max_size=n)), dtype=np.float64).reshape(s)
        for s, n in zip(shapes, sizes, strict=True)
    )


@check(level_cases(), st.sampled_from([np.float32, np.float64]), max_examples=300)
def test_scores_far_apart_give_exact_answers_or_no_path(case: Scores, dtype: npt.DTypeLike) -> None:
    if reference(*case).log_partition > NEG_INF:
        assert_exact(case, dtype)
        return
    for question in ("log_partition", "viterbi", "marginals", "entropy", "sample"):
        with pytest.raises(NoPathError):
            getattr(make(as_type(case, dtype)), question)()


@check(level_cases(), st.sampled_from([np.float32, np.float64]), max_examples=100)
def test_nothing_is_ever_nan(case: Scores, dtype: npt.DTypeLike) -> None:
    scores = make(as_type(case, dtype))
    T, L = case[0].shape
    if reference(*case).log_partition == NEG_INF:
        return
    tags = scores.viterbi().tags
    found = scores.marginals(pairwise=True)
    results = [
        scores.entropy(),
        scores.nll(tags, weights=np.ones(T)),
        scores.span_log_prob([(0, 0, 1)] * L, [[j] for j in range(L)], after=np.arange(L) > 0),
        *scores.kbest(5).scores,
        found.tokens,
        found.transitions,
        found.pairwise,
    ]
    assert not any(np.isnan(x).any() for x in results if x is not None)
    assert (results[0] >= 0).all()
    assert (results[1] >= 0).all()
    assert (results[2] <= 0).all()


@pytest.mark.usefixtures("instruction_set")
@DTYPES
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_found_among_the_largest_numbers(dtype: npt.DTypeLike, value: float) -> None:
    """Maxima lose it and differences from them overflow, whichever lane of a vector it is in."""
    for L in (2, 5, 18):
        for place in range(L):
            emissions = np.tile(np.where(np.arange(L) % 2, 3e38, -3e38), (3, 1))
            emissions[1, place] = value
            scores = chain.ChainScores(emissions.astype(dtype), [3], np.full((L, L), 1e38))
            for question in ("log_partition", "marginals", "viterbi", "entropy", "sample"):
                with pytest.raises(NonFiniteError, match=f"position 1, label {place} are {value}"):
                    getattr(scores, question)()


QUESTIONS = {
    "log_partition": lambda s: s.log_partition(),
    "score": lambda s: s.score([0] * 8),
    "nll": lambda s: s.nll([0] * 8),
    "weighted": lambda s: s.nll([0] * 8, weights=np.ones(8)),
    "viterbi": lambda s: s.viterbi(),
    "kbest": lambda s: s.kbest(3),
    "marginals": lambda s: s.marginals(),
    "pairwise": lambda s: s.marginals(pairwise=True),
    "sample": lambda s: s.sample(2),
    "entropy": lambda s: s.entropy(),
    "spans": lambda s: s.span_log_prob([(0, 1, 3)], [[0, 1]]),
}


@pytest.mark.parametrize("value", [1e308, -1e308, 1.7e308, -1.7e308])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("question", QUESTIONS)
def test_finite_scores_whose_sum_is_not_are_refused_or_answered_by_numbers(question, edges, value):
    matrices = np.zeros((6, 3, 3)) if edges else None
    scores = chain.ChainScores(np.full((8, 3), value), [5, 3], np.zeros((3, 3)), edges=matrices)
    try:
        found = QUESTIONS[question](scores)
    except NonFiniteError:
        with pytest.raises(NonFiniteError, match="add up to more than float64 holds"):
            QUESTIONS[question](scores)
        return
    values = found if isinstance(found, np.ndarray) else found.scores if hasattr(found, "scores") else found.tokens
    assert not np.isnan(np.concatenate([np.ravel(x) for x in values])).any()
