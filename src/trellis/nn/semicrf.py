"""The semi-Markov CRF as a layer: scores of tokens in, loss, segments and probabilities out.

A segment's score is made of what its tokens say, of its ends, and of its length::

    s[begin..end, l] = sum_t inner[t, l] + first[begin, l] + last[end, l] + length[l]
                       + sum_r together[l, r] * left[begin, r] * right[end, r]

A segment of one token may have a score of its own. Transitions are between the labels of neighbouring segments.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trellis.arrays import FloatArray, IntArray
from trellis.chain import SegmentMarginals
from trellis.chain.torch import SegmentScores
from trellis.errors import ConfigError, ShapeError
from trellis.nn.crf import check_padded, check_reduction, token_mask

Segments = list[list[tuple[int, int, int]]]


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """Scores of tokens, of which those of segments are made; flat ``(N, L)``, or padded like the layer's input."""

    inner: Tensor
    """Score of every token of a segment."""
    first: Tensor | None = None
    """Added for the first token."""
    last: Tensor | None = None
    """Added for the last token."""
    single: Tensor | None = None
    """Score of a segment of one token, instead of the others."""
    left: Tensor | None = None
    """``(N, R)``, of the first token: multiplied by `right` of the last one."""
    right: Tensor | None = None


class SemiCRF(nn.Module):
    """Conditional random field over the ways to cut a sequence into labelled segments.

    Tensors are ``(T, B, ...)``, or ``(B, T, ...)`` with ``batch_first``, with a mask or lengths as in `trellis.nn.CRF`.
    Flat tensors ``(N, ...)`` with lengths go to `segments`.

    Args:
        num_labels: L.
        longest: K, the tokens of the longest segments.
        batch_first: whether the batch comes before time.
        allowed: booleans ``(K, L)``: which labels may have segments of 1, 2, ... tokens; all by default.
        rank: R, of the scores that the first and the last token of a segment make together.

    Attributes:
        start_transitions: ``(L,)`` score of a sequence whose first segment has a label.
        end_transitions: ``(L,)`` score of one whose last segment has it.
        transitions: ``(L, L)`` score of a transition from row to column.
        length: ``(K, L)`` score of a length.

    """

    _forbidden: Tensor | None

    def __init__(
        self, num_labels: int, longest: int, batch_first: bool = False, *, allowed: Tensor | None = None, rank: int = 0
    ) -> None:
        if num_labels < 1 or longest < 1 or rank < 0:
            raise ConfigError(
                f"num_labels and longest must be at least 1 and rank at least 0, got {num_labels}, {longest}, {rank}"
            )
        super().__init__()
        self.num_labels, self.longest, self.batch_first, self.rank = num_labels, longest, batch_first, rank
        self.start_transitions = nn.Parameter(torch.empty(num_labels))
        self.end_transitions = nn.Parameter(torch.empty(num_labels))
        self.transitions = nn.Parameter(torch.empty(num_labels, num_labels))
        self.length = nn.Parameter(torch.zeros(longest, num_labels))
        self.together = nn.Parameter(torch.empty(num_labels, rank)) if rank else None
        if allowed is not None and (allowed.shape != self.length.shape or allowed.dtype != torch.bool):
            raise ShapeError(
                f"allowed must be bool (K, L) = {tuple(self.length.shape)}, got {allowed.dtype} {tuple(allowed.shape)}"
            )
        self.register_buffer("_forbidden", None if allowed is None else ~allowed, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw transitions uniformly from -0.1 .. 0.1; every length starts at 0."""
        for parameter in (self.start_transitions, self.end_transitions, self.transitions):
            nn.init.uniform_(parameter, -0.1, 0.1)
        nn.init.zeros_(self.length)
        if self.together is not None:
            nn.init.uniform_(self.together, -0.1, 0.1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_labels={self.num_labels}, longest={self.longest})"

    def segments(self, tokens: Tensor | TokenScores, lengths: Tensor | IntArray | list[int]) -> SegmentScores:
        """The distribution over segments, from flat scores of tokens ``(N, L)`` and ``lengths[B]``."""
        tokens = tokens if isinstance(tokens, TokenScores) else TokenScores(tokens)
        shape = tuple(tokens.inner.shape)
        if len(shape) != 2 or shape[1] != self.num_labels:
            raise ShapeError(f"scores of tokens must be (N, L) = (N, {self.num_labels}), got {shape}")
        self._check(tokens)
        chain = (self.transitions, self.start_transitions, self.end_transitions)
        return SegmentScores(self._segment_scores(tokens), lengths, *chain)

    def scores(
        self, tokens: Tensor | TokenScores, mask: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> SegmentScores:
        """The distribution over segments, from a padded batch ``(T, B, L)``, or ``(B, T, L)`` with ``batch_first``."""
        tokens = tokens if isinstance(tokens, TokenScores) else TokenScores(tokens)
        padded, first = tokens.inner, self.batch_first
        check_padded(padded, None, mask, self.num_labels)
        self._check(tokens)
        mask = token_mask(padded, mask, lengths, batch_first=first)
        there = torch.ones(padded.shape[:2], dtype=torch.bool) if mask is None else mask.bool().cpu()
        rows = torch.arange(there.numel()).view_as(there)
        by_sequence, rows = (there, rows) if first else (there.T, rows.T)
        present = rows[by_sequence].to(padded.device)
        names = ("inner", "first", "last", "single", "left", "right")
        given = {name: value for name in names if (value := getattr(tokens, name)) is not None}
        flat = TokenScores(**{name: value.flatten(0, 1)[present] for name, value in given.items()})
        return self.segments(flat, by_sequence.sum(1).numpy())

    def nll(
        self,
        tokens: Tensor | TokenScores,
        paths: Segments,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        reduction: str = "sum",
    ) -> Tensor:
        """Negative log-likelihood of the segments ``(begin, end, label)`` of each sequence, never negative: the loss.

        Positions count the tokens of a sequence, not its padding. The reduction is "none" (a value per sequence),
        "sum", "mean" (over sequences) or "token_mean" (over tokens).
        """
        check_reduction(reduction)
        scores = self.scores(tokens, mask, lengths=lengths)
        losses = scores.nll(paths)
        if reduction == "none":
            return losses
        count = {"sum": 1, "mean": len(scores.lengths), "token_mean": int(scores.lengths.sum())}[reduction]
        return losses.sum() / max(count, 1)

    def forward(self, tokens: Tensor | TokenScores, paths: Segments, mask: Tensor | None = None) -> Tensor:
        """Log-likelihood of the segments: ``-nll(...)``."""
        return -self.nll(tokens, paths, mask)

    def decode(
        self, tokens: Tensor | TokenScores, mask: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> Segments:
        """The best segments ``(begin, end, label)`` of each sequence."""
        with torch.no_grad():
            paths = self.scores(tokens, mask, lengths=lengths).viterbi().paths
        return [[(begin, end, label) for begin, end, label in path.tolist()] for path in paths]

    def marginals(
        self, tokens: Tensor | TokenScores, mask: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> SegmentMarginals[FloatArray]:
        """Probabilities of segments ``(N, K, L)``, flat over the tokens of the batch, as arrays."""
        with torch.no_grad():
            return self.scores(tokens, mask, lengths=lengths).numpy().marginals()

    def _check(self, tokens: TokenScores) -> None:
        """Refuse scores of ends that do not match those of the tokens."""
        for name in ("first", "last", "single", "left", "right"):
            value, together = getattr(tokens, name), name in ("left", "right")
            expected = (*tokens.inner.shape[:-1], self.rank if together else self.num_labels)
            if together and (value is None) == (self.rank > 0):
                raise ShapeError(f"left and right are given if and only if rank > 0: it is {self.rank}")
            if value is not None and value.shape != expected:
                raise ShapeError(f"{name} must be {expected} to match the scores of tokens, got {tuple(value.shape)}")

    def _segment_scores(self, tokens: TokenScores) -> Tensor:
        """(N, K, L) in float64: sums over many tokens."""
        inner = tokens.inner.double()
        last = torch.arange(len(inner), device=inner.device)
        sums, by_length = inner, []
        for k in range(self.longest):  # segments of k + 1 tokens; those without room are never asked for
            # sums[n] = inner[n-k] + ... + inner[n]; differences of running sums would lose infinite and large scores
            begin = (last - k).clamp_min(0)
            sums = sums if k == 0 else sums + inner[begin]
            scores = sums
            if k == 0 and tokens.single is not None:
                scores = tokens.single.double()
            else:
                if tokens.first is not None:
                    scores = scores + tokens.first.double()[begin]
                if tokens.last is not None:
                    scores = scores + tokens.last.double()
            if self.together is not None and tokens.left is not None and tokens.right is not None:
                ends = tokens.left[begin] * tokens.right
                scores = scores + (ends @ self.together.T.to(ends.dtype)).double()
            by_length.append(scores)
        scores = torch.stack(by_length, 1) + self.length.double()
        return scores if self._forbidden is None else scores.masked_fill(self._forbidden, -torch.inf)
