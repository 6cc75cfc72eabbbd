"""Heads: losses against sums over all label sequences, and what makes the CRF and the softmax the same."""

import itertools

import numpy as np
import pytest
import torch

from trellis import chain
from trellis.models.neural.training import copy_weights
from trellis.nn import CRFHead, Head, SoftmaxHead
from trellis.nn.heads import BilinearEdges

L, LENGTHS = 3, np.array([2, 0, 3])
LEGAL = (torch.tensor([[1, 1, 0], [1, 0, 1], [1, 1, 1]]).bool(), torch.tensor([1, 1, 0]).bool(), torch.ones(3).bool())


@pytest.fixture
def emissions() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(5, L, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def tags() -> torch.Tensor:
    return torch.tensor([0, 1, 1, 2, 0])


def heads() -> list[Head]:
    torch.manual_seed(2)
    return [CRFHead(L).double(), CRFHead(L, LEGAL).double(), SoftmaxHead(L).double(), SoftmaxHead(L, LEGAL).double()]


def paths(length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(L), repeat=length))


def path_score(head: Head, own: torch.Tensor, path: tuple[int, ...], legal: bool) -> torch.Tensor:
    """Written out by hand; `legal` leaves the transitions in."""
    transitions, start, end = head.chain()
    score = sum((own[t, label] for t, label in enumerate(path)), torch.zeros((), dtype=torch.float64))
    if not legal or not path:
        return score
    score = score + start[path[0]] + end[path[-1]]
    return score + sum((transitions[i, j] for i, j in itertools.pairwise(path)), torch.zeros(()).double())


def event(head: Head, own: torch.Tensor, inside, legal: bool) -> torch.Tensor:
    every = torch.stack([path_score(head, own, path, legal) for path in paths(len(own))])
    wanted = torch.stack([path_score(head, own, path, legal) for path in paths(len(own)) if inside(path)])
    return every.logsumexp(0) - wanted.logsumexp(0)


@pytest.mark.parametrize("number", range(4))
def test_losses_are_sums_over_all_label_sequences(number: int, emissions: torch.Tensor, tags: torch.Tensor) -> None:
    head = heads()[number]
    legal = isinstance(head, CRFHead)  # a softmax learns each token by itself, whatever decoding allows
    found = head.losses(emissions, LENGTHS, tags)
    for loss, own, path in zip(found, emissions.split(LENGTHS.tolist()), tags.split(LENGTHS.tolist()), strict=True):
        wanted = event(head, own, lambda p, path=path: p == tuple(path.tolist()), legal)
        assert loss.item() == pytest.approx(wanted.item(), abs=1e-12)


@pytest.mark.parametrize("number", range(4))
def test_partial_losses_are_those_of_the_event(number: int, emissions: torch.Tensor) -> None:
    head = heads()[number]
    allowed = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1], [1, 1, 1]]).bool()
    found = head.losses(emissions, LENGTHS, allowed=allowed)
    groups = zip(found, emissions.split(LENGTHS.tolist()), allowed.split(LENGTHS.tolist()), strict=True)
    for loss, own, mask in groups:
        wanted = event(
            head, own, lambda p, mask=mask: all(mask[t, y] for t, y in enumerate(p)), isinstance(head, CRFHead)
        )
        assert loss.item() == pytest.approx(wanted.item(), abs=1e-12)


@pytest.mark.parametrize("number", range(4))
def test_weights_of_one_change_nothing_and_of_zero_leave_nothing(
    number: int, emissions: torch.Tensor, tags: torch.Tensor
) -> None:
    head = heads()[number]
    plain = head.losses(emissions, LENGTHS, tags)
    torch.testing.assert_close(head.losses(emissions, LENGTHS, tags, weights=torch.ones(5)), plain)
    nothing = head.losses(emissions, LENGTHS, tags, weights=torch.zeros(5))
    torch.testing.assert_close(nothing, torch.zeros(3, dtype=torch.float64))


def test_a_crf_without_transitions_is_a_softmax(emissions: torch.Tensor, tags: torch.Tensor) -> None:
    crf, softmax = CRFHead(L).double(), SoftmaxHead(L).double()
    for parameter in crf.parameters():
        torch.nn.init.zeros_(parameter)
    torch.testing.assert_close(crf.losses(emissions, LENGTHS, tags), softmax.losses(emissions, LENGTHS, tags))
    gradients = [
        torch.autograd.grad(head.losses(emissions, LENGTHS, tags).sum(), emissions)[0] for head in (crf, softmax)
    ]
    torch.testing.assert_close(*gradients)
    scores = [
        chain.ChainScores(emissions.detach(), LENGTHS, *(x.detach().numpy() for x in head.chain()))
        for head in (crf, softmax)
    ]
    np.testing.assert_array_equal(scores[0].viterbi().tags, scores[1].viterbi().tags)
    np.testing.assert_allclose(scores[0].marginals().tokens, emissions.softmax(1).detach(), atol=1e-12)


def test_the_legal_table_forbids_in_decoding_only() -> None:
    table = torch.tensor([[True, False], [True, True]])
    legal, free = SoftmaxHead(2, (table, *(torch.ones(2).bool(),) * 2)), SoftmaxHead(2)
    emissions = np.array([[2.5, 0.0], [0.0, 2.0]])
    best = [
        chain.ChainScores(emissions, [2], *(x.numpy() for x in head.chain())).viterbi().tags.tolist()
        for head in (legal, free)
    ]
    assert best == [[0, 0], [0, 1]]
    assert not legal.state_dict()  # the table belongs to the labels, not to what was learnt


def test_each_score_is_a_bilinear_form_of_its_two_tokens() -> None:
    torch.manual_seed(0)
    edges, lengths = BilinearEdges(size=3, num_tags=2, rank=4), np.array([2, 0, 1, 3])
    torch.nn.init.normal_(edges.weight)
    h = torch.randn(6, 3)
    found = edges(h, lengths)
    left, right = edges.left(h), edges.right(h)
    W = edges.weight
    expected = [torch.einsum("ijk,k,k->ij", W, left[t - 1], right[t]) for t in (1, 4, 5)]
    torch.testing.assert_close(found, torch.stack(expected))
    assert BilinearEdges(3, 2, 4)(h[:1], np.array([1])).shape == (0, 2, 2)


def test_training_begins_with_transitions_that_are_the_same_everywhere() -> None:
    edges = BilinearEdges(3, 2, 4)
    scores = edges(torch.randn(4, 3), np.array([4]))
    assert not scores.any()
    scores.sum().backward()
    assert edges.weight.grad.abs().sum() > 0


def test_a_model_with_more_labels_takes_over_the_scores_of_each_pair() -> None:
    before, network = (torch.nn.ModuleDict({"edges": BilinearEdges(3, L, 4)}) for L in (2, 3))
    torch.nn.init.normal_(before["edges"].weight)
    copy_weights(network, before)  # type: ignore[arg-type]
    h, lengths = torch.randn(5, 3), np.array([5])
    assert torch.allclose(network["edges"](h, lengths)[:, :2, :2], before["edges"](h, lengths))
