"""Where the tokens of a ragged batch are: flat, one sequence after another, and in the order that cuDNN needs.

Encoders work on flat features ``(N, H)``: no padding is stored, multiplied or masked. Only torch's recurrent layers
need the first tokens of all sequences together, then the second ones, and so on; that order and the way back are
computed here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trellis.arrays import IntArray
from trellis.lazy import cached
from trellis.ragged import check_lengths


class ByPosition(NamedTuple):
    """Tokens by position, longest sequences first."""

    order: Tensor
    """int64[N]"""
    inverse: Tensor
    """int64[N]: the way back"""
    batch_sizes: Tensor
    """int64[T], on the CPU: how many sequences have a token at each position"""


@dataclass(frozen=True, eq=False)
class Packing:
    """The places of N tokens of B sequences."""

    lengths: IntArray
    """int64[B]"""
    sequence: Tensor
    """int64[N]: the sequence each token belongs to"""

    @classmethod
    def of(cls, lengths: npt.ArrayLike) -> Packing:
        """The places of sequences of these lengths."""
        checked = check_lengths(lengths)
        return cls(checked, torch.from_numpy(np.repeat(np.arange(len(checked)), checked)))

    @cached
    def by_position(self) -> ByPosition:
        """The input of a `PackedSequence`."""
        lengths = self.lengths
        count = int(lengths.sum())
        position = np.arange(count) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rank = np.empty(len(lengths), dtype=np.int64)
        rank[np.argsort(-lengths, kind="stable")] = np.arange(len(lengths))
        order = np.argsort(position * len(lengths) + np.repeat(rank, lengths))
        inverse = np.empty(count, dtype=np.int64)
        inverse[order] = np.arange(count)
        sizes = np.bincount(position, minlength=int(lengths.max(initial=0)))
        device = self.sequence.device
        return ByPosition(
            torch.from_numpy(order).to(device), torch.from_numpy(inverse).to(device), torch.from_numpy(sizes)
        )

    def to(self, device: torch.device) -> Packing:
        """The same on another device."""
        return self if device.type == "cpu" else replace(self, sequence=self.sequence.to(device))
