"""Log Z over segments in plain torch, position by position for the whole batch: for graphs of gradients and GPUs."""

from __future__ import annotations

import torch
from torch import Tensor

from trellis.arrays import IntArray
from trellis.ragged import offsets_of


def log_partition(lengths: IntArray, segments: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Log Z of each sequence, (B,)."""
    sizes = torch.from_numpy(lengths).to(segments.device)
    B, T, L = len(lengths), int(lengths.max(initial=0)), segments.shape[2]
    if T == 0:
        return segments.new_zeros(B) + segments.sum()  # of nothing, but a part of the graph
    padded = _padded(lengths, segments, T)
    into, alphas = [start.expand(B, L)], list[Tensor]()
    for t in range(T):
        # alpha[t, l] = lse_k(into[t-k, l] + s[t, k, l]);  into[t+1, l] = lse_i(alpha[t, i] + A[i, l])
        longest = min(segments.shape[1], t + 1)
        begins = torch.stack([into[t - k] for k in range(longest)], dim=1)
        alphas.append(log_sum_exp(begins + padded[:, t, :longest], 1))
        into.append(log_sum_exp(alphas[t][:, :, None] + transitions, 1))
    last = torch.stack(alphas)[(sizes - 1).clamp_min(0), torch.arange(B, device=segments.device)]
    return torch.where(sizes > 0, log_sum_exp(last + end, 1), 0.0)


def _padded(lengths: IntArray, segments: Tensor, T: int) -> Tensor:
    """(B, T, K, L), minus infinity behind the end of each sequence."""
    first, size = torch.from_numpy(offsets_of(lengths)[:-1].copy()), torch.from_numpy(lengths)
    places = torch.arange(T)
    inside = (places < size[:, None]).to(segments.device)
    rows = (first[:, None] + torch.minimum(places, (size - 1).clamp_min(0)[:, None])).clamp_max(len(segments) - 1)
    return torch.where(inside[:, :, None, None], segments[rows.to(segments.device)], -torch.inf)


def log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """Whose gradient is zero, not NaN, where all terms are minus infinity."""
    top = x.detach().amax(dim, keepdim=True)
    top = torch.where(top > -torch.inf, top, 0.0)
    total = (x - top).exp().sum(dim)
    some = total > 0
    return torch.where(some, torch.where(some, total, 1.0).log() + top.squeeze(dim), -torch.inf)
