"""Whoever changes tags, lengths or masks after a forward pass gets the gradients of what they were, and no crash."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trellis import _native
from trellis import chain as numpy_chain
from trellis.chain import torch as chain
from trellis.errors import ShapeError, TrellisError
from trellis.nn import CRF

L = 3
SHAPE = (2, 4)
# Neither is seen by autograd, whose check of versions finds changes by torch's own operations only.
UNSEEN: dict[str, Callable[[Tensor, int], object]] = {
    "data": lambda x, value: x.data.fill_(value),
    "numpy": lambda x, value: x.numpy().fill(value),
}
WAYS = pytest.mark.parametrize("way", UNSEEN)
LOSSES: dict[str, dict[str, Any]] = {
    "sum": {},
    "none": {"reduction": "none"},
    "weighted": {"label_weights": torch.linspace(0.5, 2, L, dtype=torch.float64)},
}


def inputs() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "emissions": torch.randn(*SHAPE, L, generator=generator, dtype=torch.float64).requires_grad_(),
        "tags": torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]]),
        "mask": torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0]], dtype=torch.bool),
    }


def gradients(loss: str, spoil: Callable[[dict[str, Tensor]], object], twice: bool = False) -> list[Tensor]:
    """The gradients of a loss whose inputs are spoilt before the backward pass."""
    torch.manual_seed(0)
    crf, given = CRF(L, batch_first=True).double(), inputs()
    value = crf.nll(**given, **LOSSES[loss]).sum()
    spoil(given)
    if twice:
        (first,) = torch.autograd.grad(value, given["emissions"], create_graph=True)
        value = first.square().sum()
    value.backward()
    leaves = (given["emissions"], *crf.parameters())
    assert all(x.grad is not None for x in leaves)
    return [x.grad for x in leaves if x.grad is not None]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


@WAYS
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("twice", [False, True])
class TestLayer:
    @pytest.mark.parametrize("value", [1, 2**40, -(2**40)])
    def test_tags(self, way: str, loss: str, twice: bool, value: int) -> None:
        found = gradients(loss, lambda given: UNSEEN[way](given["tags"], value), twice)
        assert_equal(found, gradients(loss, lambda given: None, twice))

    def test_mask(self, way: str, loss: str, twice: bool) -> None:
        found = gradients(loss, lambda given: UNSEEN[way](given["mask"], 1), twice)
        assert_equal(found, gradients(loss, lambda given: None, twice))


@WAYS
def test_allowed_labels(way: str) -> None:
    found = []
    crf = CRF(L, batch_first=True).double()
    for spoilt in (False, True):
        emissions = inputs()["emissions"]
        allowed = (torch.arange(L).expand(*SHAPE, L) > 0).contiguous()
        value = crf.scores(emissions).log_partition(allowed=allowed).sum()
        if spoilt:
            UNSEEN[way](allowed, 1)
        value.backward()
        found.append(emissions.grad)
    assert torch.equal(*(grad for grad in found if grad is not None))


@pytest.mark.parametrize("weighted", [False, True])
def test_lengths(weighted: bool) -> None:
    found = []
    for later in ([3, 1], [1, 3], [2**40, -(2**40)]):
        emissions = torch.arange(4.0 * L).reshape(4, L).requires_grad_()
        lengths, tags = torch.tensor([3, 1]), torch.tensor([0, 1, 2, 0])
        scores = chain.ChainScores(emissions, lengths, torch.zeros(L, L))
        loss = scores.nll(tags, weights=torch.ones(4)) if weighted else scores.nll(tags)
        lengths.numpy()[:] = later
        loss.sum().backward()
        assert emissions.grad is not None
        found.append(emissions.grad)
    assert_equal(found[1:], found[:1] * 2)


def test_a_change_that_autograd_sees_in_scores_is_its_own_error() -> None:
    given = inputs()
    emissions = given["emissions"] * 1
    loss = CRF(L, batch_first=True).double().nll(emissions, given["tags"])
    emissions.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_tags_changed_between_the_passes_of_a_compiled_loss() -> None:
    """The operators compute the loss again in the backward pass, checks included."""
    from trellis.chain.torch import compile as operators

    given = inputs()
    square, row = torch.zeros(L, L, dtype=torch.float64), torch.zeros(L, dtype=torch.float64)
    loss = operators.nll(given["emissions"], given["tags"], given["mask"], square, row, row, None, True, -100, "sum")
    given["tags"].numpy()[:] = 2**40
    with pytest.raises(TrellisError, match=r"must be in 0\.\.2"):
        loss.backward()


class TestArrays:
    def test_lengths_of_the_caller(self) -> None:
        lengths = np.array([3, 1])
        scores = numpy_chain.ChainScores(np.zeros((4, L)), lengths, np.zeros((L, L)))
        expected = scores.log_partition()
        lengths[:] = [2**40, -(2**40)]
        assert scores.log_partition().tolist() == expected.tolist()

    def test_lengths_of_the_scores(self) -> None:
        scores = numpy_chain.ChainScores(np.zeros((4, L)), [3, 1], np.zeros((L, L)))
        for lengths in ([2**62, -(2**62)], [2**63 - 1, 1], [4, 1], [-1, 5]):
            scores.lengths[:] = lengths
            with pytest.raises(ShapeError, match="lengths must"):
                scores.log_partition()

    @pytest.mark.parametrize("lengths", [[2**62] * 3 + [2**62 + 4], [2**63 - 1, 5], [4, 1], [-1, 5], [3]])
    def test_the_native_side_lays_out_no_tokens_that_are_not_there(self, lengths: list[int]) -> None:
        with pytest.raises(ValueError, match="lengths do not add up"):
            _native.layout_of_lengths(np.array(lengths), len(lengths), 4)


def moved_to(x: Tensor, other: Tensor) -> None:
    x.data = other


SMALLER: dict[str, Callable[[Tensor], object]] = {
    "a part": lambda x: moved_to(x, x.data[:1].clone()),
    "nothing": lambda x: moved_to(x, torch.zeros(0, dtype=x.dtype)),
    "freed": lambda x: x.untyped_storage().resize_(0),
}
QUESTIONS: dict[str, Callable[[chain.ChainScores], Tensor]] = {
    "log_partition": lambda s: s.log_partition(),
    "nll": lambda s: s.nll(torch.zeros(8, dtype=torch.int64)),
    "scaled": lambda s: s.nll(torch.zeros(8, dtype=torch.int64), scale=0.5),
    "weighted": lambda s: s.nll(torch.zeros(8, dtype=torch.int64), weights=torch.ones(8, dtype=torch.float64)),
    "partial": lambda s: s.nll(allowed=torch.ones(8, L, dtype=torch.bool)),
}
PARTS = ("emissions", "transitions", "start", "end", "edges")


def parts() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = {"emissions": (8, L), "transitions": (L, L), "start": (L,), "end": (L,), "edges": (6, L, L)}
    make = {name: torch.randn(*shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    return {name: x.requires_grad_() for name, x in make.items()}


def loss_of(given: dict[str, Tensor], question: str) -> Tensor:
    return QUESTIONS[question](chain.ChainScores(lengths=[5, 3], **given)).sum()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("way", SMALLER)
def test_scores_that_lose_their_memory_before_the_backward_pass_are_refused(way: str, question: str, part: str):
    given = parts()
    loss = loss_of(given, question)
    SMALLER[way](given[part])
    with pytest.raises((TrellisError, RuntimeError)):  # torch finds some of them itself
        loss.backward()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("strides", [False, True], ids=["plain", "strided"])
def test_scores_that_move_before_the_backward_pass_give_the_same_gradients(question: str, part: str, strides: bool):
    given, still = parts(), parts()
    loss, expected = loss_of(given, question), loss_of(still, question)
    copy = given[part].detach().clone()
    moved_to(given[part], torch.stack([copy, copy], dim=-1)[..., 0] if strides else copy)
    loss.backward()
    expected.backward()
    assert_equal([x.grad for x in given.values()], [x.grad for x in still.values()])


@pytest.mark.parametrize("question", QUESTIONS)
def test_hooks_that_keep_saved_tensors_elsewhere(question: str):
    given, still = parts(), parts()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.numpy(force=True).copy(), torch.from_numpy):
        loss = loss_of({name: x * 1.0 for name, x in given.items()}, question)
    loss_of(still, question).backward()
    loss.backward()
    for a, b in zip(given.values(), still.values(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("part", PARTS[1:])
def test_tensors_without_memory_are_refused(part: str):
    given = parts()
    given[part] = given[part].to("meta")
    with pytest.raises(ShapeError, match=f"{part} must be on the cpu to match emissions, got meta"):
        chain.ChainScores(lengths=[5, 3], **given)


def test_tags_and_layers_without_memory_are_refused():
    scores = chain.ChainScores(lengths=[5, 3], **parts())
    for ask in (scores.score, scores.nll):
        with pytest.raises(ShapeError, match="tags must be on the cpu to match emissions, got meta"):
            ask(torch.zeros(8, dtype=torch.int64, device="meta"))
    with pytest.raises(ShapeError, match="transitions must be on the cpu"):
        CRF(L, batch_first=True).to("meta").decode(torch.zeros(2, 4, L))


@pytest.mark.parametrize("part", PARTS)
def test_memory_that_is_freed_after_the_scores_were_made(part: str):
    given = {name: x.detach() for name, x in parts().items()}
    scores = chain.ChainScores(lengths=[5, 3], **given)
    given[part].untyped_storage().resize_(0)
    for ask in (scores.log_partition, scores.viterbi, scores.marginals, scores.entropy):
        with pytest.raises(ShapeError, match=f"{part} have no memory any more"):
            ask()


def test_sparse_tensors_are_refused():
    given = {**parts(), "transitions": torch.eye(L, dtype=torch.float64).to_sparse()}
    with pytest.raises(ShapeError, match=r"expected a dense tensor, got one of layout torch\.sparse_coo"):
        chain.ChainScores(lengths=[5, 3], **given)
