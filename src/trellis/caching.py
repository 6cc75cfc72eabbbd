"""Attributes that are computed when they are first asked for.

`functools.cached_property` of Python 3.11 holds one lock for all instances while it computes. That makes threads wait
for each other, and a process that forks while another thread is computing waits forever. Here two threads that ask at
the same moment may both compute, and one of their equal answers stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached(Generic[T]):  # noqa: N801 - a decorator
    """A method without arguments as an attribute whose value is kept in the instance."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)  # from now on found before this descriptor
        return value
