"""Numbers at addresses that C++ does not allow, in every operation of both sides: the answers are those of others."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.misaligned import misaligned, misaligned_tensor
from trellis import chain
from trellis.chain import torch as chain_torch

L, LENGTHS, N = 3, np.array([4, 0, 1, 2]), 7
TAGS, SPANS, SPAN_TAGS = np.array([0, 1, 2, 0, 1, 1, 2]), np.array([[0, 1, 3], [3, 0, 2]]), np.array([1, 2, 1, 2])
WEIGHTS = np.linspace(0.5, 1.5, N)
ALLOWED = np.arange(N * L).reshape(N, L) % 5 > 0
SIDE = np.array([True, False, True])
# Methods that call no native code themselves, and others that only the layer uses.
OTHERS = {"part", "take", "restricted", "steps", "padded", "requires_grad"}
OTHERS |= {"best_lists", "nll_gradient", "total_nll_gradient"}

Move = Callable[[Any], Any]
# `put` takes an array to where it shall lie, as an array or as a tensor.
OPERATIONS: dict[str, Callable[[Any, Move], Any]] = {
    "entropy": lambda s, put: s.entropy(allowed=put(ALLOWED)),
    "kbest": lambda s, put: s.kbest(3),
    "log_partition": lambda s, put: s.log_partition(),
    "marginals": lambda s, put: [s.marginals(), s.marginals(pairwise=True)],
    "nll": lambda s, put: s.nll(put(TAGS)),
    "sample": lambda s, put: s.sample(2),
    "score": lambda s, put: s.score(put(TAGS)),
    "span_log_prob": lambda s, put: s.span_log_prob(put(SPANS), put(SPAN_TAGS), before=put(SIDE)),
    "viterbi": lambda s, put: s.viterbi(),
    "weighted_nll": lambda s, put: s.nll(put(TAGS), weights=put(WEIGHTS)),
}
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


EDGES = pytest.mark.parametrize("with_edges", [False, True])


def parts(dtype: Any, with_edges: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [(N, L), (L, L), (L,), (L,), *([(4, L, L)] if with_edges else [])]
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def leaves(value: Any) -> list[Any]:
    """The arrays or tensors of an answer."""
    if isinstance(value, list):
        return [leaf for own in value for leaf in leaves(own)]
    if hasattr(value, "__slots__"):
        return [leaf for name in value.__slots__ for leaf in leaves(getattr(value, name))]
    return [] if value is None else [value]


@pytest.mark.parametrize("module", [chain, chain_torch])
def test_every_operation_is_here(module: Any) -> None:
    methods = {name for name, x in vars(module.ChainScores).items() if inspect.isroutine(x) and name[0] != "_"}
    assert methods - OTHERS == OPERATIONS.keys() - {"weighted_nll"}


@DTYPES
@EDGES
@pytest.mark.parametrize("name", OPERATIONS)
def test_arrays(name: str, with_edges: bool, dtype: Any) -> None:
    def answer(put: Move) -> list[np.ndarray]:
        emissions, *others = (put(part) for part in parts(dtype, with_edges))
        return leaves(OPERATIONS[name](chain.ChainScores(emissions, put(LENGTHS), *others), put))

    for found, expected in zip(answer(misaligned), answer(np.asarray), strict=True):
        assert np.array_equal(found, expected)


@DTYPES
@EDGES
@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_tensors(name: str, learning: bool, with_edges: bool, dtype: Any) -> None:
    def answer(put: Callable[[Tensor], Tensor]) -> list[Tensor]:
        inputs = [put(torch.from_numpy(part).requires_grad_(learning)) for part in parts(dtype, with_edges)]
        scores = chain_torch.ChainScores(inputs[0], put(torch.from_numpy(LENGTHS)), *inputs[1:])
        found = leaves(OPERATIONS[name](scores, lambda x: put(torch.from_numpy(x))))
        for own in found:
            if own.requires_grad:
                own.backward(put(torch.linspace(1, 2, own.numel()).view_as(own).to(own.dtype)), retain_graph=True)
        return [x.detach() for x in found] + [x.grad for x in inputs if x.grad is not None]

    for found, expected in zip(answer(misaligned_tensor), answer(lambda x: x), strict=True):
        assert torch.equal(found, expected)


@DTYPES
@pytest.mark.parametrize("batch_first", [True, False])
def test_padded_tensors(batch_first: bool, dtype: Any) -> None:
    def answer(put: Callable[[Tensor], Tensor]) -> list[Tensor]:
        rng = np.random.default_rng(1)
        inputs = [put(torch.from_numpy(rng.normal(size=s).astype(dtype))) for s in ((2, 3, L), (L, L), (L,), (L,))]
        mask, tags = (torch.from_numpy(rng.integers(0, most, (2, 3))) for most in (2, L + 1))
        options = {"batch_first": batch_first, "tags": put(tags), "ignore_index": L}
        scores = chain_torch.ChainScores.padded(inputs[0], put(mask.bool()), *inputs[1:], **options)
        return [scores.nll(put(tags.clamp(max=L - 1))), scores.viterbi().tags]

    for found, expected in zip(answer(misaligned_tensor), answer(lambda x: x), strict=True):
        assert torch.equal(found, expected)
