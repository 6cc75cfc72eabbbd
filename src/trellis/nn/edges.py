"""Scores of transitions that depend on both tokens: a bilinear form of low rank for each pair of labels.

    edges[p, i, j] = sum_k W[i, j, k] * (U h[t-1])[k] * (V h[t])[k]        p: the pair of tokens t - 1 and t

W begins at zero, so that training begins with transitions that are the same at every place.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trellis.arrays import IntArray
from trellis.ragged import later_tokens


class BilinearEdges(nn.Module):
    """From the features of tokens ``(N, size)`` to scores of the transitions between neighbours ``(P, L, L)``."""

    def __init__(self, size: int, num_tags: int, rank: int) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.left, self.right = nn.Linear(size, rank), nn.Linear(size, rank)
        # One row per pair of labels, by both: a model that knows more labels takes over the first of each.
        self.weight = nn.Parameter(torch.zeros(num_tags, num_tags, rank))

    def forward(self, features: Tensor, lengths: IntArray) -> Tensor:
        """The pairs of each sentence in turn, as `trellis.chain.torch.ChainScores` takes them."""
        later = torch.from_numpy(later_tokens(lengths)).to(features.device)
        products = self.left(features)[later - 1] * self.right(features)[later]
        scores = nn.functional.linear(products, self.weight.flatten(0, 1))
        return scores.view(-1, self.num_tags, self.num_tags).float()
