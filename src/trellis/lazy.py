"""What waits until it is first asked for: names of packages, and attributes that are computed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


def lazily(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package, given the names that may be in each of its modules, which are tried in turn.

    ``dir()`` of the package lists these names from now on, as completion needs them.
    """
    homes_of: dict[str, list[str]] = {}
    for module, names in homes.items():
        for name in names:
            homes_of.setdefault(name, []).append(f"{package}.{module}")
    there = vars(sys.modules[package])
    there.setdefault("__dir__", lambda: sorted({*there, *homes_of}))

    def find(name: str) -> Any:
        for home in homes_of.get(name, ()):
            module = importlib.import_module(home)
            if hasattr(module, name):
                there[name] = getattr(module, name)  # from now on found without asking here
                return there[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


class cached(Generic[T]):  # noqa: N801 - a decorator
    """A method without arguments as an attribute whose value is kept in the instance.

    `functools.cached_property` of Python 3.11 holds one lock for all instances while it computes. That makes threads
    wait for each other, and a process that forks while another thread is computing waits forever. Here two threads that
    ask at the same moment may both compute, and one of their equal answers stays.
    """

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
