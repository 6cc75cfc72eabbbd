"""The torch implementation of the chain, held to enumeration."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.chain import oracle
from tests.chain.oracle import NEG_INF, Case
from tests.chain.strategies import (
    FINITE,
    LARGE,
    TIED,
    arrays,
    bools,
    check,
    finite_cases,
    forbidding_cases,
    labelled_cases,
    spans_of,
    tags_of,
    valid_cases,
)
from trellis.chain.torch import scan

ALL_SIZES = st.sampled_from([FINITE, TIED, LARGE]).flatmap(labelled_cases)


def tensors(case: Case, dtype: torch.dtype = torch.float64, grad: bool = False) -> scan.Chain:
    emissions, lengths, *rest = case.arrays()
    scores = [torch.tensor(x, dtype=dtype, requires_grad=grad) for x in (emissions, *rest)]
    return scan.Chain(scores[0], torch.from_numpy(lengths), *scores[1:])


def of_scores(chain: scan.Chain, change: Callable[[Tensor], Tensor]) -> scan.Chain:
    """The same chain with all its scores changed."""
    return scan.Chain(*(x if x is None or x is chain.lengths else change(x) for x in chain))  # type: ignore[arg-type]


def leaves(chain: scan.Chain) -> list[Tensor]:
    """All scores."""
    return [x for x in chain if x is not None and x is not chain.lengths]


def close(actual: Tensor, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-10, atol=1e-10)


def one_sequence(emissions: list[list[float]]) -> Case:
    """A single sequence whose transitions, start and end are zero."""
    scores = np.array(emissions)
    L = scores.shape[1]
    return Case(scores, np.array([len(scores)]), np.zeros((L, L)), np.zeros(L), np.zeros(L))


@check(valid_cases(TIED))
def test_ties_go_to_the_smallest_label(case: Case) -> None:
    tags, scores = scan.viterbi(tensors(case))
    expected_tags, expected_scores = oracle.viterbi(case)
    assert tags.tolist() == expected_tags.tolist()
    close(scores, expected_scores)


@check(forbidding_cases(), st.data())
def test_whatever_is_forbidden_has_minus_infinity(case: Case, data: st.DataObject) -> None:
    close(scan.log_partition(tensors(case)), oracle.log_partition(case))
    tags = data.draw(tags_of(case))
    close(scan.path_score(tensors(case), torch.from_numpy(tags)), oracle.path_score(case, tags))
    assert (scan.viterbi(tensors(case))[1] > NEG_INF).tolist() == oracle.has_path(case).tolist()


class TestSpans:
    @check(ALL_SIZES, st.data())
    def test_probability_of_a_labelled_span(self, labelled: tuple[Case, np.ndarray], data: st.DataObject) -> None:
        case, _ = labelled
        spans, tags = data.draw(spans_of(case))
        shape = (len(spans), case.num_labels)
        before, after = (data.draw(st.none() | bools(shape)) for _ in range(2))
        actual = scan.span_log_prob(
            tensors(case),
            torch.from_numpy(spans),
            torch.from_numpy(np.concatenate([np.empty(0, np.int64), *tags])),
            None if before is None else torch.from_numpy(before),
            None if after is None else torch.from_numpy(after),
        )
        close(actual, oracle.span_log_prob(case, spans, tags, before, after))


class TestWeightedNLL:
    @check(finite_cases(min_length=1), st.data())
    def test_without_transitions_is_weighted_cross_entropy(self, case: Case, data: st.DataObject) -> None:
        tags = torch.from_numpy(data.draw(tags_of(case)))
        weights = torch.from_numpy(data.draw(arrays(tags.shape, st.floats(0, 3))))
        scores = tensors(case)
        without = of_scores(scores, torch.zeros_like)._replace(emissions=scores.emissions)
        loss = scan.weighted_nll(without, tags, weights)
        expected = torch.nn.functional.cross_entropy(scores.emissions, tags, reduction="none") * weights
        close(loss, np.array([part.sum() for part in case.split(expected.numpy())]))

    def test_forbidden_tag_of_weight_zero_costs_nothing(self) -> None:
        case = one_sequence([[0.0, NEG_INF], [0.0, 0.0]])
        loss = scan.weighted_nll(tensors(case), torch.tensor([1, 0]), torch.tensor([0.0, 1.0]))
        assert loss.tolist() == [pytest.approx(math.log(2))]


def scalars(case: Case, tags: np.ndarray) -> dict[str, Callable[..., Tensor]]:
    """Every differentiable operation as a function of a chain."""
    labels = torch.from_numpy(tags)
    weights = torch.linspace(0.5, 1.5, len(tags), dtype=torch.float64)
    spans = [(b, 0, T) for b, T in enumerate(case.lengths.tolist()) if T]
    spans += [(b, T - 1, T) for b, T in enumerate(case.lengths.tolist()) if T]
    span_tags = np.concatenate([np.empty(0, np.int64), *(case.split(tags)[b][i:j] for b, i, j in spans)])
    span_args = torch.tensor(spans, dtype=torch.int64).reshape(-1, 3), torch.from_numpy(span_tags)
    anything = torch.ones(len(spans), case.num_labels, dtype=torch.bool)
    return {
        "log_partition": scan.log_partition,
        "path_score": lambda scores: scan.path_score(scores, labels),
        "viterbi": lambda scores: scan.viterbi(scores)[1],
        "tokens": lambda scores: scan.marginals(scores)[1],
        "pairwise": lambda scores: scan.marginals(scores)[2],
        "entropy": scan.entropy,
        "span_log_prob": lambda scores: scan.span_log_prob(scores, *span_args),
        "exact_span_log_prob": lambda scores: scan.span_log_prob(scores, *span_args, anything, anything),
        "weighted_nll": lambda scores: scan.weighted_nll(scores, labels, weights),
    }


OPERATIONS = list(scalars(one_sequence([[0.0]]), np.array([0])))


class TestGradients:
    # Label 2 cannot begin, 1 -> 0 is forbidden, and nothing but label 1 is left at one position.
    case = Case(
        emissions=np.random.default_rng(3).normal(size=(6, 3)),
        lengths=np.array([3, 0, 1, 2]),
        transitions=np.array([[0.1, 0.7, -0.3], [NEG_INF, 0.2, 0.5], [0.4, -0.6, 0.1]]),
        start=np.array([0.3, 0.0, NEG_INF]),
        end=np.array([0.0, 0.2, 0.9]),
    )
    case.emissions[1, [0, 2]] = NEG_INF
    tags = np.array([0, 1, 2, 1, 1, 1])
    with_edges = replace(case, edges=np.random.default_rng(4).normal(size=(3, 3, 3)))
    with_edges.edges[1, [0, 1], [2, 0]] = NEG_INF  # type: ignore[index]

    def as_function_of_finite_scores(self, case: Case, name: str) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        operation = scalars(case, self.tags)[name]
        chain = tensors(case)
        holes = [x == NEG_INF for x in leaves(chain)]
        inputs = tuple(x.masked_fill(h, 0.0).requires_grad_() for x, h in zip(leaves(chain), holes, strict=True))

        def function(*free: Tensor) -> Tensor:
            e, *others = (x.masked_fill(h, NEG_INF) for x, h in zip(free, holes, strict=True))
            return operation(scan.Chain(e, chain.lengths, *others))

        return function, inputs

    @pytest.mark.parametrize("name", OPERATIONS)
    @pytest.mark.parametrize("with_edges", [False, True])
    def test_gradcheck_and_gradgradcheck(self, name: str, with_edges: bool) -> None:
        function, inputs = self.as_function_of_finite_scores(self.with_edges if with_edges else self.case, name)
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)

    @pytest.mark.parametrize("name", OPERATIONS)
    @check(data=st.data(), max_examples=15)
    def test_no_nan_in_value_or_two_derivatives_whatever_is_forbidden(self, name: str, data: st.DataObject) -> None:
        case = data.draw(forbidding_cases())
        scores = tensors(case, grad=True)
        value = scalars(case, data.draw(tags_of(case)))[name](scores)
        assert not value.isnan().any()
        grads = torch.autograd.grad(value.sum(), leaves(scores), create_graph=True, materialize_grads=True)
        assert not any(g.isnan().any() for g in grads)
        if any(g.requires_grad for g in grads):
            second = torch.autograd.grad(sum((g * g).sum() for g in grads), leaves(scores), materialize_grads=True)
            assert not any(g.isnan().any() for g in second)


class TestNumbers:
    def test_float32_holds_on_a_long_sequence_of_large_scores(self) -> None:
        rng = np.random.default_rng(0)
        L, lengths = 3, np.array([2000, 700])
        scores = [rng.normal(scale=100, size=shape) for shape in ((2700, L), (L, L), L, L)]
        case = Case(scores[0].astype(np.float32), lengths, *(x.astype(np.float32) for x in scores[1:]))
        single, double = tensors(case, torch.float32), tensors(case)
        torch.testing.assert_close(scan.log_partition(single).double(), scan.log_partition(double), rtol=1e-6, atol=0)
        for actual, expected in zip(scan.marginals(single)[1:], scan.marginals(double)[1:], strict=True):
            torch.testing.assert_close(actual.double(), expected, rtol=0, atol=1e-3)

    def test_single_improbable_path_is_certain(self) -> None:
        case = one_sequence([[0.0, -1e4]] * 4)
        forced = case.with_allowed(np.array([[True, True], [False, True], [False, True], [False, True]]))
        log_z, tokens, _ = scan.marginals(tensors(forced))
        assert log_z.item() == pytest.approx(-3e4)
        assert tokens[1:].tolist() == [[0.0, 1.0]] * 3
