"""``SegmentScores`` of tensors: native kernels on the CPU, with gradients, and the same in torch elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trellis.arrays import IntArray
from trellis.chain import segments as arrays
from trellis.chain.segments import (
    Paths,
    Segmented,
    SegmentMarginals,
    SegmentPaths,
    check_paths,
    raise_forbidden,
    scores_used,
)
from trellis.chain.torch.autograd import graph_gradient, layout_lengths, layout_of_mask, to_numpy, token_rows
from trellis.chain.torch.scan import logsumexp
from trellis.errors import ShapeError
from trellis.ragged import check_lengths, offsets_of

Scores = tuple[Tensor, Tensor, Tensor, Tensor]
"""Segments, transitions, start, end."""


class SegmentScores:
    """The scores of a ragged batch as tensors, with the questions of ``trellis.chain.SegmentScores``.

    Gradients of `log_partition`, `score` and `nll` come from the native kernels in float64, whatever the dtype of the
    scores; gradients of gradients, gradients of `marginals`, and devices other than the CPU are computed by torch. What
    has no gradient (`viterbi`, `kbest`, `sample`, `entropy`) is answered in NumPy arrays.

    Args:
        segments: ``(N, K, L)``: of the segment that ends with token n, has k + 1 tokens and label l. Those that would
            begin before their sequence are ignored. Half and bfloat16 are computed in float32 and more.
        lengths: ``(B,)``, adding up to N.
        transitions: ``(L, L)``, between the labels of neighbouring segments, from row to column.
        start: ``(L,)``, zeros by default.
        end: ``(L,)``, zeros by default.

    """

    __slots__ = ("end", "lengths", "segments", "start", "transitions")

    def __init__(
        self,
        segments: Tensor,
        lengths: Tensor | Sequence[int] | npt.NDArray[Any],
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
    ) -> None:
        if segments.dim() != 3 or min(segments.shape[1:]) < 1:
            raise ShapeError(f"segments must be (N, K, L) with K >= 1 and L >= 1, got {tuple(segments.shape)}")
        L = segments.shape[2]
        kind = torch.float64 if segments.dtype == torch.float64 else torch.float32
        self.segments = segments.to(kind)
        self.lengths: IntArray = check_lengths(to_numpy(lengths), len(segments)).copy()
        self.transitions = self._matching("transitions", transitions, (L, L))
        self.start = self.segments.new_zeros(L) if start is None else self._matching("start", start, (L,))
        self.end = self.segments.new_zeros(L) if end is None else self._matching("end", end, (L,))

    @classmethod
    def padded(
        cls,
        segments: Tensor,
        mask: Tensor | None,
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        *,
        batch_first: bool = True,
    ) -> SegmentScores:
        """The scores of a padded batch ``(B, T, K, L)``, or ``(T, B, K, L)`` with ``batch_first=False``.

        The tokens of a sequence are the true places of its row of ``mask`` (B, T), in order, wherever they are.
        Segments are counted in tokens: places without one in between do not count. Without a mask all are tokens.
        """
        if segments.dim() != 4:
            raise ShapeError(f"segments must be (B, T, K, L), got {tuple(segments.shape)}")
        if mask is not None and mask.shape != segments.shape[:2]:
            raise ShapeError(
                f"mask must be {tuple(segments.shape[:2])} to match segments {tuple(segments.shape)}, "
                f"got {tuple(mask.shape)}"
            )
        layout = layout_of_mask(segments.shape[:3], mask, None, -100, batch_first)
        rows = token_rows(layout).to(segments.device)
        return cls(segments.flatten(0, 1)[rows], layout_lengths(layout), transitions, start, end)

    def _matching(self, name: str, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        if x.shape != shape:
            raise ShapeError(
                f"{name} must be {shape} to match segments (N, K, L) = {tuple(self.segments.shape)}, "
                f"got {tuple(x.shape)}"
            )
        if x.device != self.segments.device:
            raise ShapeError(f"{name} must be on {self.segments.device} to match segments, got {x.device}")
        return x.to(self.segments.dtype)

    @property
    def num_labels(self) -> int:
        """L, the number of labels."""
        return int(self.segments.shape[2])

    @property
    def longest(self) -> int:
        """K: the tokens of the longest segments."""
        return int(self.segments.shape[1])

    @property
    def tensors(self) -> Scores:
        """Segments, transitions, start, end."""
        return self.segments, self.transitions, self.start, self.end

    def restricted(self, allowed: Tensor) -> SegmentScores:
        """The scores with every segment outside ``allowed[N, K, L]`` forbidden."""
        if allowed.shape != self.segments.shape or allowed.dtype != torch.bool:
            raise ShapeError(
                f"allowed must be bool (N, K, L) = {tuple(self.segments.shape)} to match segments, "
                f"got {allowed.dtype} {tuple(allowed.shape)}"
            )
        segments = self.segments.masked_fill(~allowed, -torch.inf)
        return SegmentScores(segments, self.lengths, self.transitions, self.start, self.end)

    def numpy(self) -> arrays.SegmentScores:
        """The scores as arrays in float64, without gradients."""
        return as_arrays(self.lengths, *self.tensors)

    def requires_grad(self) -> bool:
        """Whether an answer computed from these scores becomes part of a graph."""
        return torch.is_grad_enabled() and any(x.requires_grad for x in self.tensors)

    def log_partition(self) -> Tensor:
        """Log Z of each sequence, (B,). Its gradient is the marginals."""
        if not self.segments.is_cpu:
            self.numpy().log_partition()  # says what is wrong with the scores
            return scan_log_partition(self.lengths, *self.tensors)
        value: Tensor = SegmentLogPartition.apply(self.requires_grad(), self.lengths, *self.tensors)  # type: ignore[no-untyped-call]
        return value

    def score(self, paths: Paths) -> Tensor:
        """Score of the given segments of each sequence, (B,); minus infinity if they are forbidden.

        ``paths[b]`` is (S_b, 3): where each segment begins, where it ends (one behind), and its label.
        """
        counts, flat = check_paths(paths, self.lengths, self.longest, self.num_labels)
        device, total = self.segments.device, self.segments.new_zeros(len(counts))
        for name, (indices, owner) in scores_used(counts, flat, self.lengths).items():
            values = getattr(self, name)[tuple(torch.from_numpy(index).to(device) for index in indices)]
            total = total.index_add(0, torch.from_numpy(owner).to(device), values)
        return total

    def nll(self, paths: Paths) -> Tensor:
        """Negative log-likelihood of the given segments of each sequence, (B,), never negative: the loss."""
        scores = self.score(paths)
        raise_forbidden(to_numpy(scores))
        return (self.log_partition() - scores).clamp_min(0)

    def marginals(self) -> SegmentMarginals[Tensor]:
        """Probabilities of segments by forward-backward, and expected counts of transitions."""
        if self.requires_grad() or not self.segments.is_cpu:
            with torch.enable_grad():  # the gradient of log Z as a graph
                inputs = [x if x.requires_grad else x.detach().requires_grad_() for x in self.tensors]
                value = scan_log_partition(self.lengths, *inputs)
                grads = torch.autograd.grad(value.sum(), inputs, create_graph=True, materialize_grads=True)
            return SegmentMarginals(value, *grads)
        answer, kind = self.numpy().marginals(), self.segments.dtype
        values = (answer.log_partition, answer.segments, answer.transitions, answer.start, answer.end)
        return SegmentMarginals(*(torch.from_numpy(x).to(kind) for x in values))

    def viterbi(self) -> Segmented:
        """The best segments of each sequence; among equals, from the end, the shortest and of the smallest label."""
        return self.numpy().viterbi()

    def kbest(self, k: int) -> SegmentPaths:
        """The k best coverings of each sequence with their scores, best first; fewer if fewer exist."""
        return self.numpy().kbest(k)

    def sample(self, n: int = 1, *, seed: int = 0) -> SegmentPaths:
        """``n`` coverings of each sequence, drawn from their exact distribution; the same seed draws the same."""
        return self.numpy().sample(n, seed=seed)

    def entropy(self) -> Tensor:
        """Entropy of each sequence's distribution in nats, (B,), without a gradient."""
        return torch.from_numpy(self.numpy().entropy()).to(self.segments)


