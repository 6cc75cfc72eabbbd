"""A chain over the labels of a scheme as segments, with the same distribution over spans.

Every labelling of tokens is cut at the steps that do not go on with a span (B-PER I-PER goes on, I-PER B-PER and O O do
not), which is how spans are read from tags. Within a piece the states are known but for its two ends::

    one token       x                    f first, e last: what stands before and after it depends on these
    two             f e                  m inside: the one state of its type that a span can stay in
    more            f m m ... m e

So a label of segments is a type with such a shape, and a segment's score is a sum of emissions and steps. The scores of
steps between segments are those of the chain, from the last state of one to the first of the next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.chain import ChainScores, SegmentScores
from trellis.errors import ModelError
from trellis.ragged import split
from trellis.tags import Role, Span, TagSet

_OPEN, _ONGOING = (Role.B, Role.I), (Role.I, Role.E)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a segment is written in states: the first and the last, and what stands between (None: nothing can)."""

    first: int
    last: int
    inside: int | None = None
    single: bool = False


@dataclass(frozen=True, eq=False)
class SpanSegments:
    """Segments with the distribution of a chain over spans; `kinds[l]` is the type of label l, None for outside."""

    scores: SegmentScores
    kinds: tuple[str | None, ...]

    def best(self) -> list[list[Span]]:
        """The spans of the best segments of each input."""
        return [self.spans(path) for path in self.scores.viterbi().paths]

    def spans(self, path: IntArray) -> list[Span]:
        """The spans among the segments (S, 3) of one input."""
        named = ((begin, end, self.kinds[label]) for begin, end, label in path.tolist())
        return [Span(begin, end, kind) for begin, end, kind in named if kind is not None]

    def marginals(self) -> tuple[list[FloatArray], tuple[str, ...]]:
        """For each input ``(T, K, C)``: how probable the span that ends with a token, has a length and a type is."""
        types = tuple(sorted({kind for kind in self.kinds if kind is not None}))
        rows, by_label = self.scores.marginals().segments, np.zeros((len(self.kinds), len(types)))
        for label, kind in enumerate(self.kinds):
            if kind is not None:
                by_label[label, types.index(kind)] = 1.0
        return split(rows @ by_label, self.scores.lengths), types


def segments_of(
    scores: ChainScores, tags: TagSet, state_labels: IntArray | None = None, *, longest: int | None = None
) -> SpanSegments:
    """The chain as segments: same log Z, same probability of every span, same best spans.

    Args:
        scores: of the chain, whose states are the labels of `tags` unless `state_labels` says which label each has.
        tags: the labels with their scheme.
        state_labels: the label that each state stands for.
        longest: the most tokens of a span; by default as many as the longest input has. Spans that are longer are
            forbidden, and the others share their probability.

    """
    if scores.edges is not None:
        raise ModelError(
            "segments have the same transitions everywhere: a chain with edges by place cannot become some"
        )
    parsed = [tags.parsed[label] for label in (range(len(tags)) if state_labels is None else state_labels)]
    # goes_on[i, j]: a step from state i to state j stays inside a span
    kinds = np.array([kind for _, kind in parsed], dtype=object)
    before, after = (np.array([role in roles for role, _ in parsed]) for roles in (_OPEN, _ONGOING))
    goes_on: BoolArray = (kinds[:, None] == kinds) & before[:, None] & after
    between = np.where(goes_on, -np.inf, scores.transitions)
    begins = (scores.start > -np.inf) | (between > -np.inf).any(axis=0)
    ends = (scores.end > -np.inf) | (between > -np.inf).any(axis=1)
    shapes = _shapes(goes_on & (scores.transitions > -np.inf))
    shapes = [shape for shape in shapes if begins[shape.first] and ends[shape.last]] or shapes[:1]
    K = max(1, int(scores.lengths.max(initial=1)) if longest is None else longest)
    first, last = (np.array([getattr(s, name) for s in shapes], dtype=np.int64) for name in ("first", "last"))
    return SpanSegments(
        SegmentScores(
            _segment_scores(scores, shapes, K if any(not shape.single for shape in shapes) else 1),
            scores.lengths,
            between[np.ix_(last, first)],
            scores.start[first],
            scores.end[last],
        ),
        tuple(None if parsed[shape.first][0] is Role.O else parsed[shape.first][1] for shape in shapes),
    )


def _shapes(goes_on: BoolArray) -> list[Shape]:
    """All ways to write a segment in states, given the steps that stay inside one.

    A span of any length must stay in one state between its ends: else the states between two ends are not known.
    """
    inner = goes_on.any(axis=0) & goes_on.any(axis=1)
    if (goes_on & np.outer(inner, inner) & ~np.eye(len(goes_on), dtype=bool)).any():
        raise ModelError(
            "inside a span, a state of this chain can follow another one: expected the states of a tag scheme, "
            "not histories of labels (order 2) or counts of tokens (head = semicrf)"
        )
    shapes = [Shape(x, x, single=True) for x in range(len(goes_on))]
    for f, e in np.argwhere(goes_on | ((goes_on.astype(int) @ goes_on) > 0)).tolist():
        inside = np.flatnonzero(goes_on[f] & goes_on[:, e]).tolist()
        if goes_on[f, e] and len(inside) != 1:
            shapes.append(Shape(f, e))
        shapes += [Shape(f, e, m) for m in inside]
    return shapes


def _segment_scores(scores: ChainScores, shapes: list[Shape], K: int) -> FloatArray:
    """(N, K, L): the sum of the emissions of a segment's states and of the steps between them."""
    emissions, steps = scores.emissions.astype(np.float64), scores.transitions.astype(np.float64)
    N = len(emissions)
    result = np.full((N, K, len(shapes)), -np.inf)
    ways = Counter((shape.first, shape.last) for shape in shapes if not shape.single)
    for label, shape in enumerate(shapes):
        f, e, m = shape.first, shape.last, shape.inside
        if shape.single:
            result[:, 0, label] = emissions[:, f]
            continue
        if K > 1 and (m is None or ways[f, e] == 1):
            result[1:, 1, label] = emissions[:-1, f] + steps[f, e] + emissions[1:, e]
        if m is not None:
            # for k >= 2: e[n-k, f] + A[f, m] + sum_{n-k < t < n} e[t, m] + (k - 2) A[m, m] + A[m, e] + e[n, e]
            inner = np.full(N, steps[m, e])  # of the tokens between the ends, by the last token of the segment
            for k in range(2, min(K, N)):
                inner[k:] += emissions[1 : N - k + 1, m] + (steps[m, m] if k > 2 else 0.0)
                result[k:, k, label] = emissions[:-k, f] + steps[f, m] + inner[k:] + emissions[k:, e]
    return result
