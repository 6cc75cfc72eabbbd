"""Where the tokens of a ragged batch lie: flat, one sequence after another, and in the order a recurrent layer wants.

Encoders work on flat features ``(N, H)``: no padding is stored, multiplied or masked. A recurrent layer alone needs
the first tokens of all sequences together, then the second ones; that order and the way back are kept here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trellis.ragged import check_lengths


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """The places of N tokens of B sequences."""

    lengths: npt.NDArray[np.int64]
    """int64[B]"""
    sequence: Tensor
    """int64[N]: the sequence each token belongs to"""
    order: Tensor
    """int64[N]: tokens by position, longest sequences first"""
    inverse: Tensor
    """int64[N]: the way back"""
    batch_sizes: Tensor
    """int64[T], on the CPU: how many sequences have a token at each position"""
    places: Tensor
    """int64[N]: the row of each token in padded features ``(T * B, H)``, time first"""
    reversed_places: Tensor
    """int64[N]: the same with each sequence back to front, from its own last token on"""

    @classmethod
    def of(cls, lengths: npt.ArrayLike) -> Packing:
        """The places of sequences of these lengths."""
        checked = check_lengths(lengths)
        count, longest = int(checked.sum()), int(checked.max(initial=0))
        sequence = np.repeat(np.arange(len(checked)), checked)
        position = np.arange(count) - np.repeat(np.cumsum(checked) - checked, checked)
        rank = np.empty(len(checked), dtype=np.int64)
        rank[np.argsort(-checked, kind="stable")] = np.arange(len(checked))
        order = np.argsort(position * len(checked) + rank[sequence])
        inverse = np.empty(count, dtype=np.int64)
        inverse[order] = np.arange(count)
        sizes = torch.from_numpy(np.bincount(position, minlength=longest))
        places = position * len(checked) + sequence
        reversed_places = (checked[sequence] - 1 - position) * len(checked) + sequence
        tensors = [torch.from_numpy(array) for array in (sequence, order, inverse, places, reversed_places)]
        return cls(checked, tensors[0], tensors[1], tensors[2], sizes, tensors[3], tensors[4])

    @property
    def padded(self) -> int:
        """How many rows the padded features have: B times the longest length."""
        return len(self.lengths) * len(self.batch_sizes)

    def to(self, device: torch.device) -> Packing:
        """The same on another device."""
        if device.type == "cpu":
            return self
        return replace(
            self,
            sequence=self.sequence.to(device),
            order=self.order.to(device),
            inverse=self.inverse.to(device),
            places=self.places.to(device),
            reversed_places=self.reversed_places.to(device),
        )
