"""Rows of several tables side by side, with dropout, by the native kernel: CPU tensors only.

A mask is a function of a seed, which comes from torch's generator, and of the place of each number. It is drawn while
it is used, again in the backward pass, and never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trellis import _native
from trellis.arrays import IntArray, plain_tensor
from trellis.nn.native import doubles
from trellis.symbols import PADDING


class RowSource(NamedTuple):
    """Where some columns of the features of N tokens come from; two sources of the same columns are added."""

    table: Tensor
    """``(count, width)``"""
    rows: Tensor | None = None
    """int64[N]: the row of each token; None if row n is that of token n."""
    padded: bool = False
    """Whether the row of padding is not trained."""

    def place(self, table: Tensor) -> tuple[int, int, int, IntArray | None]:
        """A table with these rows, as the kernel is told."""
        rows = None if self.rows is None else plain_tensor(self.rows, torch.int64).numpy()
        return table.data_ptr(), len(table), table.stride(0), rows


RowSources = Sequence[Sequence[RowSource]]
"""Of neighbouring columns, one after another."""


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
        """With a seed from torch's generator."""
        return cls(int(torch.empty((), dtype=torch.int64).random_()), tokens, numbers, columns)

    def joined(self, sources: RowSources, lengths: IntArray) -> Tensor:
        """The features ``(N, D)`` of all sources, times the mask."""
        width, kind = sum(own[0].table.shape[1] for own in sources), _kind(sources)
        out = torch.empty(int(lengths.sum()), width, dtype=kind)
        for first, own in _by_column(sources):
            target = (out.data_ptr() + first * out.element_size(), len(out), width, None)
            for number, source in enumerate(own):
                table = plain_tensor(source.table, kind)
                self._apply(lengths, first, table, source.place(table), target, number > 0)
        return out

    def gradients(self, of_features: Tensor, sources: RowSources, lengths: IntArray) -> list[Tensor | None]:
        """Those of the tables, in the order of the sources, given that of the features; None for frozen ones."""
        found: list[Tensor | None] = []
        of_features = plain_tensor(of_features)
        N, width = of_features.shape
        for first, own in _by_column(sources):
            origin = (of_features.data_ptr() + first * of_features.element_size(), N, width, None)
            for source in own:
                wanted, kind = source.table.requires_grad, of_features.dtype
                found.append(self._gradient(origin, first, source, lengths, kind) if wanted else None)
        return found

    def apply(self, values: Tensor, lengths: IntArray) -> Tensor:
        """``(N, D)`` times the mask."""
        return self.joined([[RowSource(values)]], lengths)

    def _gradient(self, origin: Any, first: int, source: RowSource, lengths: IntArray, kind: torch.dtype) -> Tensor:
        shared = source.rows is not None
        out = (torch.zeros if shared else torch.empty)(source.table.shape, dtype=kind)
        self._apply(lengths, first, out, origin, source.place(out), shared)
        if source.padded:
            out[PADDING] = 0.0
        return out

    def _apply(self, lengths: IntArray, first: int, like: Tensor, origin: Any, target: Any, add: bool) -> None:
        shares = (self.tokens, self.numbers, self.columns)
        _native.apply_dropout(doubles(like), self.seed, shares, lengths, first, like.shape[1], origin, target, add)


def _by_column(sources: RowSources) -> list[tuple[int, Sequence[RowSource]]]:
    """With the number of their first column."""
    found, first = [], 0
    for own in sources:
        found.append((first, own))
        first += own[0].table.shape[1]
    return found


def _kind(sources: RowSources) -> torch.dtype:
    """Of the features: single precision, unless a table has double."""
    doubled = any(doubles(source.table) for own in sources for source in own)
    return torch.float64 if doubled else torch.float32
