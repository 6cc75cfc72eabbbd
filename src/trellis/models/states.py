"""Answers about labels if the chain's states are finer than labels: each state stands for one label.

``labels[S]`` names the label of each state; if it is None, the states are the labels, and the chain answers directly.
A label's probability is the sum over its states; that of a labelling, or of anything else said about labels, is
the share of the paths that keep to it.

With order 2, a state is a history: a label by itself (the first L states), or a label and the one before it (the rest).
A pair (a, b) without its own state counts as b by itself, so each sequence of labels is exactly one sequence of states;
see docs/decisions/0006-order-2.md.
"""

from __future__ import annotations

import numpy as np

from trellis import chain, store
from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.errors import NoPathError
from trellis.tags import Scheme, StateMap, TagSet
from trellis.tags.states import FINER

MOST_PAIRS = 10_000
"""The chain's tables are square in its states: with this many, one takes 800 MB."""
_PRODUCTS = 200_000


def to_labels(paths: IntArray, labels: IntArray | None) -> IntArray:
    """The labels of states."""
    return paths if labels is None else labels[paths]


def sum_by_label(values: AnyArray, labels: IntArray | None, L: int) -> AnyArray:
    """``(..., S)`` by state as ``(..., L)`` by label."""
    if labels is None:
        return values
    member = (labels[:, None] == np.arange(L)).astype(values.dtype)  # (S, L)
    result: AnyArray = np.empty((*values.shape[:-1], L), dtype=values.dtype)
    rows, sums = values.reshape(-1, len(labels)), result.reshape(-1, L)
    # Few rows at a time: for more, the library behind NumPy starts threads, which take longer than the sums.
    step = max(1, _PRODUCTS // member.size)
    for begin in range(0, len(rows), step):
        np.matmul(rows[begin : begin + step], member, out=sums[begin : begin + step])
    return result


def log_mass(scores: chain.ChainScores, allowed: BoolArray | None = None) -> FloatArray:
    """Log partition of each sequence over the paths that keep to ``allowed[N, S]``; minus infinity if there is none."""
    kept = scores if allowed is None else scores.restricted(allowed)
    try:
        return kept.log_partition()
    except NoPathError:
        if len(kept.lengths) == 1:
            return np.array([-np.inf])
        return np.concatenate([log_mass(kept.part(b)) for b in range(len(kept.lengths))])


def score(scores: chain.ChainScores, tags: IntArray, labels: IntArray | None) -> FloatArray:
    """Like `chain.score`, with `tags` of labels: the log partition over the paths that have them."""
    return scores.score(tags) if labels is None else log_mass(scores, labels == tags[:, None])


def stored_states(stored: store.Stored, tags: TagSet) -> StateMap:
    """The states that a saved model learned."""
    schemes = dict.fromkeys([tags.scheme.value, *(scheme.value for scheme in FINER)])
    return StateMap.of(tags, Scheme(stored.manifest.choice("learn_scheme", list(schemes))))


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
