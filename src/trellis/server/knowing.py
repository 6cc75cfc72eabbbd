"""What a client knows already: labels of tokens, or spans, which become labels that condition a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.models.data import Label
from trellis.server.problems import InvalidRequestError
from trellis.server.questions import Asked
from trellis.server.reading import one_of
from trellis.tags import Role, Scheme, Span, TagSet
from trellis.untrusted import Fields, shown


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
    read = known_labels if name == "known" else known_in_spans
    known = [
        None if own is None else read(own, len(item), tags, name if one else f"{name}[{i}]")
        for i, (item, own) in enumerate(zip(asked.items, given, strict=True))
    ]
    return asked._replace(known=known)


def known_in_spans(spans: list[Any], count: int, tags: TagSet, where: str) -> list[Label]:
    """What known spans say about the labels of `count` tokens."""
    found = [span_of(span, count, tags, f"{where}[{i}]") for i, span in enumerate(spans)]
    return labels_of_spans(found, count, tags)


def known_labels(labels: list[Any], count: int, tags: TagSet, where: str) -> list[Label]:
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


def span_of(value: Any, count: int, tags: TagSet, where: str) -> tuple[int, int, str | None]:
    """A known span ``{"start", "end", "label"}`` of a request, in tokens; its label may be null."""
    fields = Fields(value, where, InvalidRequestError)
    start, end = fields.integer("start", 0, count), fields.integer("end", 0, count)
    label = fields.value("label", str, type(None))
    kinds = {kind for role, kind in tags.parsed if role is not Role.O}
    if not start < end:
        raise InvalidRequestError(f"{where} must have at least one token, got tokens {start} to {end - 1}")
    if label is None and _outside(tags) is None:
        raise InvalidRequestError(
            f"{where}: this model has no label for tokens outside spans, so label must be a string"
        )
    if label is not None and label not in kinds:
        raise InvalidRequestError(
            f"{where}: label must be one of {', '.join(sorted(kinds)) or 'none'}, got {label[:80]!r}"
        )
    return start, end, label


def labels_of_spans(spans: Sequence[tuple[int, int, str | None]], count: int, tags: TagSet) -> list[Label]:
    """What is known of the labels of `count` tokens: those of the spans, and that their neighbours do not extend them.

    IOB1 and IOE1 write a span differently next to another of its kind; here it is written as if it stood alone.
    """
    every = frozenset(range(len(tags)))
    allowed = [every] * count
    for span in spans:
        for position, own in _allowed(span, count, tags):
            allowed[position] = allowed[position] & own
    if not all(allowed):
        raise InvalidRequestError(f"known spans contradict each other at token {allowed.index(frozenset())}")
    return [None if own == every else [tags.labels[i] for i in sorted(own)] for own in allowed]


def _allowed(span: tuple[int, int, str | None], count: int, tags: TagSet) -> list[tuple[int, frozenset[int]]]:
    """The labels that one span leaves to tokens."""
    start, end, label = span
    if label is None:
        outside = _outside(tags)
        assert outside is not None
        return [(t, frozenset([outside])) for t in range(start, end)]
    if tags.scheme is Scheme.PLAIN:
        return [(t, frozenset([tags.id(label)])) for t in range(start, end)]
    lengths = np.array([count])
    way = tags.ways_of_writing(tags.table_of_spans([[Span(start, end, label)]], lengths), lengths)[0]
    found = [(start + i, frozenset([int(tag)])) for i, tag in enumerate(way.tags)]
    if way.before is not None and len(way.rows) and start > 0:
        found.append((start - 1, frozenset(np.flatnonzero(way.before[0]).tolist())))
    if way.after is not None and len(way.rows) and end < count:
        found.append((end, frozenset(np.flatnonzero(way.after[0]).tolist())))
    return found


def _outside(tags: TagSet) -> int | None:
    return next((i for i, (role, _) in enumerate(tags.parsed) if role is Role.O), None)
