"""Padded batches with any mask give what the same tokens give laid one after another, and nothing for the padding."""

from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.chain.strategies import check
from tests.chain.test_torch import assert_same
from trellis.chain import torch as chain

MASKS = {
    "right padding": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]],
    "left padding": [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]],
    "holes": [[1, 0, 1, 0, 1], [0, 1, 0, 1, 0], [1, 1, 0, 1, 1]],
    "empty rows": [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]],
    "everything": [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
    "nothing": [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
}
L = 4
JUNK = float("nan")  # what padding may hold without harm


class Both:
    """One batch twice: padded in the axis order asked for, and flat."""

    def __init__(
        self, mask: Tensor, batch_first: bool, backend: Any, grad: bool = False, with_edges: bool = False
    ) -> None:
        generator = torch.Generator().manual_seed(3)
        draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
        B, T = mask.shape
        dense = draw(B, T, L)
        self.mask, self.batch_first = mask, batch_first
        self.lengths = mask.sum(1).tolist()
        self.chain = [draw(L, L), draw(L), draw(L)]
        self.chain[0][1, 2] = -torch.inf
        self.tags = torch.where(mask, 0, -7)  # 0 -> 0 is allowed; out of range where nobody looks
        self.emissions = self.order(dense.masked_fill(~mask.unsqueeze(-1), JUNK)).requires_grad_(grad)
        self.flat_emissions = dense[mask].requires_grad_(grad)
        self.edges = self.flat_edges = None
        if with_edges:
            own = draw(B, max(T - 1, 0), L, L)
            later = self.later()
            self.flat_edges = own[later].requires_grad_(grad)
            self.edges = self.order(own.masked_fill(~later[..., None, None], JUNK)).requires_grad_(grad)
        self.padded = chain.ChainScores.padded(
            self.emissions, self.order(mask), *self.chain, self.edges, batch_first=batch_first, backend=backend
        )
        self.flat = chain.ChainScores(self.flat_emissions, self.lengths, *self.chain, self.flat_edges, backend=backend)

    def later(self) -> Tensor:
        """Which places but the first hold a token that has one before it: edges belong to those, [B, T - 1]."""
        return self.mask[:, 1:] & (self.mask.cumsum(1)[:, 1:] > 1)

    def order(self, x: Tensor) -> Tensor:
        return x if self.batch_first else x.transpose(0, 1)

    def tokens(self, x: Tensor) -> Tensor:
        """The values at tokens, flat."""
        return self.order(x)[self.mask]

    def padding(self, x: Tensor) -> Tensor:
        return self.order(x)[~self.mask]


def check_layout(both: Both) -> None:
    padded, flat = both.padded, both.flat
    own_tags, flat_tags = both.order(both.tags), both.tags[both.mask]
    weights = torch.rand(both.mask.shape, generator=torch.Generator().manual_seed(1))
    assert_same(padded.log_partition(), flat.log_partition())
    assert_same(padded.entropy(), flat.entropy())
    assert_same(padded.score(own_tags), flat.score(flat_tags))
    assert_same(padded.nll(own_tags), flat.nll(flat_tags))
    weighted = padded.nll(own_tags, weights=both.order(weights))
    assert_same(weighted, flat.nll(flat_tags, weights=weights[both.mask]))
    assert_same(padded.kbest(3), flat.kbest(3))
    spans = [(b, 0, 1) for b, T in enumerate(both.lengths) if T]
    labels = [[1]] * len(spans)
    assert_same(padded.span_log_prob(spans, labels), flat.span_log_prob(spans, labels))
    best, flat_best = padded.viterbi(), flat.viterbi()
    assert_same(best.scores, flat_best.scores)
    assert torch.equal(both.tokens(best.tags), flat_best.tags)
    assert (both.padding(best.tags) == -1).all()
    drawn = padded.sample(3, seed=2)
    assert torch.equal(torch.stack([both.tokens(x) for x in drawn]), flat.sample(3, seed=2))
    assert all((both.padding(x) == -1).all() for x in drawn)
    for pairwise in (False, True):
        found, expected = (s.marginals(pairwise=pairwise) for s in (padded, flat))
        assert_same(both.tokens(found.tokens), expected.tokens)
        assert (both.padding(found.tokens) == 0).all()
        for name in ("log_partition", "transitions", "start", "end", *(["pairwise"] if pairwise else [])):
            assert_same(getattr(found, name), getattr(expected, name))
    allowed = both.order((both.tags.unsqueeze(-1) == torch.arange(L)) | (torch.arange(L) > 1))
    flat_allowed = both.tokens(allowed)
    assert_same(padded.log_partition(allowed=allowed), flat.log_partition(allowed=flat_allowed))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("backend", ["auto", "scan"])
@pytest.mark.parametrize("with_edges", [False, True])
class TestMasks:
    def test_every_operation_equals_the_flat_one(
        self, name: str, batch_first: bool, backend: str, with_edges: bool
    ) -> None:
        mask = torch.tensor(MASKS[name], dtype=torch.bool)
        check_layout(Both(mask, batch_first, backend, with_edges=with_edges))

    @pytest.mark.parametrize("loss", ["log_partition", "nll", "weighted_nll"])
    def test_gradients_equal_the_flat_ones_and_padding_has_none(
        self, name: str, batch_first: bool, backend: str, loss: str, with_edges: bool
    ) -> None:
        mask = torch.tensor(MASKS[name], dtype=torch.bool)
        both = Both(mask, batch_first, backend, grad=True, with_edges=with_edges)
        if loss == "log_partition":
            values = [s.log_partition() for s in (both.padded, both.flat)]
        elif loss == "nll":
            values = [both.padded.nll(both.order(both.tags)), both.flat.nll(both.tags[both.mask])]
        else:
            ones = torch.ones(both.mask.shape)
            values = [
                both.padded.nll(both.order(both.tags), weights=both.order(ones)),
                both.flat.nll(both.tags[both.mask], weights=ones[both.mask]),
            ]
        weights = torch.tensor([0.5, 2.0, -1.0])
        for value in values:
            (value * weights).sum().backward()
        assert both.emissions.grad is not None
        assert both.flat_emissions.grad is not None
        assert_same(both.tokens(both.emissions.grad), both.flat_emissions.grad)
        assert (both.padding(both.emissions.grad) == 0).all()
        if both.edges is not None and both.flat_edges is not None:
            assert both.edges.grad is not None
            assert both.flat_edges.grad is not None
            found = both.order(both.edges.grad)
            assert_same(found[both.later()], both.flat_edges.grad)
            assert (found[~both.later()] == 0).all()


@check(
    st.integers(0, 4).flatmap(
        lambda T: st.lists(st.lists(st.booleans(), min_size=T, max_size=T), max_size=5).map(
            lambda rows: torch.tensor(rows, dtype=torch.bool).reshape(len(rows), T)
        )
    ),
    st.booleans(),
    st.sampled_from(["auto", "scan"]),
    st.booleans(),
    max_examples=60,
)
def test_masks_of_every_shape(mask: Tensor, batch_first: bool, backend: str, with_edges: bool) -> None:
    check_layout(Both(mask, batch_first, backend, with_edges=with_edges))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_masks_of_any_dtype(dtype: torch.dtype) -> None:
    emissions, transitions = torch.randn(3, 5, 2), torch.zeros(2, 2)
    mask = torch.tensor(MASKS["holes"])
    plain, other = (chain.ChainScores.padded(emissions, m, transitions) for m in (mask.bool(), mask.to(dtype)))
    assert torch.equal(plain.log_partition(), other.log_partition())


def test_ignored_tags_are_holes() -> None:
    mask, holes = (torch.tensor(MASKS[name], dtype=torch.bool) for name in ("left padding", "holes"))
    emissions, transitions = torch.randn(3, 5, 2), torch.zeros(2, 2)
    for ignored in (-100, 1):
        tags = torch.where(holes, 0, ignored)
        found = chain.ChainScores.padded(emissions, mask, transitions, tags=tags, ignore_index=ignored)
        expected = chain.ChainScores.padded(emissions, mask & holes, transitions)
        assert torch.equal(found.nll(tags), expected.nll(tags))


def test_strided_masks_and_tags_mean_what_they_say() -> None:
    emissions, transitions = torch.randn(3, 5, 2), torch.zeros(2, 2)
    mask = torch.tensor(MASKS["holes"], dtype=torch.bool)
    tags = torch.where(mask, 1, -100)
    turned_mask, turned_tags = mask.T.contiguous().T, tags.T.contiguous().T
    assert not turned_mask.is_contiguous()
    plain = chain.ChainScores.padded(emissions, mask, transitions, tags=tags)
    turned = chain.ChainScores.padded(emissions, turned_mask, transitions, tags=turned_tags)
    assert torch.equal(plain.nll(tags), turned.nll(turned_tags))
