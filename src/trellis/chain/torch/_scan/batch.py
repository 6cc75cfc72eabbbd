"""The scores of a batch, padded to time-major."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor


class Chain(NamedTuple):
    """The scores of a ragged batch, flat."""

    emissions: Tensor  # [N, L]
    lengths: Tensor  # [B], on the CPU
    transitions: Tensor  # [L, L] from, to
    start: Tensor  # [L]
    end: Tensor  # [L]
    edges: Tensor | None = None  # [P, L, L] what the place adds to the transitions


@dataclass(frozen=True)
class Layout:
    """Where flat rows sit in a time-major padded grid."""

    lengths: Tensor  # [B]
    active: Tensor  # [T, B] bool
    index: Tensor  # [T, B] flat row of each cell; N for padding
    time: Tensor  # [N] position of each flat row
    sequence: Tensor  # [N] sequence of each flat row

    @property
    def later(self) -> tuple[Tensor, Tensor]:
        """Position and sequence of the later token of each pair of neighbours, [P] each."""
        return self.time[self.time > 0], self.sequence[self.time > 0]

    def pad(self, flat: Tensor) -> Tensor:
        """[N, ...] -> [T, B, ...], zero where padded."""
        return torch.cat([flat, flat.new_zeros(1, *flat.shape[1:])])[self.index]

    def flatten(self, padded: Tensor) -> Tensor:
        """[T, B, ...] -> [N, ...]."""
        return padded[self.time, self.sequence]

    def last(self, padded: Tensor) -> Tensor:
        """[T, B, ...] -> [B, ...], the value at the last position; that of the padding if a sequence is empty."""
        return padded[(self.lengths - 1).clamp(min=0), torch.arange(padded.shape[1], device=padded.device)]


@dataclass(frozen=True)
class Batch:
    """Padded chain scores of one floating type."""

    layout: Layout
    emissions: Tensor  # [T, B, L]
    transitions: Tensor  # [L, L] from, to
    start: Tensor  # [L]
    end: Tensor  # [L]
    edges: Tensor | None  # [T, B, L, L]; those of padding and of first positions are zero
    dead: Tensor | None = None  # [T, B, L] states on no complete path, whose emissions are minus infinity, if any

    @property
    def shape(self) -> tuple[int, int, int]:
        T, B, L = self.emissions.shape
        return T, B, L

    def steps(self, t: int | slice | Tensor, b: Tensor | slice = slice(None)) -> Tensor:
        """Scores of transitions into positions t of sequences b, [..., L, L]; [L, L] if all are the same."""
        return self.transitions if self.edges is None else self.transitions + self.edges[t, b]

    def steps_from(self, previous: Tensor, t: int | slice | Tensor, b: Tensor | slice = slice(None)) -> Tensor:
        """The same from the given previous labels [...], [..., L]."""
        if self.edges is None:
            return self.transitions[previous]
        L = self.emissions.shape[-1]
        matrices = self.steps(t, b).expand(*previous.shape, L, L)
        rows = previous[..., None, None].expand(*previous.shape, 1, L)
        return matrices.gather(-2, rows).squeeze(-2)


def prepare(chain: Chain) -> Batch:
    """Padded scores in the widest type among them, at least float32, without states on no complete path."""
    batch = pad(chain)
    if any(bool((x == -math.inf).any()) for x in chain if x is not None and x is not chain.lengths):
        dead = ~_on_complete_paths(batch)
        batch = replace(batch, emissions=batch.emissions.masked_fill(dead, -math.inf), dead=dead)
    return batch


def pad(chain: Chain) -> Batch:
    """Padded scores in the widest type among them, at least float32."""
    scores = [x for x in chain if x is not None and x is not chain.lengths]
    dtype = scores[0].dtype
    for other in scores:
        dtype = torch.promote_types(dtype, other.dtype)
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    layout = make_layout(chain.lengths, chain.emissions.device)
    emissions = layout.pad(chain.emissions.to(dtype))
    edges = None if chain.edges is None else _pad_edges(layout, chain.edges.to(dtype))
    return Batch(layout, emissions, chain.transitions.to(dtype), chain.start.to(dtype), chain.end.to(dtype), edges)


@torch.no_grad()
def _on_complete_paths(batch: Batch) -> Tensor:
    """Which states lie on a path from start to end that nothing forbids, bool [T, B, L]; all of the padding.

    The recursions shift their rows by the largest score, so the others must not take part: a label of score 1e8 from
    which the end cannot be reached would round away what is left of the rest.
    """
    active, possible = batch.layout.active.unsqueeze(-1), batch.emissions != -math.inf
    T, B, L = batch.shape
    forward = [(batch.start != -math.inf) & possible[0]]
    for t in range(1, T):
        # forward[t, j] = any_i (forward[t-1, i] and a step from i to j) and an emission of j
        reached = (forward[-1].unsqueeze(-1) & (batch.steps(t) != -math.inf)).any(1) & possible[t]
        forward.append(torch.where(active[t], reached, forward[-1]))
    ends = (batch.end != -math.inf).expand(B, L)
    backward = [ends]
    for t in range(T - 1, 0, -1):
        # backward[t-1, i] = any_j (a step from i to j, an emission of j and backward[t, j])
        leads = ((batch.steps(t) != -math.inf) & (possible[t] & backward[-1]).unsqueeze(1)).any(-1)
        backward.append(torch.where(active[t], leads, ends))
    return torch.stack(forward) & torch.stack(backward[::-1]) | ~active


def _pad_edges(layout: Layout, edges: Tensor) -> Tensor:
    t, b = layout.later
    return edges.new_zeros(*layout.active.shape, *edges.shape[1:]).index_put((t, b), edges)


def make_layout(lengths: Tensor, device: torch.device) -> Layout:
    """Lay out sequences of the given lengths (a CPU tensor).

    T is at least 2: then no recursion has a special case, and every score is part of every graph.
    """
    T = max(2, int(lengths.max())) if len(lengths) else 2
    time = torch.arange(T).unsqueeze(-1)
    active = time < lengths
    index = torch.where(active, lengths.cumsum(0) - lengths + time, lengths.sum())
    sequence, position = active.T.nonzero(as_tuple=True)
    return Layout(*(part.to(device) for part in (lengths, active, index, position, sequence)))
