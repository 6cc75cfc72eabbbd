"""Problem 1 for the eye: the forward and backward variables of one sequence, in three views.

    alpha[t, j] = P(o[0..t], s[t] = j)         alpha[t, j] = (sum_i alpha[t-1, i] A[i, j]) B[j, o[t]]
    beta[t, i]  = P(o[t+1..] | s[t] = i)       beta[t, i]  = sum_j A[i, j] B[j, o[t+1]] beta[t+1, j]

    P(o) = sum_j alpha[T-1, j] = sum_i pi[i] B[i, o[0]] beta[0, i] = sum_i alpha[t, i] beta[t, i]   at every t

They are computed in log space, so that no sequence is too long and no probability too small. Nothing that trains or
tags comes through here: that is the chain's work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.arrays import FloatArray
from trellis.chain import ChainScores
from trellis.models.probability import log_sum


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Forward or backward variables of one sequence, ``(T, L)``; `log` is exact, the other views come from it."""

    log: FloatArray

    @property
    def values(self) -> FloatArray:
        """The plain probabilities; they vanish in long sequences."""
        result: FloatArray = np.exp(self.log)
        return result

    @property
    def log_scale(self) -> FloatArray:
        """``(T,)`` log of the sum of each row; minus infinity if nothing is possible."""
        return log_sum(self.log, axis=1)

    @property
    def scaled(self) -> FloatArray:
        """Each row over its sum, so that it adds up to one; a row without any probability stays zero."""
        scale = self.log_scale[:, None]
        result: FloatArray = np.exp(self.log - np.where(np.isneginf(scale), 0.0, scale))
        return result


def forward(scores: ChainScores) -> Lattice:
    """Alpha of a single sequence."""
    rows = np.empty_like(scores.emissions)
    for t, emission in enumerate(scores.emissions):
        into = scores.start if t == 0 else log_sum(rows[t - 1][:, None] + scores.transitions, axis=0)
        rows[t] = into + emission
    return Lattice(rows)


def backward(scores: ChainScores) -> Lattice:
    """Beta of a single sequence."""
    rows = np.empty_like(scores.emissions)
    for t in range(len(rows) - 1, -1, -1):
        last = t == len(rows) - 1
        rows[t] = scores.end if last else log_sum(scores.transitions + scores.emissions[t + 1] + rows[t + 1], axis=1)
    return Lattice(rows)
