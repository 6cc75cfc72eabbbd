"""What tags look like, for the guesser of formats and for readers that refuse what was put in a wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SAMPLE = 500
"""Lines at the beginning of a file that are looked at."""

MOSTLY = 0.95
_TYPE = r"[-_][^\W\d]\S*"
SPAN_LABEL = re.compile(rf"[Oo0]|[BIESMLUW](?:{_TYPE})?|[biesmluw](?:{_TYPE})?|[^\W\d]\S*-[BIESMLU]")
CAPITALS = re.compile(r"[A-Z][A-Z0-9$*+|_-]{0,14}|[^\w\s]{1,5}|-[A-Z]{3}-")
_SHORT = re.compile(r"[A-Za-z][\w$*+-]{0,3}")
_LONGEST_TAG = 20


def mostly(facts: Iterable[object]) -> bool:
    """Whether nearly all of them are true."""
    known = list(map(bool, facts))
    return sum(known) >= MOSTLY * len(known)


def are_closed(values: Sequence[str]) -> bool:
    """Whether a few short values occur again and again."""
    few = len(values) >= 20 and 4 * len(set(values)) <= len(values)
    return few and all(len(value) <= _LONGEST_TAG for value in values)


def look_like_tags(values: Sequence[str], *, short: bool) -> bool:
    """Whether nearly all are labels of spans, in capitals, or `short` words if asked; or a closed set of others."""
    forms = (SPAN_LABEL, CAPITALS, _SHORT) if short else (SPAN_LABEL, CAPITALS)
    return mostly(any(form.fullmatch(value) for form in forms) for value in values) or are_closed(values)
