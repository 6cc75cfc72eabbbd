"""The tensor side: native kernels and `scan` give the same answers, for every operation, layout and dtype."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.chain import oracle
from tests.chain.oracle import Case
from tests.chain.strategies import LARGE, check, grid_case, labelled_cases
from trellis import chain as numpy_chain
from trellis.chain import torch as chain
from trellis.chain.torch.autograd import BatchLoss, ChainLoss

BACKENDS = pytest.mark.parametrize("backend", ["auto", "scan"])
ALL_SIZES = st.sampled_from([st.floats(-5, 5, width=32), LARGE]).flatmap(labelled_cases)
GRID = grid_case(3, 0.2, 1.0)
EDGES = grid_case(3, 0.2, 1.0, with_edges=True)
BOTH = pytest.mark.parametrize("batch", [GRID, EDGES], ids=["shared", "edges"])


def tensors(case: Case, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """All scores, without the lengths."""
    emissions, _, *rest = case.arrays()
    return [torch.tensor(x, dtype=dtype) for x in (emissions, *rest)]


def make(case: Case, backend: Any = "auto", dtype: torch.dtype = torch.float64) -> chain.ChainScores:
    emissions, *rest = tensors(case, dtype)
    return chain.ChainScores(emissions, torch.from_numpy(case.lengths), *rest, backend=backend)


def parts_of(value: Any) -> list[Tensor]:
    """The tensors of an answer."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list):
        return value
    return [x for name in value.__slots__ if (own := getattr(value, name)) is not None for x in parts_of(own)]


def assert_same(actual: Any, expected: Any, **tolerance: float) -> None:
    for a, b in zip(parts_of(actual), parts_of(expected), strict=True):
        torch.testing.assert_close(a, b, **(tolerance or {"rtol": 1e-10, "atol": 1e-10}))


