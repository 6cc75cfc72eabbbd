"""Reports on the entries of a lexicon: which fired, which lost, and by how much probability."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np

from trellis.lexicon.chains import Occurrences
from trellis.lexicon.lexicon import Entry, surface
from trellis.results import Grid, Report
from trellis.tags import Span
from trellis.tags.spans import ScoredSpan


@dataclass(frozen=True)
class Occurrence:
    """One place where an entry occurs."""

    sentence: int
    start: int
    """The first token."""
    end: int
    """One behind the last token."""
    text: str
    entry: Entry
    fired: bool
    """Whether it is a span of the best labelling."""
    probability: float
    """The probability of the span with the lexicon."""
    alone: float
    """The probability of the span by the model alone."""
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
    """Whether each occurrence of each entry is a span, and how probable; reports are added with `+`."""

    occurrences: tuple[Occurrence, ...] = ()

    @classmethod
    def of(cls, occurrences: Occurrences, posterior: Any, alone: Any, kinds: tuple[str, ...]) -> LexiconReport:
        """The report on occurrences, from the `trellis.models.Posterior` with the lexicon and that of the model alone.

        `kinds` are the types of spans, of which an entry without a label may have any.
        """
        wanted = [kinds if kind < 0 else kinds[kind : kind + 1] for kind in occurrences.kind.tolist()]
        places = list(
            zip(*(x.tolist() for x in (occurrences.sequence, occurrences.begin, occurrences.end)), strict=True)
        )
        asked: list[list[Span]] = [[] for _ in posterior.inputs]
        owners: list[list[int]] = [[] for _ in posterior.inputs]
        for row, (b, begin, end) in enumerate(places):
            asked[b] += [Span(begin, end, kind) for kind in wanted[row]]
            owners[b] += [row] * len(wanted[row])
        rows = np.array(list(chain.from_iterable(owners)), dtype=np.int64)
        probability, probability_alone = (
            np.bincount(
                rows,
                weights=np.array([p for _, p in chain.from_iterable(one.span_probabilities(asked))], dtype=np.float64),
                minlength=len(occurrences),
            )
            for one in (posterior, alone)
        )
        best = posterior.spans()
        reported = []
        for row in np.lexsort((occurrences.end, occurrences.begin, occurrences.sequence)).tolist():
            b, begin, end = places[row]
            there = tuple(one for one in best[b] if one.span.start < end and begin < one.span.end)
            fired = any(one.span[:2] == (begin, end) and one.span.label in wanted[row] for one in there)
            item = posterior.inputs[b]
            reported.append(
                Occurrence(
                    posterior.first + b,
                    begin,
                    end,
                    surface(item, begin, end),
                    occurrences.which(row),
                    fired,
                    min(float(probability[row]), 1.0),
                    min(float(probability_alone[row]), 1.0),
                    () if fired else there,
                    getattr(item, "where", ""),
                )
            )
        return cls(tuple(reported))

    def __add__(self, other: LexiconReport) -> LexiconReport:
        return LexiconReport((*self.occurrences, *other.occurrences))

    @property
    def fired(self) -> tuple[Occurrence, ...]:
        """The occurrences that are spans of the best labelling."""
        return tuple(one for one in self.occurrences if one.fired)

    @property
    def lost(self) -> tuple[Occurrence, ...]:
        """The occurrences that are no spans of the best labelling."""
        return tuple(one for one in self.occurrences if not one.fired)

    def entries(self) -> list[EntryReport]:
        """A summary for each entry, those that lost most often first."""
        groups: dict[Entry, list[Occurrence]] = {}
        for one in self.occurrences:
            groups.setdefault(one.entry, []).append(one)
        rows = [
            EntryReport(
                entry,
                len(occurrences),
                sum(one.fired for one in occurrences),
                sum(one.probability for one in occurrences) / len(occurrences),
                sum(one.alone for one in occurrences) / len(occurrences),
            )
            for entry, occurrences in groups.items()
        ]
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
        records = []
        for one in self.occurrences:
            record = asdict(one)
            surface, label, strength = record.pop("entry")
            instead = [{"start": s.start, "end": s.end, "label": s.label, "probability": p} for s, p in one.instead]
            records.append({**record, "surface": surface, "label": label, "strength": strength, "instead": instead})
        return records
