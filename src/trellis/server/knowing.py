"""What a client knows already: labels of tokens, or spans, which become labels that condition a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from trellis.arrays import BoolArray
from trellis.models.data import Label
from trellis.server.problems import InvalidRequestError, TooLargeError
from trellis.server.questions import Asked
from trellis.server.reading import one_of
from trellis.tags import Role, Scheme, Span, SpanWay, TagSet
from trellis.untrusted import Fields, shown

_FORMS = 3  # tokens from which on spans differ in the number of their inner tokens only
_OVERLAPS = 4  # known spans that a token may be in, on average


def with_known(fields: Fields, asked: Asked, tags: TagSet, form: str, *, one: bool = False) -> Asked:
    """The sentences with what is known of their labels, if anything is."""
    if "known" not in fields and "known_spans" not in fields:
        return asked
    name = one_of(fields, ("known", "known_spans"))
    if form == "documents":
        raise InvalidRequestError("known labels belong to the tokens of texts or token lists, not to documents")
    given = [fields.value(name, list)] if one else fields.items(name, list, type(None))
    if len(given) != len(asked.items):
        raise InvalidRequestError(f"{name} has {len(given)} lists: expected {len(asked.items)}, one per input")
    read: Callable[..., list[Label]] = (
        partial(known_labels, tags=tags) if name == "known" else SpanReader(tags).labels_in
    )
    known = [
        None if own is None else read(own, len(item), where=name if one else f"{name}[{i}]")
        for i, (item, own) in enumerate(zip(asked.items, given, strict=True))
    ]
    return asked._replace(known=known)


def known_labels(labels: list[Any], count: int, where: str, tags: TagSet) -> list[Label]:
    """Labels of tokens: one, several of which one is right, or null."""
    if len(labels) != count:
        raise InvalidRequestError(f"{where} has {len(labels)} labels for {count} tokens: expected as many")
    for label in labels:
        for one in label if type(label) is list else [label]:
            if not (one is None and label is None) and (type(one) is not str or one not in tags):
                raise InvalidRequestError(
                    f"{where} must be labels of the model, lists of them, or null, got {shown(one)}"
                )
        if label == []:
            raise InvalidRequestError(f"{where} has an empty list of labels")
    return labels


Known = tuple[int, int, str | None]
"""Where a span begins and ends, in tokens, and its label; None is outside of all spans."""


class SpanReader:
    """Reads known spans as labels, for one tag set: what spans of a kind say is found out once."""

    def __init__(self, tags: TagSet) -> None:
        self._tags, self._every = tags, frozenset(range(len(tags)))
        self._kinds = {kind for role, kind in tags.parsed if role is not Role.O}
        self._outside = next((i for i, (role, _) in enumerate(tags.parsed) if role is Role.O), None)
        self._ways: dict[tuple[int, str], _Way] = {}

    def labels_in(self, spans: list[Any], count: int, where: str) -> list[Label]:
        """What the known spans of a request say about the labels of `count` tokens."""
        most = _OVERLAPS * count
        if len(spans) > most:
            raise TooLargeError(f"{where} has {len(spans)} spans: expected at most {most} for {count} tokens")
        found = [self._span(span, count, f"{where}[{i}]") for i, span in enumerate(spans)]
        tokens = sum(end - start for start, end, _ in found)
        if tokens > most:
            raise TooLargeError(f"{where} has spans of {tokens} tokens: expected at most {most} for {count} tokens")
        return self.labels(found, count)

    def labels(self, spans: Sequence[Known], count: int) -> list[Label]:
        """What is known of the labels of tokens: those of the spans, and that their neighbours do not extend them.

        IOB1 and IOE1 write a span differently next to another of its kind; here it is written as if it stood alone.
        """
        every, names = self._every, self._tags.labels
        allowed = [every] * count
        for span in spans:
            for position, own in self._allowed(span, count):
                allowed[position] = allowed[position] & own
        if not all(allowed):
            raise InvalidRequestError(f"known spans contradict each other at token {allowed.index(frozenset())}")
        return [None if len(own) == len(every) else [names[i] for i in sorted(own)] for own in allowed]

    def _span(self, value: Any, count: int, where: str) -> Known:
        """A known span ``{"start", "end", "label"}`` of a request; its label may be null."""
        fields = Fields(value, where, InvalidRequestError)
        start, end = fields.integer("start", 0, count), fields.integer("end", 0, count)
        label = fields.value("label", str, type(None))
        if not start < end:
            raise InvalidRequestError(f"{where} must have at least one token, got tokens {start} to {end - 1}")
        if label is None and self._outside is None:
            raise InvalidRequestError(
                f"{where}: this model has no label for tokens outside spans, so label must be a string"
            )
        if label is not None and label not in self._kinds:
            raise InvalidRequestError(
                f"{where}: label must be one of {', '.join(sorted(self._kinds)) or 'none'}, got {label[:80]!r}"
            )
        return start, end, label

    def _allowed(self, span: Known, count: int) -> Iterator[tuple[int, frozenset[int]]]:
        """The labels that one span leaves to tokens."""
        start, end, label = span
        way = self._way(min(end - start, _FORMS), label)
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
