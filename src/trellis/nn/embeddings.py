"""Tables of vectors for words and for categories: ids in, vectors out.

Id 0 is padding, whose vector is zero and never trained; id 1 is every word that is not in the vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trellis.errors import ConfigError
from trellis.nn.dropout import WordDropout, check_rate
from trellis.symbols import PADDING


class CategoryEmbedding(nn.Module):
    """A vector for each of a few categories: capitalisation, the values of an extra column.

    Args:
        count: how many ids there are, padding and unknown included.
        size: length of the vectors, which is also `output_size`.

    """

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.output_size = size
        self.weight = nn.Parameter(_draw(count, size))

    def forward(self, ids: Tensor) -> Tensor:
        """``(B, T)`` to ``(B, T, size)``."""
        return F.embedding(ids, self.weight, PADDING)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class WordEmbedding(nn.Module):
    """A vector for each word, drawn at random.

    Args:
        count: how many ids there are, padding and unknown included.
        size: length of the vectors, which is also `output_size`.
        dropout: in training, the probability that a known word is treated as unknown.

    """

    def __init__(self, count: int, size: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.output_size = size
        self.dropout = WordDropout(check_rate(dropout, "dropout"))
        self.weight = nn.Parameter(_draw(count, size))

    def forward(self, ids: Tensor) -> Tensor:
        """``(B, T)`` to ``(B, T, size)``."""
        return F.embedding(self.dropout(ids), self.weight, PADDING)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


def _draw(count: int, size: int) -> Tensor:
    """Uniform numbers of variance 1 / size, zeros for padding."""
    if count < 2:
        raise ConfigError(f"count must be at least 2, for padding and unknown, got {count}")
    if size < 1:
        raise ConfigError(f"size must be at least 1, got {size}")
    limit = math.sqrt(3.0 / size)
    table = torch.empty(count, size).uniform_(-limit, limit)
    table[PADDING] = 0.0
    return table
