"""A chain of one input on condition that a span and labels of some tokens are known."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import NamedTuple

import numpy as np

from trellis.arrays import IntArray
from trellis.chain import ChainScores
from trellis.errors import ModelError, shown
from trellis.lexicon.spanned import SpanStates
from trellis.models.data import Label, Labelled
from trellis.tags import TagSet


class Conditioned(NamedTuple):
    """A chain, and the label of each of its states."""

    scores: ChainScores
    state_labels: IntArray | None


def conditioned(
    scores: ChainScores,
    tags: TagSet,
    state_labels: IntArray | None,
    span: tuple[int, int, str | None] | None,
    labels: Mapping[int, Label],
) -> Conditioned:
    """The chain in which only those paths are left that have the span and the labels."""
    T = len(scores.emissions)
    for position in labels:
        if not (isinstance(position, int | np.integer) and 0 <= position < T):
            raise ModelError(f"labels are given for position {shown(position)}: expected 0..{T - 1}")
    if labels:
        known = Labelled.of([range(T)], [[labels.get(t) for t in range(T)]]).allowed(tags)
        scores = scores.restricted(known if state_labels is None else known[:, state_labels])
    if span is None:
        return Conditioned(scores, state_labels)
    states = SpanStates.of(scores, tags, state_labels)
    start, end, kind = _checked(span, T, states.kinds)
    allowed = np.ones((T, len(states)), dtype=np.bool_)
    allowed[start:end] = states.inside(end - start, kind)
    return Conditioned(states.chain(scores).restricted(allowed), states.labels)


def _checked(span: tuple[int, int, str | None], T: int, kinds: tuple[str, ...]) -> tuple[int, int, int | None]:
    try:
        start, end, label = span
        start, end = index(start), index(end)
        inside = 0 <= start < end <= T
    except (TypeError, ValueError):
        raise ModelError(f"a span must be (start, end, label), got {shown(span)}") from None
    if not inside:
        raise ModelError(f"the span {shown(tuple(span))} does not lie in an input of {T} tokens")
    if label is not None and label not in kinds:
        raise ModelError(f"the span {shown(tuple(span))} has a type that the model lacks: it has {', '.join(kinds)}")
    return start, end, None if label is None else kinds.index(label)
