"""Answers over labels where the chain's states are finer than labels: each state stands for one label.

``labels[S]`` names the label of each state; where it is None, the states are the labels, and the chain answers as it
is. A label's probability is the sum over its states; that of a labelling, or of anything else said about labels, is
the share of the paths that keep to it.
"""

from __future__ import annotations

import numpy as np

from trellis import chain
from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.errors import NoPathError
from trellis.ragged import offsets_of, split

_ROWS = 8192  # tokens of copied sentences that are worked on at a time


def to_labels(paths: IntArray, labels: IntArray | None) -> IntArray:
    """The labels of states."""
    return paths if labels is None else labels[paths]


def sum_by_label(values: AnyArray, labels: IntArray | None, L: int) -> AnyArray:
    """``(..., S)`` by state as ``(..., L)`` by label."""
    if labels is None:
        return values
    member = (labels[:, None] == np.arange(L)).astype(values.dtype)  # (S, L)
    result: AnyArray = values @ member
    return result


def log_mass(scores: chain.ChainScores, allowed: BoolArray | None = None) -> FloatArray:
    """Log partition of each sequence over the paths that keep to ``allowed[N, S]``; minus infinity if there is none."""
    kept = scores if allowed is None else scores.restricted(allowed)
    try:
        return chain.log_partition(kept)
    except NoPathError:
        return np.array([_log_mass(kept, own) for own in split(kept.emissions, kept.lengths)])


def score(scores: chain.ChainScores, tags: IntArray, labels: IntArray | None) -> FloatArray:
    """As `chain.score`, with `tags` of labels: the log partition over the paths that have them."""
    return chain.score(scores, tags) if labels is None else log_mass(scores, labels == tags[:, None])


def span_log_prob(
    scores: chain.ChainScores,
    spans: IntArray,
    tags: IntArray,
    sides: tuple[BoolArray | None, BoolArray | None],
    labels: IntArray | None,
) -> FloatArray:
    """As `chain.span_log_prob`, with flat `tags` and `sides`, the masks before and after, about labels."""
    before, after = sides
    if labels is None:
        return chain.span_log_prob(scores, spans, tags, before=before, after=after)
    anything = np.ones((len(spans), int(labels.max()) + 1), dtype=np.bool_)
    before, after = (anything if side is None else side for side in (before, after))
    paths = split(tags, spans[:, 2] - spans[:, 1])
    offsets, whole = offsets_of(scores.lengths), chain.log_partition(scores)
    found = np.empty(len(spans))
    step = max(1, _ROWS // max(1, int(scores.lengths.max(initial=0))))
    for i in range(0, len(spans), step):
        part = range(i, min(i + step, len(spans)))
        owners = spans[i : i + step, 0]
        masks = [
            _span_mask(int(scores.lengths[b]), spans[k], paths[k], before[k], after[k])
            for k, b in zip(part, owners, strict=True)
        ]
        rows = np.concatenate([np.arange(offsets[b], offsets[b + 1]) for b in owners])
        copies = chain.ChainScores(
            scores.emissions[rows], scores.lengths[owners], scores.transitions, scores.start, scores.end
        )
        found[i : i + len(part)] = log_mass(copies, np.concatenate(masks)[:, labels]) - whole[owners]
    return found


def _span_mask(length: int, span: IntArray, tags: IntArray, before: BoolArray, after: BoolArray) -> BoolArray:
    """``(T, L)``: the labels that leave the span as it is."""
    _, begin, end = span
    mask = np.ones((length, len(before)), dtype=np.bool_)
    mask[begin:end] = np.arange(len(before)) == tags[:, None]
    if begin > 0:
        mask[begin - 1] = before
    if end < length:
        mask[end] = after
    return mask


def _log_mass(scores: chain.ChainScores, emissions: FloatArray) -> float:
    single = chain.ChainScores(emissions, [len(emissions)], scores.transitions, scores.start, scores.end)
    try:
        return float(chain.log_partition(single)[0])
    except NoPathError:
        return -np.inf
