"""What a client knows already: labels of tokens, or spans, which become labels that condition a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from trellis.arrays import BoolArray
from trellis.errors import shown
from trellis.models.data import Label
from trellis.server.problems import invalid, too_large
from trellis.server.schemas import KnownSpan, TagRequest, TrellisRequest
from trellis.tags import Role, Scheme, Span, SpanWay, TagSet

_SIZES = 3  # tokens from which on spans differ in the number of their inner tokens only
_OVERLAPS = 4  # known spans that a token may be in, on average


def constraints_of(
    request: TagRequest | TrellisRequest, items: Sequence[Sequence[str]], tags: TagSet
) -> list[list[Label] | None] | None:
    """What a request knows of the labels of its inputs, which are split into tokens; None if it knows nothing."""
    one = isinstance(request, TrellisRequest)
    given = {name: getattr(request, name) for name in ("known", "known_spans")}
    names = [name for name, value in given.items() if value is not UNSET]
    if not names:
        return None
    if len(names) > 1:
        raise invalid("the request must have one of known, known_spans, got both")
    name, values = names[0], [given[names[0]]] if one else given[names[0]]
    if len(values) != len(items):
        raise invalid(f"{name} has {len(values)} lists: expected {len(items)}, one per input")
    spans = SpanConstraints(tags)
    found: list[list[Label] | None] = []
    for i, (value, item) in enumerate(zip(values, items, strict=True)):
        where = name if one else f"{name}[{i}]"
        if value is None:
            found.append(None)
        else:
            found.append(
                check_labels(value, len(item), where, tags)
                if name == "known"
                else spans.labels(value, len(item), where)
            )
    return found


def check_labels(labels: list[Label], count: int, where: str, tags: TagSet) -> list[Label]:
    """Labels of tokens: one, several of which one is right, or None."""
    if len(labels) != count:
        raise invalid(f"{where} has {len(labels)} labels for {count} tokens: expected as many")
    for label in labels:
        for one in label if isinstance(label, list) else [label]:
            if one is not None and one not in tags:
                raise invalid(f"{where} must be labels of the model, lists of them, or null, got {shown(one)}")
    return labels


def check_scheme(labels: list[Label], where: str, tags: TagSet) -> None:
    """Refuse labels of tokens that no tags of the scheme agree with: nothing could be learned from them."""
    allowed = tags.allowed_transitions()
    reached = allowed.start
    for t, label in enumerate(labels):
        known = [] if label is None else [tags.id(one) for one in ([label] if isinstance(label, str) else label)]
        here = np.zeros(len(tags), dtype=bool)
        here[known or slice(None)] = True
        reached = here & (reached if t == 0 else allowed.transitions[reached].any(axis=0))
        if t == len(labels) - 1:
            reached = reached & allowed.end
        if not reached.any():
            before = "the start" if t == 0 else shown(labels[t - 1])
            where_it_ends = " at the end" if t == len(labels) - 1 else ""
            raise invalid(f"{where}[{t}] does not fit the scheme: got {shown(label)} after {before}{where_it_ends}")


class SpanConstraints:
    """Known spans as labels, for one tag set: what spans of a kind say is found out once."""

    def __init__(self, tags: TagSet) -> None:
        self._tags, self._every = tags, frozenset(range(len(tags)))
        self._kinds = {kind for role, kind in tags.parsed if role is not Role.O}
        self._outside = next((i for i, (role, _) in enumerate(tags.parsed) if role is Role.O), None)
        self._ways: dict[tuple[int, str], _Way] = {}

    def labels(self, spans: Sequence[KnownSpan], count: int, where: str) -> list[Label]:
        """The labels that spans leave to `count` tokens: their own, and neighbours that do not extend them.

        IOB1 and IOE1 write a span differently next to another of its kind; here it is written as if it stood alone.
        """
        most = _OVERLAPS * count
        if len(spans) > most:
            raise too_large(f"{where} has {len(spans)} spans: expected at most {most} for {count} tokens")
        for i, span in enumerate(spans):
            self._check(span, count, f"{where}[{i}]")
        tokens = sum(span.end - span.start for span in spans)
        if tokens > most:
            raise too_large(f"{where} has spans of {tokens} tokens: expected at most {most} for {count} tokens")
        allowed = [self._every] * count
        for span in spans:
            for position, own in self._allowed(span, count):
                allowed[position] = allowed[position] & own
        if not all(allowed):
            raise invalid(f"known spans contradict each other at token {allowed.index(frozenset())}")
        names = self._tags.labels
        return [None if len(own) == len(self._every) else [names[i] for i in sorted(own)] for own in allowed]

    def _check(self, span: KnownSpan, count: int, where: str) -> None:
        if span.end > count:
            raise invalid(f"{where}: end must be in 0..{count}, got {span.end}")
        if not span.start < span.end:
            raise invalid(f"{where} must have at least one token, got tokens {span.start} to {span.end - 1}")
        if span.label is None and self._outside is None:
            raise invalid(f"{where}: this model has no label for tokens outside spans, so label must be a string")
        if span.label is not None and span.label not in self._kinds:
            kinds = ", ".join(sorted(self._kinds)) or "none"
            raise invalid(f"{where}: label must be one of {kinds}, got {span.label[:80]!r}")

    def _allowed(self, span: KnownSpan, count: int) -> Iterator[tuple[int, frozenset[int]]]:
        """The labels that one span leaves to tokens."""
        start, end = span.start, span.end
        way = self._way(min(end - start, _SIZES), span.label)
        if way.tags:
            first, *inner, last = way.tags if len(way.tags) > 1 else way.tags * 2
            yield start, first
            yield from ((t, inner[0]) for t in range(start + 1, end - 1))
            yield end - 1, last
        if way.before is not None and start > 0:
            yield start - 1, way.before
        if way.after is not None and end < count:
            yield end, way.after

    def _way(self, size: int, label: str | None) -> _Way:
        """How a span of that size is written; longer ones have more of what is in the middle."""
        if label is None or self._tags.scheme is Scheme.PLAIN:
            own = self._outside if label is None else self._tags.id(label)
            assert own is not None
            return _Way((frozenset([own]),) * size)
        if (size, label) not in self._ways:
            lengths = np.array([size])
            table = self._tags.table_of_spans([[Span(0, size, label)]], lengths)
            self._ways[size, label] = _Way.of(self._tags.ways_of_writing(table, lengths)[0])
        return self._ways[size, label]


class _Way(NamedTuple):
    """The labels of the tokens of a span, and those that its neighbours may have; None is all of them."""

    tags: tuple[frozenset[int], ...]
    before: frozenset[int] | None = None
    after: frozenset[int] | None = None

    @classmethod
    def of(cls, way: SpanWay) -> _Way:
        """The way of a single span; nothing is said by one that the labels cannot write."""
        tags = tuple(frozenset([int(tag)]) for tag in way.tags)
        return cls(tags, *(_allowing(own) if len(way.rows) else None for own in (way.before, way.after)))


def _allowing(rows: BoolArray | None) -> frozenset[int] | None:
    return None if rows is None else frozenset(np.flatnonzero(rows[0]).tolist())
