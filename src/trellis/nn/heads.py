"""Heads: emissions to a loss, and to the scores of a chain that every answer is computed from.

All give ordinary chain scores, so decoding, probabilities and k-best are the same code for all:

    CRF       learned transitions, forbidden ones minus infinity
    semi-CRF  scores of segments, and the chain that has their distribution (`trellis.nn.segment_head`)
    softmax   no transitions: zeros, or minus infinity for those that are not legal
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn

from trellis.arrays import FloatArray, IntArray
from trellis.chain import ChainScores
from trellis.chain import torch as scoring
from trellis.nn.crf import CRF
from trellis.ragged import check_lengths

Legal = tuple[Tensor, Tensor, Tensor]
"""Booleans: transitions (L, L), start (L,), end (L,)."""


class Head(nn.Module, ABC):
    """What all heads share; a softmax has no transitions, so it ignores `edges`, their scores by place."""

    num_tags: int

    @property
    def num_scores(self) -> int:
        """What the layer before this one gives for each token: an emission per label."""
        return self.num_tags

    @property
    def histories(self) -> IntArray | None:
        """The label that each state of the chain stands for; None if these are the labels."""
        return None

    def answers(self, emissions: FloatArray, lengths: IntArray, edges: FloatArray | None) -> ChainScores:
        """The chain that every answer is computed from, given what tokens got ``(N, num_scores)``."""
        transitions, start, end = (x.detach().cpu().numpy() for x in self.chain())
        return ChainScores(emissions, lengths, transitions, start, end, edges)

    @abstractmethod
    def chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions, start and end scores of the chain."""

    @abstractmethod
    def losses(self, emissions: Tensor, lengths: IntArray, tags: Tensor, *, edges: Tensor | None = None) -> Tensor:
        """Negative log-likelihood of each sequence's tags, (B,)."""

    @abstractmethod
    def partial_losses(
        self, emissions: Tensor, lengths: IntArray, allowed: Tensor, *, edges: Tensor | None = None
    ) -> Tensor:
        """Minus the log probability that every token has one of its allowed labels ``(N, L)``, (B,)."""

    @abstractmethod
    def weighted_losses(
        self, emissions: Tensor, lengths: IntArray, tags: Tensor, weights: Tensor, *, edges: Tensor | None = None
    ) -> Tensor:
        """Losses in which each token counts by its weight ``(N,)``, (B,)."""


class CRFHead(Head):
    """A linear-chain CRF over flat emissions ``(N, L)``."""

    def __init__(self, num_tags: int, legal: Legal | None = None) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.crf = CRF(num_tags, constraints=legal)

    def chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """The learned scores with the constraints in them."""
        return self.crf.chain_parameters()

    def losses(self, emissions: Tensor, lengths: IntArray, tags: Tensor, *, edges: Tensor | None = None) -> Tensor:
        """See `Head`."""
        return scoring.nll(self._scores(emissions, lengths, edges), tags)

    def partial_losses(
        self, emissions: Tensor, lengths: IntArray, allowed: Tensor, *, edges: Tensor | None = None
    ) -> Tensor:
        """See `Head`."""
        scores = self._scores(emissions, lengths, edges)
        return (scoring.log_partition(scores) - scoring.log_partition(scores, allowed=allowed)).clamp_min(0)

    def weighted_losses(
        self, emissions: Tensor, lengths: IntArray, tags: Tensor, weights: Tensor, *, edges: Tensor | None = None
    ) -> Tensor:
        """See `Head`."""
        return scoring.weighted_nll(self._scores(emissions, lengths, edges), tags, weights)

    def _scores(self, emissions: Tensor, lengths: IntArray, edges: Tensor | None) -> scoring.ChainScores:
        return scoring.ChainScores(emissions, lengths, *self.chain(), edges)


class SoftmaxHead(Head):
    """Each token by itself; `legal` is the 0/1 table of allowed transitions, None for plain argmax."""

    _transitions: Tensor
    _start: Tensor
    _end: Tensor

    def __init__(self, num_tags: int, legal: Legal | None = None) -> None:
        super().__init__()
        self.num_tags = num_tags
        shapes = ((num_tags, num_tags), (num_tags,), (num_tags,))
        for name, shape, table in zip(("_transitions", "_start", "_end"), shapes, legal or (None,) * 3, strict=True):
            scores = torch.zeros(shape) if table is None else torch.where(table, 0.0, -torch.inf)
            self.register_buffer(name, scores, persistent=False)

    def chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Zero where legal, minus infinity elsewhere."""
        return self._transitions, self._start, self._end

    def losses(self, emissions: Tensor, lengths: IntArray, tags: Tensor, *, edges: Tensor | None = None) -> Tensor:
        """See `Head`."""
        return _by_sequence(nn.functional.cross_entropy(emissions, tags, reduction="none"), lengths)

    def partial_losses(
        self, emissions: Tensor, lengths: IntArray, allowed: Tensor, *, edges: Tensor | None = None
    ) -> Tensor:
        """See `Head`."""
        within = emissions.masked_fill(~allowed, -torch.inf).logsumexp(1)
        return _by_sequence(emissions.logsumexp(1) - within, lengths)

    def weighted_losses(
        self, emissions: Tensor, lengths: IntArray, tags: Tensor, weights: Tensor, *, edges: Tensor | None = None
    ) -> Tensor:
        """See `Head`."""
        losses = nn.functional.cross_entropy(emissions, tags, reduction="none")
        return _by_sequence(losses * weights.to(losses.dtype), lengths)


def _by_sequence(values: Tensor, lengths: IntArray) -> Tensor:
    """Sums of the values ``(N,)`` over each sequence."""
    checked = check_lengths(lengths, len(values))
    sequence = torch.from_numpy(np.repeat(np.arange(len(checked)), checked)).to(values.device)
    return values.new_zeros(len(lengths)).index_add(0, sequence, values)
