"""``sklearn_crfsuite.utils``, which formasaurus imports."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

__all__ = ["flatten"]

T = TypeVar("T")


def flatten(y: Iterable[Iterable[T]]) -> list[T]:
    """The items of all lists, one list after another."""
    return list(chain.from_iterable(y))
