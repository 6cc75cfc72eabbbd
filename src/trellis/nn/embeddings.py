"""Tables of vectors for words and for categories: ids in, vectors out.

Id 0 is padding, whose vector is zero and never learns; id 1 is whatever the vocabulary does not know.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from trellis.errors import ConfigError, ShapeError
from trellis.nn.dropout import PADDING, WordDropout, check_rate


class CategoryEmbedding(nn.Module):
    """A vector for each of a few categories: capitalisation, the values of an extra column.

    Args:
        count: how many ids there are, padding and unknown included.
        size: length of the vectors, which is also `output_size`.

    """

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        _check_table(count, size)
        self.output_size = size
        self.weight = nn.Parameter(_draw(count, size, variance=1.0 / size))

    def forward(self, ids: Tensor) -> Tensor:
        """``(B, T)`` to ``(B, T, size)``."""
        return F.embedding(ids, self.weight, PADDING)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class WordEmbedding(nn.Module):
    """A vector for each word, drawn at random or given.

    Args:
        count: how many ids there are, padding and unknown included.
        size: length of the vectors, which is also `output_size`.
        dropout: in training, the probability that a known word is taken for an unknown one.
        vectors: ``(count, size)``, what to start from; a row of NaN is drawn at random, as spread out as the given
            rows are. The row of padding is zero, whatever is given.
        freeze: whether the given rows stay as they are. Rows drawn at random are trained all the same, so that the
            vector of unknown words always learns.

    Attributes:
        weight: ``(count, size)``, or with `freeze` only padding, unknown and the rows that are trained.
        fixed: with `freeze`, ``(count, size)``: the given rows, and zeros for the others.
        place: with `freeze`, ``(count,)``: the row of each id in `weight`, that of padding for given rows.

    """

    fixed: Tensor | None
    place: Tensor | None

    def __init__(
        self,
        count: int,
        size: int,
        *,
        dropout: float = 0.0,
        vectors: NDArray[np.floating] | None = None,
        freeze: bool = False,
    ) -> None:
        super().__init__()
        _check_table(count, size)
        if freeze and vectors is None:
            raise ConfigError("freeze keeps given vectors as they are, and none are given")
        self.output_size = size
        self.dropout = WordDropout(check_rate(dropout, "dropout"))
        table, given = _start(count, size, vectors)
        fixed = place = None
        if freeze:
            trained = ~given
            trained[:2] = True  # padding is a row of the trained table too: what given rows point at
            fixed = table.masked_fill(trained[:, None], 0.0)
            place = torch.where(trained, trained.cumsum(0) - 1, PADDING)
            table = table[trained]
        self.weight = nn.Parameter(table)
        self.register_buffer("fixed", fixed)
        self.register_buffer("place", place)

    def forward(self, ids: Tensor) -> Tensor:
        """``(B, T)`` to ``(B, T, size)``."""
        ids = self.dropout(ids)
        if self.fixed is None or self.place is None:
            return F.embedding(ids, self.weight, PADDING)
        return F.embedding(ids, self.fixed) + F.embedding(self.place[ids], self.weight, PADDING)

    def extra_repr(self) -> str:
        rows = "" if self.fixed is None else f", trained={self.weight.shape[0]}"
        return f"{self.weight.shape[0] if self.place is None else len(self.place)}, {self.output_size}{rows}"


def _check_table(count: int, size: int) -> None:
    if count < 2:
        raise ConfigError(f"count must be at least 2, for padding and unknown, got {count}")
    if size < 1:
        raise ConfigError(f"size must be at least 1, got {size}")


def _draw(count: int, size: int, *, variance: float) -> Tensor:
    """Uniform numbers of that variance, zeros for padding."""
    limit = math.sqrt(3.0 * variance)
    table = torch.empty(count, size).uniform_(-limit, limit)
    table[PADDING] = 0.0
    return table


def _start(count: int, size: int, vectors: NDArray[np.floating] | None) -> tuple[Tensor, Tensor]:
    """The table to start from, and which of its rows were given."""
    given = torch.zeros(count, dtype=torch.bool)
    if vectors is None:
        return _draw(count, size, variance=1.0 / size), given
    if vectors.shape != (count, size):
        raise ShapeError(f"vectors must be (count, size) = ({count}, {size}), got {vectors.shape}")
    table = torch.tensor(vectors, dtype=torch.get_default_dtype())
    given = ~table.isnan().any(1)
    given[PADDING] = False
    if not table[given].isfinite().all():
        row = int((table.isinf().any(1) & given).nonzero()[0])
        raise ShapeError(f"vectors must be finite, or NaN for rows to draw at random, got infinity in row {row}")
    spread = float(table[given].square().mean()) if bool(given.any()) else 1.0 / size
    return torch.where(given[:, None], table, _draw(count, size, variance=spread)), given
