"""The answers of an HMM that are more than one array."""

from __future__ import annotations

from typing import Any, NamedTuple

from trellis.arrays import FloatArray


class Posteriors(NamedTuple):
    """``gamma[t, i]``: probability of state i at t; ``xi[t, i, j]``: of states i, j at t and t + 1."""

    gamma: FloatArray
    xi: FloatArray


class Sample(NamedTuple):
    """Observations and the states that emitted them."""

    observations: list[Any]
    states: list[str]
