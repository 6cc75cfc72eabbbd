"""Columns of CoNLL that are not where they usually are: refused, since they would be learned from in silence.

In ``1 Ada B-PER`` the first column counts the tokens or the sentences; in ``B-PER Ada`` the tag stands before its
token.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trellis.corpus._looks import CAPITALS, SPAN_LABEL, mostly
from trellis.errors import DataError, shown

_FEWEST = 4
"""Lines that are needed to say that numbers count them."""
_RATIO, _CLEAR_RATIO = 3, 10
"""How many values per value of the first column the last one has where the first one has the tags."""
_MANY = 50


def check_placing(
    name: str, first: Sequence[str], last: Sequence[str] | None, between: Sequence[str] | None = None
) -> None:
    """Refuse a file whose first column has no tokens.

    `last` is the column of the tags, if there is one, and `between` the second one, if it is another.
    """
    keep = "if they are the tokens, give --tokens 0 (in Python tokens=0)"
    if _count_tokens(first) or (between is not None and _number_words(first, between)):
        raise DataError(
            f"{name}: expected tokens in the first column, found numbers that count them or their sentences; give "
            f"--tokens 1 (in Python tokens=1), or wherever they are (from 0); {keep}"
        )
    if last is not None and (_are_labels(first, last) or _are_fewer(first, last)):
        some = ", ".join(shown(value) for value in sorted(set(first), key=first.index)[:3])
        raise DataError(
            f"{name}: expected tokens in the first column and tags in the last one, found what looks like tags in the "
            f"first ({some}) and like tokens in the last; give --tokens -1 --tags 0 (in Python tokens=-1, tags=0); "
            f"{keep}"
        )


def _count_tokens(values: Sequence[str]) -> bool:
    """Whether they count up by one, and begin again with 0 or 1."""
    if len(values) < _FEWEST or not all(value.isdecimal() and len(value) < 10 for value in values):
        return False
    numbers = [int(value) for value in values]
    steps = pairwise(numbers)
    return numbers[0] in (0, 1) and mostly(b == a + 1 or b in (0, 1) for a, b in steps) and len(set(numbers)) >= _FEWEST


def _number_words(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first column has only numbers, and the second one hardly any."""
    if len(first) < _FEWEST or not all(value.isdecimal() for value in first):
        return False
    return not any(map(str.isdecimal, second[:_FEWEST])) and mostly(not value.isdecimal() for value in second)


def _are_labels(first: Sequence[str], last: Sequence[str]) -> bool:
    """Whether the first column has labels of spans with their types, and the last one does not."""
    typed = sum("-" in value or "_" in value for value in first)
    if typed < 2 or not mostly(map(SPAN_LABEL.fullmatch, first)):
        return False
    return not mostly(map(SPAN_LABEL.fullmatch, last))


def _are_fewer(first: Sequence[str], last: Sequence[str]) -> bool:
    """Whether the last column has far more values than the first, and words among them."""
    tokens, tags = len(set(first)), len(set(last))
    if not mostly(value[:1].isalpha() or not value[:1].isalnum() for value in last):
        return False
    looks = mostly(CAPITALS.fullmatch(value) or SPAN_LABEL.fullmatch(value) for value in first)
    clear = tags >= _CLEAR_RATIO * tokens and tags >= _MANY
    return clear or (looks and tags >= _RATIO * tokens and not mostly(map(CAPITALS.fullmatch, last)))
