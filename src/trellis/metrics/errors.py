"""What kind of mistake: each span that is not exactly right, named.

Pairs are made from the closest kind down, each span used once: the same tokens and type (correct), the
same tokens with another type (``wrong type``), overlapping tokens with the same type (``wrong
boundary``), overlapping tokens with another type (``wrong both``). A gold span that is left over is ``missing``,
a predicted one is ``spurious``.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import Any

from trellis.metrics.prf import check_aligned
from trellis.report import Grid, Report
from trellis.tags import Scheme, Span, Style, spans_from_sequences
from trellis.tags.spans import Tags


class Mistake(enum.Enum):
    """A way of being wrong about a span."""

    WRONG_TYPE = "wrong type"
    WRONG_BOUNDARY = "wrong boundary"
    WRONG_BOTH = "wrong both"
    MISSING = "missing"
    SPURIOUS = "spurious"


@dataclass(frozen=True)
class SpanError:
    """One mistake in one sentence: the gold span and the predicted span; None if there is no such span."""

    kind: Mistake
    sentence: int
    gold: Span | None
    predicted: Span | None


@dataclass(frozen=True)
class ErrorReport(Report):
    """All mistakes of a prediction, in reading order."""

    correct: int
    errors: tuple[SpanError, ...]

    def counts(self) -> dict[Mistake, int]:
        """How often each kind occurs."""
        found = Counter(error.kind for error in self.errors)
        return {kind: found[kind] for kind in Mistake}

    def to_dict(self) -> dict[str, Any]:
        """Counts by kind and the list of mistakes."""
        return {
            "correct": self.correct,
            "counts": {kind.value: count for kind, count in self.counts().items()},
            "errors": [
                {
                    "kind": error.kind.value,
                    "sentence": error.sentence,
                    "gold": error.gold and error.gold._asdict(),
                    "predicted": error.predicted and error.predicted._asdict(),
                }
                for error in self.errors
            ],
        }

    def grid(self) -> Grid:
        """Kinds down; the types of the gold span (of the predicted one if spurious) across."""
        names = {id(error): (error.gold or error.predicted) for error in self.errors}
        types = sorted({span.label for span in names.values() if span})
        cells = Counter((error.kind, span.label) for error in self.errors if (span := names[id(error)]))
        rows = [
            (kind.value, str(count), *(str(cells[kind, label]) for label in types))
            for kind, count in self.counts().items()
        ]
        columns = ("mistake", "all", *(label or "_" for label in types))
        return Grid(f"{len(self.errors)} mistakes, {self.correct} correct spans", columns, tuple(rows))


def entity_errors(
    gold: Tags,
    predicted: Tags,
    *,
    scheme: Scheme | None = None,
    style: Style = Style.PREFIX,
    strict: bool = False,
) -> ErrorReport:
    """Every mistake of the predicted tags, with its kind."""
    check_aligned(gold, predicted)
    sides = [spans_from_sequences(side, scheme, style=style, strict=strict) for side in (gold, predicted)]
    return span_errors(*sides)


def span_errors(gold: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]]) -> ErrorReport:
    """Every mistake of the predicted spans, one list of spans per sentence."""
    correct, errors = 0, []
    for index, (true, guess) in enumerate(zip(gold, predicted, strict=True)):
        shared = set(true) & set(guess)
        correct += len(shared)
        left = [span for span in true if span not in shared]
        right = [span for span in guess if span not in shared]
        found = [SpanError(kind, index, a, b) for kind, a, b in _pairs(left, right)]
        errors += sorted(found, key=lambda error: error.gold or error.predicted or ())
    return ErrorReport(correct, tuple(errors))


_CLOSENESS: tuple[tuple[Mistake, Callable[[Span, Span], bool]], ...] = (
    (Mistake.WRONG_TYPE, lambda a, b: a[:2] == b[:2]),
    (Mistake.WRONG_BOUNDARY, lambda a, b: a.label == b.label and _overlap(a, b) > 0),
    (Mistake.WRONG_BOTH, lambda a, b: _overlap(a, b) > 0),
)


def _pairs(gold: list[Span], predicted: list[Span]) -> Iterator[tuple[Mistake, Span | None, Span | None]]:
    """Pair up spans that have no exact match; within a kind the largest overlap comes first."""
    unmatched, unused = [True] * len(gold), [True] * len(predicted)
    near = [(-_overlap(gold[i], predicted[j]), i, j) for i, j in _touching(gold, predicted)]
    near.sort()
    for kind, alike in _CLOSENESS:
        for _, i, j in near:
            if unmatched[i] and unused[j] and alike(gold[i], predicted[j]):
                unmatched[i] = unused[j] = False
                yield kind, gold[i], predicted[j]
    yield from ((Mistake.MISSING, span, None) for span in compress(gold, unmatched))
    yield from ((Mistake.SPURIOUS, None, span) for span in compress(predicted, unused))


def _touching(left: list[Span], right: list[Span]) -> Iterator[tuple[int, int]]:
    """The pairs of spans that share tokens or adjoin; time is linear in them, apart from sorting."""
    order = sorted(range(len(right)), key=lambda j: right[j].start)
    starts = [right[j].start for j in order]
    reach = list(accumulate((right[j].end for j in order), max))  # how far the spans that start up to there reach
    for i, span in enumerate(left):
        for j in order[bisect_left(reach, span.start) : bisect_right(starts, span.end)]:
            if right[j].end >= span.start:
                yield i, j


def _overlap(a: Span, b: Span) -> int:
    return min(a.end, b.end) - max(a.start, b.start)
