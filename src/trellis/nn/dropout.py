"""Dropout that fits sequences: one mask for a whole sequence, whole tokens, whole words.

On CPUs, `Dropout` applies the mask while rows of several tables are put side by side, by the native kernel. Its mask is
a function of a seed, which comes from torch's generator, and of the place of each number. It is drawn while it is used,
again in the backward pass, and never stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trellis import _native
from trellis.arrays import IntArray, plain_tensor
from trellis.errors import ConfigError
from trellis.symbols import PADDING, UNKNOWN


def check_rate(p: float, name: str) -> float:
    """The rate itself, if it is a probability below one."""
    if not 0.0 <= p < 1.0:
        raise ConfigError(f"{name} must be at least 0 and below 1, got {p}")
    return float(p)


class _Dropout(nn.Module):
    """A rate; outside training, or with rate 0, the result is the input itself."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = check_rate(p, f"p of {type(self).__name__}")

    @property
    def active(self) -> bool:
        return self.training and self.p > 0.0

    def extra_repr(self) -> str:
        return f"p={self.p}"


class LockedDropout(_Dropout):
    """Variational dropout: the dropped numbers are the same at every position of a sequence.

    What is kept is divided by ``1 - p``. Each sequence of the batch has its own mask.
    """

    def forward(self, x: Tensor, sequence: Tensor, count: int) -> Tensor:
        """``(N, H)`` to ``(N, H)``; ``sequence[N]`` says which of the `count` sequences each row belongs to."""
        if not self.active:
            return x
        mask = x.new_empty(count, x.shape[1]).bernoulli_(1.0 - self.p).div_(1.0 - self.p)
        return x * mask.index_select(0, sequence)


class TokenDropout(_Dropout):
    """Sets the vectors of whole tokens to zero; the others stay unchanged, since a token is either there or not."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        return x * x.new_empty(*x.shape[:-1], 1).bernoulli_(1.0 - self.p)


class WordDropout(_Dropout):
    """Replaces ids of words by that of the unknown word, so that its vector is trained; padding stays padding."""

    rates: Tensor | None = None
    """``(count,)``: the rate of each word; None if all have the same."""

    @property
    def active(self) -> bool:
        return self.training and (self.p > 0.0 or self.rates is not None)

    def forward(self, ids: Tensor) -> Tensor:
        if not self.active:
            return ids
        rates = self.p if self.rates is None else self.rates.to(ids.device)[ids]
        dropped = torch.rand(ids.shape, device=ids.device) < rates
        return ids.masked_fill(dropped & (ids != PADDING), UNKNOWN)


class RowSource(NamedTuple):
    """Where some columns of the features of N tokens come from; two sources of the same columns are added."""

    table: Tensor
    """``(count, width)``"""
    rows: Tensor | None = None
    """int64[N]: the row of each token; None if row n is that of token n."""
    padded: bool = False
    """Whether the row of padding is not trained."""

    def kernel_arguments(self, table: Tensor) -> tuple[int, int, int, IntArray | None]:
        """Address, length, stride and rows of a table of this source's shape, as the kernel takes them."""
        rows = None if self.rows is None else plain_tensor(self.rows, torch.int64).numpy()
        return table.data_ptr(), len(table), table.stride(0), rows


RowSources = Sequence[Sequence[RowSource]]
"""The sources of one group of columns after another."""


class Dropout(NamedTuple):
    """Shares of what is dropped: whole tokens, single numbers, columns of a sentence; the kept rest is scaled.

    Whole tokens are either there or not, so those that are kept are not scaled.
    """

    seed: int
    tokens: float
    numbers: float
    columns: float

    @classmethod
    def drawn(cls, *, tokens: float = 0.0, numbers: float = 0.0, columns: float = 0.0) -> Dropout:
        """Dropout with a seed from torch's generator."""
        return cls(int(torch.empty((), dtype=torch.int64).random_()), tokens, numbers, columns)

    def joined(self, sources: RowSources, lengths: IntArray) -> Tensor:
        """The features ``(N, D)`` of all sources, times the mask."""
        width = sum(columns[0].table.shape[1] for columns in sources)
        doubled = any(source.table.dtype == torch.float64 for columns in sources for source in columns)
        kind = torch.float64 if doubled else torch.float32
        out = torch.empty(int(lengths.sum()), width, dtype=kind)
        for first, columns in _by_column(sources):
            target = (out.data_ptr() + first * out.element_size(), len(out), width, None)
            for number, source in enumerate(columns):
                table = plain_tensor(source.table, kind)
                self._apply(lengths, first, table, source.kernel_arguments(table), target, number > 0)
        return out

    def gradients(self, of_features: Tensor, sources: RowSources, lengths: IntArray) -> list[Tensor | None]:
        """The gradient of each table, from that of the features ``(N, D)``; None for tables that are not trained."""
        gradients: list[Tensor | None] = []
        of_features = plain_tensor(of_features)
        N, width = of_features.shape
        for first, columns in _by_column(sources):
            origin = (of_features.data_ptr() + first * of_features.element_size(), N, width, None)
            for source in columns:
                if not source.table.requires_grad:
                    gradients.append(None)
                    continue
                shared = source.rows is not None
                out = (torch.zeros if shared else torch.empty)(source.table.shape, dtype=of_features.dtype)
                self._apply(lengths, first, out, origin, source.kernel_arguments(out), shared)
                if source.padded:
                    out[PADDING] = 0.0
                gradients.append(out)
        return gradients

    def apply(self, values: Tensor, lengths: IntArray) -> Tensor:
        """``(N, D)`` times the mask."""
        return self.joined([[RowSource(values)]], lengths)

    def _apply(self, lengths: IntArray, first: int, like: Tensor, origin: Any, target: Any, add: bool) -> None:
        shares = (self.tokens, self.numbers, self.columns)
        _native.apply_dropout(
            like.dtype == torch.float64, self.seed, shares, lengths, first, like.shape[1], origin, target, add
        )


def _by_column(sources: RowSources) -> Iterator[tuple[int, Sequence[RowSource]]]:
    """The sources of the same columns, with the number of their first column."""
    first = 0
    for columns in sources:
        yield first, columns
        first += columns[0].table.shape[1]
