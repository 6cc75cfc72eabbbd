"""Segments as tensors: the answers of arrays, and gradients against differences and against torch's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.chain.test_segments import batches, has_paths
from trellis import chain
from trellis.chain.torch import SegmentScores
from trellis.chain.torch.segments import scan_log_partition as scanned
from trellis.errors import NoPathError, ShapeError, TagRangeError

LENGTHS = [4, 0, 2, 3]


def tensors(scores: chain.SegmentScores, **options: object) -> list[torch.Tensor]:
    parts = (scores.segments, scores.transitions, scores.start, scores.end)
    return [torch.tensor(part, requires_grad=True, **options) for part in parts]


def some(lengths: list[int], K: int = 3, L: int = 2, *, forbid: bool = False) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(sum(lengths) + K)
    shapes = ((sum(lengths), K, L), (L, L), (L,), (L,))
    parts = [torch.randn(shape, dtype=torch.float64, generator=random) for shape in shapes]
    if forbid:
        parts[0][1::3, 0, 0] = -torch.inf
        parts[1][0, 1] = -torch.inf
    return [part.requires_grad_() for part in parts]


def scored(lengths: list[int], parts: list[torch.Tensor]) -> SegmentScores:
    return SegmentScores(parts[0], lengths, *parts[1:])


@given(batches())
@settings(max_examples=80)
def test_gradients_of_the_partition_are_the_marginals_of_the_arrays(scores: chain.SegmentScores) -> None:
    parts = tensors(scores)
    own = SegmentScores(parts[0], scores.lengths, *parts[1:])
    if not has_paths(scores):
        with pytest.raises(NoPathError):
            own.log_partition()
        return
    wanted, value = scores.marginals(), own.log_partition()
    np.testing.assert_allclose(value.detach(), wanted.log_partition, rtol=1e-12, atol=1e-9)
    value.sum().backward()
    for part, expected in zip(parts, (wanted.segments, wanted.transitions, wanted.start, wanted.end), strict=True):
        np.testing.assert_allclose(part.grad, expected, rtol=1e-9, atol=1e-9)


@given(batches())
@settings(max_examples=60)
def test_torch_alone_gives_the_same(scores: chain.SegmentScores) -> None:
    if not has_paths(scores):
        return
    parts, wanted = tensors(scores), scores.marginals()
    value = scanned(scores.lengths, *parts)
    np.testing.assert_allclose(value.detach(), wanted.log_partition, rtol=1e-12, atol=1e-9)
    value.sum().backward()
    for part, expected in zip(parts, (wanted.segments, wanted.transitions, wanted.start, wanted.end), strict=True):
        np.testing.assert_allclose(0.0 if part.grad is None else part.grad, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("forbid", [False, True])
def test_gradcheck_of_partition_and_loss(forbid: bool) -> None:
    parts = some(LENGTHS, forbid=forbid)
    free = [part.detach().clone() for part in parts]
    live = [torch.isfinite(part) for part in free]

    def full(*values: torch.Tensor) -> SegmentScores:
        made = [f.masked_scatter(m, v) for f, m, v in zip(free, live, values, strict=True)]
        return scored(LENGTHS, made)

    inputs = tuple(f[m].requires_grad_() for f, m in zip(free, live, strict=True))
    weights = torch.tensor([1.0, 2.0, -0.5, 3.0], dtype=torch.float64)
    path = full(*inputs).viterbi().paths
    assert torch.autograd.gradcheck(lambda *x: full(*x).log_partition(), inputs)
    assert torch.autograd.gradcheck(lambda *x: full(*x).log_partition() * weights, inputs)
    assert torch.autograd.gradcheck(lambda *x: full(*x).nll(path), inputs)
    assert torch.autograd.gradgradcheck(lambda *x: full(*x).log_partition() * weights, inputs)
    assert torch.autograd.gradcheck(lambda *x: full(*x).marginals().segments.nan_to_num(0.0), inputs)


def test_scores_of_paths_and_losses_are_those_of_the_arrays() -> None:
    own = scored(LENGTHS, some(LENGTHS))
    paths = [one[0] for one in own.sample(1, seed=5).paths]
    np.testing.assert_allclose(own.score(paths).detach(), own.numpy().score(paths), rtol=1e-12)
    np.testing.assert_allclose(own.nll(paths).detach(), own.numpy().nll(paths), rtol=1e-9, atol=1e-12)
    assert own.entropy().tolist() == own.numpy().entropy().tolist()
    assert [p.tolist() for p in own.kbest(1).paths[0]] == [own.viterbi().paths[0].tolist()]
    with torch.no_grad():
        found, wanted = own.marginals(), own.numpy().marginals()
    assert torch.equal(found.segments, torch.from_numpy(wanted.segments))


@pytest.mark.parametrize("batch_first", [True, False])
def test_any_mask(batch_first: bool) -> None:
    mask = torch.tensor([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    segments = torch.randn(4, 5, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    _, *chain_scores = some([1])
    shown = segments if batch_first else segments.transpose(0, 1)
    padded = shown.clone().requires_grad_()
    own = SegmentScores.padded(padded, mask if batch_first else mask.T, *chain_scores, batch_first=batch_first)
    flat = SegmentScores(segments[mask], mask.sum(1), *chain_scores)
    assert torch.equal(own.log_partition(), flat.log_partition())
    own.log_partition().sum().backward()
    grad = padded.grad if batch_first else padded.grad.transpose(0, 1)
    assert torch.equal(grad[~mask], torch.zeros_like(grad[~mask]))
    np.testing.assert_allclose(grad[mask], flat.numpy().marginals().segments, atol=1e-12)


def test_other_number_types() -> None:
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        parts = [part.detach().to(kind).requires_grad_() for part in some(LENGTHS)]
        own = scored(LENGTHS, parts)
        assert own.log_partition().dtype == torch.float32
        wanted = scored(LENGTHS, [part.detach().double() for part in parts]).log_partition()
        np.testing.assert_allclose(own.log_partition().detach(), wanted, rtol=1e-6)
        own.log_partition().sum().backward()
        assert all(part.grad.dtype == kind for part in parts)


def test_bad_shapes_and_forbidden_segments_are_named() -> None:
    parts = some([3])
    with pytest.raises(ShapeError, match=r"segments must be \(N, K, L\)"):
        SegmentScores(parts[0][0], [3], *parts[1:])
    with pytest.raises(ShapeError, match=r"transitions must be \(2, 2\) to match segments"):
        SegmentScores(parts[0], [3], parts[1][:1])
    with pytest.raises(ShapeError, match=r"mask must be \(1, 3\)"):
        SegmentScores.padded(parts[0][None], torch.ones(1, 2, dtype=torch.bool), *parts[1:])
    with pytest.raises(ShapeError, match=r"segments must be \(B, T, K, L\)"):
        SegmentScores.padded(parts[0], None, *parts[1:])
    with pytest.raises(ShapeError, match="allowed must be bool"):
        scored([3], parts).restricted(torch.ones(3, 3))
    with pytest.raises(TagRangeError, match="segment 0 of sequence 0 has the label 2"):
        scored([3], parts).score([[(0, 3, 2)]])
    allowed = torch.ones(3, 3, 2, dtype=torch.bool)
    allowed[:, 2] = False
    with pytest.raises(NoPathError, match="the segments of sequence 0 are forbidden"):
        scored([3], parts).restricted(allowed).nll([[(0, 3, 1)]])
