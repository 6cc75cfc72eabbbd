"""Scores of spans: the figures conlleval prints and seqeval computes, per type and averaged.

    >>> scores = entity_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "B-ORG"]])
    >>> scores.micro.f1, scores.types["PER"].f1, scores.accuracy
    (0.5, 1.0, 0.75)

The default reading repairs illegal tags as conlleval does. Strict reading, for a given scheme, counts
well-formed spans only; it equals seqeval's strict mode except in IOE1, where seqeval misses spans of one
token that stand right before another span of their type (``trellis.compat.seqeval`` misses them too).

A span is right when its tokens and its type are. If all tags of a sentence are right, so are its spans, and only
the sentences that differ are read twice. There, no two spans of one reading end at the same token, so one pass over an
array indexed by the end position finds all matches. Time is linear in the tokens.

Mistakes are named. Pairs are made from the closest kind down, each span used once: the same tokens and type (correct),
the same tokens with another type (``wrong type``), overlapping tokens with the same type (``wrong boundary``),
overlapping tokens with another type (``wrong both``). A gold span that is left over is ``missing``, a predicted one is
``spurious``.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import accumulate, compress
from operator import ne
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.arrays import BoolArray, IntArray
from trellis.errors import number_of
from trellis.lazy import cached
from trellis.metrics.prf import SCORE_COLUMNS, Score, Tally, averages, check_aligned, per_type, percent
from trellis.metrics.tokens import ConfusionMatrix
from trellis.results import Grid, Report
from trellis.tags import Scheme, Span, Style, spans_from_sequences
from trellis.tags.spans import Alphabet, Chunks, ChunkTables, Tags, find_chunks, locate, reading, scheme_alphabet


@dataclass(frozen=True)
class EntityScores(Report):
    """Scores of predicted spans against gold spans; a type without a name is listed as ``_``."""

    types: dict[str, Score]
    micro: Score
    macro: Score
    weighted: Score
    accuracy: float  # share of tokens with the right tag
    tokens: int
    sentences: int
    _comparison: Comparison = field(repr=False, compare=False)

    @cached
    def confusion(self) -> ConfusionMatrix:
        """How often spans of each type were taken for another; ``O`` stands for no span at all.

        Spans with the same tokens are compared, then those that overlap.
        """
        there = self._comparison
        sides = []
        for chunks in (there.gold_there, there.predicted_there):
            columns = (chunks.begin.tolist(), chunks.end.tolist(), chunks.kind.tolist())
            sides.append([Span(a, b, there.kinds[kind]) for a, b, kind in zip(*columns, strict=True)])
        report = span_errors(*([side] for side in sides))
        names = [*(name for name in self.types), "O"]
        rows = {name: dict.fromkeys(names, 0) for name in names}
        for error in report.errors:
            gold, predicted = (span.label or "_" if span else "O" for span in (error.gold, error.predicted))
            rows[gold][predicted] += 1
        for name, score in self.types.items():
            rows[name][name] += score.correct
        return ConfusionMatrix(tuple(names), tuple(tuple(row.values()) for row in rows.values()))

    def to_dict(self) -> dict[str, Any]:
        """The scores by type, their averages and the accuracy."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.repr}
        shown = {name: asdict(value) if isinstance(value, Score) else value for name, value in values.items()}
        return {**shown, "types": {name: asdict(score) for name, score in self.types.items()}}

    def grid(self) -> Grid:
        """One row per type, then the averages."""
        rows = [(name, *score.cells()) for name, score in self.types.items()]
        means = (("micro", self.micro), ("macro", self.macro), ("weighted", self.weighted))
        rows += [(f"{name} average", *score.cells()) for name, score in means]
        title = f"Spans of {number_of(self.tokens, 'token')}, token accuracy {percent(self.accuracy)}"
        return Grid(title, ("type", *SCORE_COLUMNS), tuple(rows))


def entity_scores(
    gold: Tags,
    predicted: Tags,
    *,
    scheme: Scheme | None = None,
    style: Style = Style.PREFIX,
    strict: bool = False,
) -> EntityScores:
    """Precision, recall and F1 of spans; see the module for what ``strict`` means."""
    found = compare(gold, predicted, scheme_alphabet(scheme, style), reading(scheme, strict=strict))
    counts = tally(found)
    means = averages(counts)
    types = {name or "_": score for name, score in per_type(counts).items()}
    accuracy = (found.tokens - found.wrong_tags) / found.tokens if found.tokens else 0.0
    return EntityScores(types, *means, accuracy, found.tokens, len(gold), found)


