"""Scores of transitions from the features of both tokens."""

import numpy as np
import torch

from trellis.models.neural.training import take_over
from trellis.nn.heads import BilinearEdges


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
    take_over(network, before)  # type: ignore[arg-type]
    h, lengths = torch.randn(5, 3), np.array([5])
    assert torch.allclose(network["edges"](h, lengths)[:, :2, :2], before["edges"](h, lengths))
