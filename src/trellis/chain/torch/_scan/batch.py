"""The scores of a batch, padded to time-major."""

from __future__ import annotations

from dataclasses import dataclass
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
        """[T, B] -> [B], the value at the last position; that of the padding if a sequence is empty."""
        return padded.gather(0, (self.lengths - 1).clamp(min=0).unsqueeze(0)).squeeze(0)


@dataclass(frozen=True)
class Batch:
    """Padded chain scores of one floating type."""

    layout: Layout
    emissions: Tensor  # [T, B, L]
    transitions: Tensor  # [L, L] from, to
    start: Tensor  # [L]
    end: Tensor  # [L]
    edges: Tensor | None  # [T, B, L, L]; those of padding and of first positions are zero

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
