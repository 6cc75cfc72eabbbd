"""The answers of `trellis.chain.ChainScores` that are more than one array."""

from __future__ import annotations

from dataclasses import dataclass

from trellis.arrays import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The best label sequences: ``tags[N]``, flat like the emissions, and ``scores[B]``."""

    tags: IntArray
    scores: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """The k best label sequences of each sequence b: ``tags[b]`` is (k_b, T_b), ``scores[b]`` (k_b,), descending."""

    tags: list[IntArray]
    scores: list[FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """The result of forward-backward.

    Attributes:
        log_partition: ``(B,)`` log Z.
        tokens: ``(N, L)`` probability of each label at each token.
        transitions: ``(L, L)`` expected number of transitions, over the whole batch.
        start: ``(L,)`` expected number of sequences that start with a label.
        end: ``(L,)`` expected number of sequences that end with a label.
        pairwise: ``(P, L, L)`` probability of each pair of labels at each pair of neighbouring tokens, in order
            (P is the sum of T - 1 over the sequences that are not empty); None unless asked for.

    """

    log_partition: FloatArray
    tokens: AnyArray
    transitions: AnyArray
    start: AnyArray
    end: AnyArray
    pairwise: AnyArray | None = None
