"""Dropout that fits sequences: one mask for a whole sequence, whole tokens, whole words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
        """``(..., H)`` to the same."""
        if not self.active:
            return x
        return x * x.new_empty(*x.shape[:-1], 1).bernoulli_(1.0 - self.p)


class WordDropout(_Dropout):
    """Replaces ids of words by that of the unknown word, so that its vector is trained; padding stays padding."""

    def forward(self, ids: Tensor) -> Tensor:
        """``(B, T)`` to ``(B, T)``."""
        if not self.active:
            return ids
        dropped = torch.rand(ids.shape, device=ids.device) < self.p
        return ids.masked_fill(dropped & (ids != PADDING), UNKNOWN)
