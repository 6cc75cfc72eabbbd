"""What came of the entries of a lexicon: which fired, which lost, and by how much probability."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from trellis.lexicon import Entry
from trellis.lexicon.learning import surface
from trellis.models.lexical import Occurrences
from trellis.models.tagged import ScoredSpan
from trellis.report import Grid, Report
from trellis.tags import Span


@dataclass(frozen=True)
class Occurrence:
    """One place where an entry occurs."""

    sentence: int
    start: int
    """The first token."""
    end: int
    """One behind the last."""
    text: str
    entry: Entry
    fired: bool
    """Whether it is a span of the best labelling."""
    probability: float
    """Of the span, with the lexicon."""
    alone: float
    """The same by the model alone."""
    instead: tuple[ScoredSpan, ...]
    """If it lost: the spans of the best labelling in its place."""
    where: str = ""
    """File and line of the sentence, if they are known."""


@dataclass(frozen=True)
class EntryReport:
    """One entry: how often it occurs, how often it fired, and its mean probabilities."""

    entry: Entry
    occurrences: int
    fired: int
    probability: float
    alone: float


@dataclass(frozen=True, eq=False)
class LexiconReport(Report):
    """What came of each occurrence of each entry; add reports up with `+`."""

    occurrences: tuple[Occurrence, ...] = ()

    def __add__(self, other: LexiconReport) -> LexiconReport:
        """Both."""
        return LexiconReport((*self.occurrences, *other.occurrences))

    @property
    def fired(self) -> tuple[Occurrence, ...]:
        """Those that are spans of the best labelling."""
        return tuple(one for one in self.occurrences if one.fired)

    @property
    def lost(self) -> tuple[Occurrence, ...]:
        """Those that are not."""
        return tuple(one for one in self.occurrences if not one.fired)

    def entries(self) -> list[EntryReport]:
        """By entry, those that lost most often first."""
        groups: dict[Entry, list[Occurrence]] = {}
        for one in self.occurrences:
            groups.setdefault(one.entry, []).append(one)
        rows = [_summed(entry, own) for entry, own in groups.items()]
        return sorted(rows, key=lambda row: (row.fired - row.occurrences, -row.occurrences, row.entry.surface))

    def grid(self) -> Grid:
        """One row per entry."""
        rows = tuple(
            (
                row.entry.surface,
                row.entry.label or "",
                str(row.entry.strength),
                str(row.occurrences),
                str(row.fired),
                str(row.occurrences - row.fired),
                f"{row.probability:.3f}",
                f"{row.alone:.3f}",
            )
            for row in self.entries()
        )
        title = f"Lexicon: {len(self.fired)} of {len(self.occurrences)} occurrences fired"
        columns = ("entry", "label", "strength", "occurrences", "fired", "lost", "probability", "alone")
        return Grid(title, columns, rows)

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per occurrence."""
        return [_record(one) for one in self.occurrences]


class Believed(Protocol):
    """What a posterior says about spans."""

    @property
    def first(self) -> int:
        """The number of the first input."""

    @property
    def inputs(self) -> Sequence[Any]:
        """Sentences or token lists."""

    def spans(self) -> list[list[ScoredSpan]]:
        """The spans of the best labelling of each input."""

    def span_probabilities(self, spans: Sequence[Sequence[Span]]) -> list[list[ScoredSpan]]:
        """The exact probabilities of the given spans of each input."""


def reported(found: Occurrences, belief: Believed, alone: Believed, kinds: tuple[str, ...]) -> LexiconReport:
    """What came of the occurrences, by a distribution with the lexicon and by that of the model alone."""
    count = len(belief.inputs)
    asked: list[list[Span]] = [[] for _ in range(count)]
    owners: list[list[int]] = [[] for _ in range(count)]
    for row in range(len(found)):
        b, begin, end, kind = (int(x[row]) for x in (found.sequence, found.begin, found.end, found.kind))
        own = [Span(begin, end, name) for name in (kinds if kind < 0 else kinds[kind : kind + 1])]
        asked[b] += own
        owners[b] += [row] * len(own)
    rows = np.array([row for own in owners for row in own], dtype=np.int64)
    sums = [np.bincount(rows, weights=_probabilities(one, asked), minlength=len(found)) for one in (belief, alone)]
    best = belief.spans()
    order = np.lexsort((found.end, found.begin, found.sequence)).tolist()
    return LexiconReport(
        tuple(_occurrence(found, row, belief, best, kinds, *(float(x[row]) for x in sums)) for row in order)
    )


def _probabilities(belief: Believed, asked: list[list[Span]]) -> Any:
    return np.array([p for own in belief.span_probabilities(asked) for _, p in own], dtype=np.float64)


def _occurrence(
    found: Occurrences,
    row: int,
    belief: Believed,
    best: list[list[ScoredSpan]],
    kinds: tuple[str, ...],
    probability: float,
    alone: float,
) -> Occurrence:
    b, begin, end, kind = (int(x[row]) for x in (found.sequence, found.begin, found.end, found.kind))
    wanted = kinds if kind < 0 else kinds[kind : kind + 1]
    there = tuple(one for one in best[b] if one.span.start < end and begin < one.span.end)
    fired = any(one.span[:2] == (begin, end) and one.span.label in wanted for one in there)
    item = belief.inputs[b]
    return Occurrence(
        belief.first + b,
        begin,
        end,
        surface(item, begin, end),
        found.which(row),
        fired,
        min(probability, 1.0),
        min(alone, 1.0),
        () if fired else there,
        getattr(item, "where", ""),
    )


def _summed(entry: Entry, own: Sequence[Occurrence]) -> EntryReport:
    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(own)

    fired = sum(one.fired for one in own)
    return EntryReport(entry, len(own), fired, mean(one.probability for one in own), mean(one.alone for one in own))


def _record(one: Occurrence) -> dict[str, Any]:
    record = asdict(one)
    entry = record.pop("entry")
    instead = [{"start": s.start, "end": s.end, "label": s.label, "probability": p} for s, p in one.instead]
    named = {"surface": entry[0], "label": entry[1], "strength": entry[2]}
    return {**record, **named, "instead": instead}
