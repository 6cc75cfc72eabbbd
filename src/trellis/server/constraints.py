"""What a client knows already: labels of tokens, or spans, which become labels that condition a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import UNSET

from trellis.arrays import BoolArray
from trellis.errors import shown
from trellis.models.data import Label
from trellis.ragged import ranges
from trellis.server.problems import invalid, too_large
from trellis.server.schemas import KnownSpan, TagRequest, TrellisRequest
from trellis.tags import Role, Scheme, Span, TagSet

_OVERLAPS = 4  # known spans that a token may be in, on average


def constraints_of(
    request: TagRequest | TrellisRequest, items: Sequence[Sequence[str]], tags: TagSet
) -> list[list[Label] | None] | None:
    """What a request knows of the labels of its inputs, which are split into tokens; None if it knows nothing."""
    if request.known is UNSET and request.known_spans is UNSET:
        return None
    if request.known is not UNSET and request.known_spans is not UNSET:
        raise invalid("the request must have one of known, known_spans, got both")
    name, read = ("known", check_labels) if request.known_spans is UNSET else ("known_spans", labels_of_spans)
    values = getattr(request, name)
    if isinstance(request, TrellisRequest):
        return [read(values, len(items[0]), name, tags)]
    if len(values) != len(items):
        raise invalid(f"{name} has {len(values)} lists: expected {len(items)}, one per input")
    return [
        None if value is None else read(value, len(item), f"{name}[{i}]", tags)
        for i, (value, item) in enumerate(zip(values, items, strict=True))
    ]


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
        possible = np.array(
            [label is None or one in ([label] if isinstance(label, str) else label) for one in tags.labels]
        )
        reached = possible & (reached if t == 0 else allowed.transitions[reached].any(axis=0))
        if t == len(labels) - 1:
            reached = reached & allowed.end
        if not reached.any():
            before = "the start" if t == 0 else shown(labels[t - 1])
            where_it_ends = " at the end" if t == len(labels) - 1 else ""
            raise invalid(f"{where}[{t}] does not fit the scheme: got {shown(label)} after {before}{where_it_ends}")


def labels_of_spans(spans: Sequence[KnownSpan], count: int, where: str, tags: TagSet) -> list[Label]:
    """The labels that known spans leave to `count` tokens: their own, and neighbours that do not extend them.

    IOB1 and IOE1 write a span differently next to another of its kind; here it is written as if it stood alone.
    """
    most = _OVERLAPS * count
    if len(spans) > most:
        raise too_large(f"{where} has {len(spans)} spans: expected at most {most} for {count} tokens")
    kinds = {kind for role, kind in tags.parsed if role is not Role.O}
    outside = next((i for i, (role, _) in enumerate(tags.parsed) if role is Role.O), None)
    for i, span in enumerate(spans):
        place = f"{where}[{i}]"
        if span.end > count:
            raise invalid(f"{place}: end must be in 0..{count}, got {span.end}")
        if not span.start < span.end:
            raise invalid(f"{place} must have at least one token, got tokens {span.start} to {span.end - 1}")
        if span.label is None and outside is None:
            raise invalid(f"{place}: this model has no label for tokens outside spans, so label must be a string")
        if span.label is not None and span.label not in kinds:
            raise invalid(
                f"{place}: label must be one of {', '.join(sorted(kinds)) or 'none'}, got {span.label[:80]!r}"
            )
    tokens = sum(span.end - span.start for span in spans)
    if tokens > most:
        raise too_large(f"{where} has spans of {tokens} tokens: expected at most {most} for {count} tokens")
    allowed = np.ones((count, len(tags)), dtype=bool)
    written = [span for span in spans if span.label is not None and tags.scheme is not Scheme.PLAIN]
    for span in spans:
        if span.label is None or tags.scheme is Scheme.PLAIN:
            label_id = outside if span.label is None else tags.id(span.label)
            allowed[span.start : span.end] &= np.arange(len(tags)) == label_id
    if written:
        _write(written, allowed, tags)
    if not allowed.any(axis=1).all():
        raise invalid(f"known spans contradict each other at token {np.flatnonzero(~allowed.any(axis=1))[0]}")
    labels: list[Label] = [None] * count
    for t in np.flatnonzero(~allowed.all(axis=1)).tolist():
        labels[t] = [tags.labels[i] for i in np.flatnonzero(allowed[t])]
    return labels


def _write(spans: Sequence[KnownSpan], allowed: BoolArray, tags: TagSet) -> None:
    """Restrict ``allowed[t, i]`` to the labels of spans; a span that the labels cannot write restricts nothing."""
    sizes = np.array([span.end - span.start for span in spans])
    alone = [[Span(0, span.end - span.start, span.label or "")] for span in spans]
    way = tags.ways_of_writing(tags.table_of_spans(alone, sizes), sizes)[0]
    starts, sizes = np.array([span.start for span in spans])[way.rows], sizes[way.rows]
    # The tokens of all spans, one span after another, as `way.tags` has their labels.
    tokens = ranges(starts, sizes)
    np.logical_and.at(allowed, tokens, way.tags[:, None] == np.arange(len(tags)))
    for neighbours, rows in ((starts - 1, way.before), (starts + sizes, way.after)):
        if rows is not None:
            inside = (neighbours >= 0) & (neighbours < len(allowed))
            np.logical_and.at(allowed, neighbours[inside], rows[inside])
