"""Order 2: a state of the chain is a history, shared by CRFs and HMMs.

The first L states are labels by themselves, the rest a label and the one before it. A pair (a, b) without its own state
counts as b by itself, so each sequence of labels is exactly one sequence of states; see docs/decisions/0006-order-2.md.
"""

from __future__ import annotations

import numpy as np

from trellis.arrays import FloatArray, IntArray

MOST_PAIRS = 10_000
"""The chain's tables are square in its states: with this many, one takes 800 MB."""


def labels_of(pairs: IntArray, L: int) -> IntArray:
    """``(L + P,)`` the label of each state, for pairs (P, 2) that have their own."""
    return np.concatenate([np.arange(L), pairs[:, 1]])


def states_of(pairs: IntArray, L: int) -> IntArray:
    """``(L + 1, L)``: the state of each pair; the last row, which is also row -1, has those that begin."""
    state = np.tile(np.arange(L), (L + 1, 1))
    state[pairs[:, 0], pairs[:, 1]] = L + np.arange(len(pairs))
    return state


def most_common(counts: FloatArray, most: int) -> IntArray:
    """The `most` pairs (P, 2) with the highest counts (L, L) above zero, in order."""
    flat = counts.ravel()
    ranked = np.argsort(-flat, kind="stable")[:most]
    return np.stack(np.divmod(np.sort(ranked[flat[ranked] > 0]), len(counts)), axis=1)
