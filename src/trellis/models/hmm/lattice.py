"""Problem 1 for the eye: the forward and backward variables of one sequence, in three views.

    alpha[t, j] = P(o[0..t], s[t] = j)         alpha[t, j] = (sum_i alpha[t-1, i] A[i, j]) B[j, o[t]]
    beta[t, i]  = P(o[t+1..] | s[t] = i)       beta[t, i]  = sum_j A[i, j] B[j, o[t+1]] beta[t+1, j]

    P(o) = sum_j alpha[T-1, j] = sum_i pi[i] B[i, o[0]] beta[0, i] = sum_i alpha[t, i] beta[t, i]   at every t

They are the tables of the chain (`trellis.chain.tables`) as probabilities: computed in log space, so that no sequence
is too long and no probability too small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.arrays import FloatArray
from trellis.chain.tables import ChainTable, log_sum
from trellis.report import Grid, Report


@dataclass(frozen=True, eq=False, repr=False)
class Lattice(Report):
    """Forward or backward variables of one sequence; `log` is exact, the other views come from it.

    It prints as a table of the plain probabilities, in which the most probable states are marked; `table` prints their
    logarithms.
    """

    table: ChainTable

    @property
    def log(self) -> FloatArray:
        """``(T, L)`` logarithms of the probabilities."""
        return self.table.values

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

    def grid(self) -> Grid:
        """Observations down, states across."""
        name = {"forward": "Forward: alpha", "backward": "Backward: beta"}[self.table.kind]
        title = f"{name} as probabilities, ● most probable states; P(o) = {np.exp(self.table.total[0]):.5g}"
        return self.table.grid_of(title, self.values, np.exp(self.table.last))

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per observation: the observation, and the probability of each state."""
        labels, tokens, rows = self.table.labels, self.table.tokens, self.values.tolist()
        return [{"token": x} | dict(zip(labels, row, strict=True)) for x, row in zip(tokens, rows, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """The table as lists."""
        return self.table.to_dict()

    def __str__(self) -> str:
        """The title and the table."""
        return self.grid().to_text()

    def __repr__(self) -> str:
        """What is printed."""
        return str(self)
