"""The answers of `trellis.chain.torch.ChainScores` that are more than one tensor."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The best label sequences: ``tags`` in the layout of the emissions, and ``scores[B]``."""

    tags: Tensor
    scores: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """The k best label sequences of each sequence b: ``tags[b]`` is (k_b, T_b), ``scores[b]`` (k_b,), descending."""

    tags: list[Tensor]
    scores: list[Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """The result of forward-backward; see ``trellis.chain.Marginals``. ``tokens`` has the layout of the emissions."""

    log_partition: Tensor
    tokens: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    pairwise: Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SegmentMarginals:
    """The result of forward-backward over segments; see ``trellis.chain.SegmentMarginals``."""

    log_partition: Tensor
    segments: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
