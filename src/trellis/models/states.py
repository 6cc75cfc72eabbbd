"""Answers about labels if the chain's states are finer than labels: each state stands for one label.

``labels[S]`` names the label of each state; if it is None, the states are the labels, and the chain answers directly.
A label's probability is the sum over its states; that of a labelling, or of anything else said about labels, is
the share of the paths that keep to it.
"""

from __future__ import annotations

import numpy as np

from trellis import chain, store
from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.errors import NoPathError
from trellis.tags import Scheme, StateMap, TagSet
from trellis.tags.states import FINER

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
        return np.array([_log_mass(kept.part(b)) for b in range(len(kept.lengths))])


def score(scores: chain.ChainScores, tags: IntArray, labels: IntArray | None) -> FloatArray:
    """Like `chain.score`, with `tags` of labels: the log partition over the paths that have them."""
    return scores.score(tags) if labels is None else log_mass(scores, labels == tags[:, None])


def stored_states(stored: store.Stored, tags: TagSet) -> StateMap:
    """The states that a saved model learned; one saved before there was a choice learned its labels."""
    if "learn_scheme" not in stored.manifest:
        return StateMap.of(tags)
    schemes = dict.fromkeys([tags.scheme.value, *(scheme.value for scheme in FINER)])
    return StateMap.of(tags, Scheme(stored.manifest.choice("learn_scheme", list(schemes))))


def _log_mass(one: chain.ChainScores) -> float:
    try:
        return float(one.log_partition()[0])
    except NoPathError:
        return -np.inf