def operations(case: Case, tags: np.ndarray) -> dict[str, Callable[[chain.ChainScores], Any]]:
    """Every operation but sampling, which draws from other streams in the two implementations."""
    path, weights = torch.from_numpy(tags), torch.linspace(0, 2, len(tags), dtype=torch.float64)
    spans = [(b, 0, (T + 1) // 2) for b, T in enumerate(case.lengths.tolist()) if T]
    labels = [case.split(tags)[b][:end].tolist() for b, _, end in spans]
    after = torch.arange(case.num_labels) != 0
    allowed = torch.ones(case.emissions.shape, dtype=torch.bool)
    allowed[:, 0] = torch.from_numpy(tags == 0)
    return {
        "log_partition": chain.ChainScores.log_partition,
        "log_partition of allowed": lambda s: s.log_partition(allowed=allowed),
        "score": lambda s: s.score(path),
        "nll": lambda s: s.nll(path),
        "scaled nll": lambda s: s.nll(path, scale=0.25),
        "weighted_nll": lambda s: s.nll(path, weights=weights),
        "viterbi": chain.ChainScores.viterbi,
        "viterbi of allowed": lambda s: s.viterbi(allowed=allowed),
        "kbest": lambda s: s.kbest(4),
        "marginals": lambda s: s.marginals(pairwise=True),
        "marginals of allowed": lambda s: s.marginals(allowed=allowed),
        "entropy": chain.ChainScores.entropy,
        "span_log_prob": lambda s: s.span_log_prob(spans, labels, after=after),
    }


NAMES = list(operations(*GRID))
WITH_GRADIENT = [name for name in NAMES if name != "kbest"]


class TestBothImplementations:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(("L", "forbidden"), [(1, 0.0), (2, 0.5), (3, 0.2), (4, 0.0)])
    @pytest.mark.parametrize("with_edges", [False, True])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_agree_on_every_length(
        self, name: str, L: int, forbidden: float, with_edges: bool, dtype: torch.dtype
    ) -> None:
        case, tags = grid_case(L, forbidden, 1.0, with_edges)
        operation = operations(case, tags)[name]
        tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
        assert_same(operation(make(case, dtype=dtype)), operation(make(case, "scan", dtype)), **tolerance)

    @check(ALL_SIZES, max_examples=25)
    def test_agree_on_scores_of_all_sizes(self, labelled: tuple[Case, np.ndarray]) -> None:
        case, tags = labelled
        for name, operation in operations(case, tags).items():
            if name != "kbest":  # equal scores that differ by rounding may change places there
                assert_same(operation(make(case)), operation(make(case, "scan")))

    @check(ALL_SIZES, max_examples=25)
    def test_agree_on_gradients_with_respect_to_all_inputs(self, labelled: tuple[Case, np.ndarray]) -> None:
        case, tags = labelled
        for name in ("log_partition", "log_partition of allowed", "score", "nll", "scaled nll", "weighted_nll"):
            operation = operations(case, tags)[name]
            found = [gradients(operation, case, backend) for backend in ("auto", "scan")]
            assert_same(*found)

    @BACKENDS
    @BOTH
    def test_agree_with_enumeration_on_the_gradient_of_log_partition(self, backend: str, batch: Any) -> None:
        case, _ = batch
        found = gradients(chain.ChainScores.log_partition, case, backend, outer=torch.ones(len(case.lengths)))
        assert_same(found, [torch.from_numpy(x) for x in expected_gradients(case)])

    @BACKENDS
    @BOTH
    def test_agree_with_enumeration_on_the_gradient_of_the_loss(self, backend: str, batch: Any) -> None:
        """What a path has, less what is expected: pairwise probabilities minus indicators for the edges."""
        case, tags = batch
        path = torch.from_numpy(tags)
        found = gradients(lambda s: s.nll(path), case, backend, outer=torch.ones(len(case.lengths)))
        alone = case.with_allowed(np.arange(case.num_labels) == tags[:, None])
        pairs = zip(expected_gradients(case), expected_gradients(alone), strict=True)
        assert_same(found, [torch.from_numpy(expected - observed) for expected, observed in pairs])

    @BACKENDS
    @BOTH
    def test_sampling_draws_valid_paths_in_the_layout_and_repeats_itself(self, backend: str, batch: Any) -> None:
        case, _ = batch
        drawn = make(case, backend).sample(8, seed=4)
        assert drawn.shape == (8, len(case.emissions))
        assert torch.equal(drawn, make(case, backend).sample(8, seed=4))
        assert not torch.equal(drawn, make(case, backend).sample(8, seed=5))
        for path in drawn.numpy():
            assert np.isfinite(oracle.path_score(case, path)).all()

    @BACKENDS
    @pytest.mark.parametrize("spans", [[], [[0, 0, 1]], [[0, 0, 1], [2, 1, 2]]])
    def test_neighbours_shared_by_all_spans(self, backend: str, spans: list[list[int]]) -> None:
        case, _ = GRID
        scores, after = make(case, backend), torch.tensor([True, False, True])
        shared = scores.span_log_prob(spans, [[0]] * len(spans), after=after)
        assert_same(shared, scores.span_log_prob(spans, [[0]] * len(spans), after=after.repeat(len(spans), 1)))

    @BOTH
    def test_native_samples_are_those_of_numpy(self, batch: Any) -> None:
        case, _ = batch
        scores = numpy_chain.ChainScores(*case.arrays())
        assert make(case).sample(3, seed=9).tolist() == scores.sample(3, seed=9).tolist()


def expected_gradients(case: Case) -> list[np.ndarray]:
    """The gradient of the sum of log partitions."""
    start, end, moves = oracle.expected_counts(case)
    edges = [] if case.edges is None else [oracle.pairwise_marginals(case)]
    return [oracle.token_marginals(case), moves, start, end, *edges]


def gradients(
    operation: Callable[[chain.ChainScores], Tensor], case: Case, backend: Any, outer: Tensor | None = None
) -> list[Tensor]:
    """Of a weighted sum of the values with respect to all scores."""
    leaves = [x.requires_grad_() for x in tensors(case)]
    value = operation(chain.ChainScores(leaves[0], case.lengths.tolist(), *leaves[1:], backend=backend))
    weights = torch.linspace(0.5, 1.5, value.numel()).reshape(value.shape) if outer is None else outer
    (value * weights).sum().backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


class TestDerivatives:
    """In float64, as functions of the scores that are not forbidden."""

    @staticmethod
    def function_of_free_scores(
        name: str, backend: Any, with_edges: bool
    ) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
        case, tags = grid_case(2, 0.2, 1.0, with_edges)
        operation = operations(case, tags)[name]
        scores = tensors(case)
        holes = [x == -torch.inf for x in scores]
        inputs = tuple(x.masked_fill(h, 0.0).requires_grad_() for x, h in zip(scores, holes, strict=True))

        def function(*free: Tensor) -> Any:
            e, *others = (x.masked_fill(h, -torch.inf) for x, h in zip(free, holes, strict=True))
            value = operation(chain.ChainScores(e, case.lengths.tolist(), *others, backend=backend))
            # Minus infinity has no derivative: a span may be impossible.
            return tuple(x.masked_fill(x == -torch.inf, 0) for x in parts_of(value) if x.is_floating_point())

        return function, inputs

    @pytest.mark.parametrize("name", WITH_GRADIENT)
    @pytest.mark.parametrize("with_edges", [False, True])
    @BACKENDS
    def test_gradcheck(self, name: str, backend: str, with_edges: bool) -> None:
        assert torch.autograd.gradcheck(*self.function_of_free_scores(name, backend, with_edges), fast_mode=True)

    @pytest.mark.parametrize("name", WITH_GRADIENT)
    @pytest.mark.parametrize("with_edges", [False, True])
    def test_gradgradcheck_from_the_native_side(self, name: str, with_edges: bool) -> None:
        assert torch.autograd.gradgradcheck(*self.function_of_free_scores(name, "auto", with_edges), fast_mode=True)

    @pytest.mark.parametrize("name", ["log_partition", "nll", "scaled nll", "weighted_nll"])
    @pytest.mark.parametrize("with_edges", [False, True])
    def test_gradient_penalty_is_never_dropped_in_silence(self, name: str, with_edges: bool) -> None:
        """A backward that forgets its graph would leave the penalty out of the gradient without a word."""
        totals = []
        for backend in ("auto", "scan"):
            function, inputs = self.function_of_free_scores(name, backend, with_edges)
            value = function(*inputs)[0].sum()
            first = torch.autograd.grad(value, inputs, create_graph=True)
            penalty = sum((x.square().sum() for x in first), torch.zeros(()))
            totals.append(list(torch.autograd.grad(value + penalty, inputs)))
        assert_same(*totals)

    def test_backward_twice_through_a_kept_graph_adds_up(self) -> None:
        case, tags = GRID
        emissions, *others = tensors(case)
        emissions.requires_grad_()
        loss = chain.ChainScores(emissions, case.lengths.tolist(), *others).nll(torch.from_numpy(tags)).sum()
        loss.backward(retain_graph=True)
        assert emissions.grad is not None
        once = emissions.grad.clone()
        loss.backward()
        torch.testing.assert_close(emissions.grad, 2 * once)

    def test_a_batch_loss_gives_its_gradient_twice_and_lets_the_first_be_changed(self) -> None:
        """The gradient is computed with the loss, and handed out once: it is then the caller's."""
        case, tags = GRID
        scores = make(case)
        scores.emissions.requires_grad_()
        loss = scores.nll(torch.from_numpy(tags), scale=0.5)
        (first,) = torch.autograd.grad(loss, scores.emissions, retain_graph=True)
        expected = first.clone()
        first.zero_()
        (second,) = torch.autograd.grad(loss, scores.emissions, torch.tensor(3.0), retain_graph=True)
        (third,) = torch.autograd.grad(loss, scores.emissions)
        assert torch.equal(second, 3 * expected)
        assert torch.equal(third, expected)
        (by_sequence,) = torch.autograd.grad(scores.nll(torch.from_numpy(tags)).sum() * 0.5, scores.emissions)
        torch.testing.assert_close(expected, by_sequence)

    @pytest.mark.parametrize("scale", [None, 1.0])
    def test_nothing_is_kept_where_gradients_are_off(
        self, monkeypatch: pytest.MonkeyPatch, scale: float | None
    ) -> None:
        loss = ChainLoss if scale is None else BatchLoss
        kept, forward = [], loss.forward

        def noted(ctx: Any, keep: bool, *rest: Any) -> Tensor:
            kept.append(keep)
            return forward(ctx, keep, *rest)

        monkeypatch.setattr(loss, "forward", noted)
        scores, tags = make(GRID[0]), torch.from_numpy(GRID[1])
        scores.emissions.requires_grad_()
        losses = [scores.nll(tags, scale=scale)]
        for off in (torch.no_grad, torch.inference_mode):
            with off():
                losses.append(scores.nll(tags, scale=scale))
        assert kept == [True, False, False]
        assert all(torch.equal(losses[0], other) for other in losses)

    @BACKENDS
    def test_only_what_needs_a_gradient_gets_one(self, backend: Any) -> None:
        case, tags = GRID
        emissions, transitions, start, end = tensors(case)
        transitions.requires_grad_()
        chain.ChainScores(emissions, case.lengths.tolist(), transitions, start, end, backend=backend).nll(
            torch.from_numpy(tags)
        ).sum().backward()
        assert transitions.grad is not None
        assert emissions.grad is None

    @BACKENDS
    def test_forbidden_scores_have_gradient_zero(self, backend: str) -> None:
        case, tags = grid_case(3, 0.5, 1.0)
        for name in ("log_partition", "nll", "weighted_nll"):
            for grad, score in zip(gradients(operations(case, tags)[name], case, backend), tensors(case), strict=True):
                assert (grad[score == -torch.inf] == 0).all()

    def test_large_upstream_gradients_of_loss_scaling_stay_finite_and_exact(self) -> None:
        emissions = torch.tensor([[0, 0], [0, -40.0], [-40, 0], [0, -40], [-40, 0]], requires_grad=True)
        transitions = torch.tensor([[0, -40.0], [-40.0, 0]], requires_grad=True)
        for scale in (1e-20, 65536.0, 1e20):
            scores = chain.ChainScores(emissions, [5], transitions)
            found = torch.autograd.grad(scores.log_partition().sum() * scale, (emissions, transitions))
            exact = chain.ChainScores(emissions.detach().double(), [5], transitions.detach().double()).marginals()
            for actual, expected in zip(found, (exact.tokens, exact.transitions), strict=True):
                torch.testing.assert_close(actual.double() / scale, expected, rtol=1e-5, atol=1e-6)


class TestDtypes:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("name", NAMES)
    @BACKENDS
    @BOTH
    def test_half_precision_is_computed_in_float32(
        self, name: str, dtype: torch.dtype, backend: Any, batch: Any
    ) -> None:
        case, tags = batch
        operation = operations(case, tags)[name]
        emissions, *others = tensors(case, dtype)
        lengths = case.lengths.tolist()
        narrow = operation(chain.ChainScores(emissions, lengths, *others, backend=backend))
        widened = (x.float() for x in others)
        wide = operation(chain.ChainScores(emissions.float(), lengths, *widened, backend=backend))
        for actual, expected in zip(parts_of(narrow), parts_of(wide), strict=True):
            assert actual.dtype == expected.dtype != dtype
            assert torch.equal(actual, expected)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_gradient_has_the_dtype_of_its_input(self, dtype: torch.dtype) -> None:
        case, _ = GRID
        emissions, transitions, *rest = (x.requires_grad_() for x in tensors(case, dtype))
        chain.ChainScores(emissions, case.lengths.tolist(), transitions, *rest).log_partition().sum().backward()
        assert emissions.grad is not None
        assert emissions.grad.dtype == dtype
        marginals = torch.from_numpy(oracle.token_marginals(case))
        torch.testing.assert_close(emissions.grad.double(), marginals, rtol=0.05, atol=0.02)

    def test_parameters_take_the_dtype_of_the_emissions(self) -> None:
        case, _ = GRID
        emissions, *others = tensors(case, torch.float32)
        scores = chain.ChainScores(emissions, case.lengths.tolist(), *(x.double() for x in others))
        assert scores.log_partition().dtype == torch.float32


class TestMemory:
    @BACKENDS
    def test_strided_inputs_mean_what_they_say(self, backend: Any) -> None:
        case, tags = GRID
        emissions, transitions, *rest = tensors(case)
        wide = torch.stack([emissions, emissions + 9], dim=-1)[..., 0]
        turned = transitions.T.contiguous().T
        assert not wide.is_contiguous()
        assert not turned.is_contiguous()
        scores = chain.ChainScores(wide, case.lengths.tolist(), turned, *rest, backend=backend)
        for operation in operations(case, tags).values():
            assert_same(operation(scores), operation(make(case, backend)))

    @BACKENDS
    @BOTH
    def test_inputs_are_left_alone(self, backend: Any, batch: Any) -> None:
        case, tags = batch
        inputs = tensors(case)
        copies = [x.clone() for x in inputs]
        scores = chain.ChainScores(inputs[0], case.lengths.tolist(), *inputs[1:], backend=backend)
        for operation in operations(case, tags).values():
            operation(scores)
        assert all(torch.equal(x, copy) for x, copy in zip(inputs, copies, strict=True))

    @BACKENDS
    @pytest.mark.parametrize("lengths", [[], [0, 0]])
    def test_batch_without_tokens(self, backend: Any, lengths: list[int]) -> None:
        emissions = torch.empty(0, 3, requires_grad=True)
        scores = chain.ChainScores(emissions, lengths, torch.zeros(3, 3), backend=backend)
        tags = torch.empty(0, dtype=torch.int64)
        for value in (scores.log_partition(), scores.nll(tags), scores.entropy()):
            assert value.tolist() == [0.0] * len(lengths)
        assert scores.viterbi().tags.shape == (0,)
        assert scores.sample(2).shape == (2, 0)
        assert scores.marginals().tokens.shape == (0, 3)
        assert [tags.shape for tags in scores.kbest(2).tags] == [(1, 0)] * len(lengths)