def entity_counts(
    gold: Tags,
    predicted: Tags,
    *,
    scheme: Scheme | None = None,
    style: Style = Style.PREFIX,
    strict: bool = False,
) -> IntArray:
    """Correct, predicted and gold spans of each sentence, [S, 3]: what resampling needs."""
    found = compare(gold, predicted, scheme_alphabet(scheme, style), reading(scheme, strict=strict))
    spans = np.bincount(locate(found.gold, found.lengths)[0], minlength=len(found.lengths))
    counts = np.stack([spans, spans, spans], axis=1)
    owner = locate(found.predicted_there, compress(found.lengths, found.differ.tolist()))[0]
    size = int(np.count_nonzero(found.differ))
    counts[found.differ, 0] = np.bincount(owner[found.hits], minlength=size)
    counts[found.differ, 1] = np.bincount(owner, minlength=size)
    return counts


class Comparison(NamedTuple):
    """The gold spans, and for the sentences whose tags may differ the spans of both sides and which are right.

    Spans of the sentences that differ have positions as if there were no other sentences.
    """

    lengths: list[int]  # tokens of each sentence
    differ: BoolArray  # for each sentence
    gold: Chunks
    gold_there: Chunks
    predicted_there: Chunks
    hits: BoolArray  # for each span in predicted_there
    kinds: list[str]
    tokens: int
    wrong_tags: int


def compare(gold: Tags, predicted: Tags, alphabet: Alphabet, tables: ChunkTables | None = None) -> Comparison:
    """Match the spans of two tag corpora whose labels are read by ``alphabet``, strictly by ``tables`` if given."""
    lengths = check_aligned(gold, predicted)
    differ = np.fromiter(map(ne, gold, predicted), dtype=np.bool_, count=len(lengths))
    codes = alphabet.encode(gold)
    guesses_there = alphabet.encode(compress(predicted, differ.tolist()))
    if tables is None and alphabet.strange:  # then no sentence can be skipped
        differ, guesses_there = np.ones_like(differ), alphabet.encode(predicted)
    codes_there = codes[np.repeat(differ, np.array(lengths, dtype=np.int64) + 1)]
    true, true_there, guessed = (find_chunks(alphabet, side, tables) for side in (codes, codes_there, guesses_there))
    begin_at = np.full(len(codes_there), -1, dtype=np.int64)
    begin_at[true_there.end] = true_there.begin
    kind_at = np.empty(len(codes_there), dtype=np.int32)
    kind_at[true_there.end] = true_there.kind
    same_begin = begin_at[guessed.end] == guessed.begin
    return Comparison(
        lengths,
        differ,
        true,
        true_there,
        guessed,
        same_begin & (kind_at[guessed.end] == guessed.kind),
        alphabet.kinds,
        len(codes) - len(lengths),
        int(np.count_nonzero(codes_there != guesses_there)),
    )


def tally(found: Comparison) -> Tally:
    """Counts for each type that occurs, by name."""

    def count(kinds: NDArray[np.int32]) -> IntArray:
        return np.bincount(kinds, minlength=len(found.kinds))

    guessed, gold = found.predicted_there.kind, count(found.gold.kind)
    elsewhere = gold - count(found.gold_there.kind)
    correct, predicted = elsewhere + count(guessed[found.hits]), elsewhere + count(guessed)
    seen = sorted(np.flatnonzero(predicted + gold).tolist(), key=found.kinds.__getitem__)
    return Tally([found.kinds[index] for index in seen], correct[seen], predicted[seen], gold[seen])


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
        counts = Counter(error.kind for error in self.errors)
        return {kind: counts[kind] for kind in Mistake}

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
        cells = Counter((error.kind, span.label) for error in self.errors if (span := error.gold or error.predicted))
        types = sorted({label for _, label in cells})
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
        mistakes = [SpanError(kind, index, a, b) for kind, a, b in _pairs(left, right)]
        errors += sorted(mistakes, key=lambda error: error.gold or error.predicted or ())
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