class SegmentLogPartition(torch.autograd.Function):
    """``log Z`` by the native kernels, and its gradient, the marginals, computed together with it.

    They are those of the sum over the batch: a loss that weights its sequences differently computes them again. The
    caller says whether to keep what a backward pass needs: a context does not know about `torch.no_grad`.
    """

    @staticmethod
    def forward(ctx: Any, keep: bool, lengths: IntArray, *scores: Tensor) -> Tensor:
        native = as_arrays(lengths, *scores)
        if not keep:
            return torch.from_numpy(native.log_partition()).to(scores[0].dtype)
        marginals = native.marginals()
        ctx.save_for_backward(*scores)
        ctx.lengths, ctx.marginals = lengths, marginals
        return torch.from_numpy(marginals.log_partition).to(scores[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (None, None, *graph_gradient(scan_log_partition(ctx.lengths, *scores), scores, grad))
        weights, marginals, factor = to_numpy(grad).astype(np.float64), ctx.marginals, 1.0
        if len(weights) and (weights == weights[0]).all():
            factor = float(weights[0])
        else:
            marginals = as_arrays(ctx.lengths, *scores).weighted_marginals(weights)
        parts = (marginals.segments, marginals.transitions, marginals.start, marginals.end)
        return (None, None, *(torch.from_numpy(p * factor).to(x) for p, x in zip(parts, scores, strict=True)))


def as_arrays(lengths: IntArray, *scores: Tensor) -> arrays.SegmentScores:
    """The scores in float64, which share memory with the tensors if they can."""
    segments, *others = (to_numpy(x.to(torch.float64)) for x in scores)
    return arrays.SegmentScores(segments, lengths, *others)


def scan_log_partition(lengths: IntArray, segments: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Log Z of each sequence in plain torch, (B,): position by position, for graphs of gradients and other devices."""
    B, T, L = len(lengths), int(lengths.max(initial=0)), segments.shape[2]
    if T == 0:
        return segments.new_zeros(B) + segments.sum()  # of nothing, but a part of the graph
    # Padded to (B, T, K, L), minus infinity behind the end of each sequence.
    first, positions = torch.from_numpy(offsets_of(lengths)[:-1].copy()), torch.arange(T)
    sizes = torch.from_numpy(lengths)
    rows = first[:, None] + torch.minimum(positions, (sizes - 1).clamp_min(0)[:, None])
    rows, inside = (
        rows.clamp_max(len(segments) - 1).to(segments.device),
        (positions < sizes[:, None]).to(segments.device),
    )
    padded = torch.where(inside[:, :, None, None], segments[rows], -torch.inf)
    sizes = sizes.to(segments.device)
    into, alphas = [start.expand(B, L)], list[Tensor]()
    for t in range(T):
        # alpha[t, l] = lse_k(into[t-k, l] + s[t, k, l]);  into[t+1, l] = lse_i(alpha[t, i] + A[i, l])
        longest = min(segments.shape[1], t + 1)
        begins = torch.stack([into[t - k] for k in range(longest)], dim=1)
        alphas.append(logsumexp(begins + padded[:, t, :longest], 1))
        into.append(logsumexp(alphas[t][:, :, None] + transitions, 1))
    last = torch.stack(alphas)[(sizes - 1).clamp_min(0), torch.arange(B, device=segments.device)]
    return torch.where(sizes > 0, logsumexp(last + end, 1), 0.0)
