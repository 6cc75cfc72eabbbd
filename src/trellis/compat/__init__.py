"""One-line migration: each module mirrors the public names of the package it is named after.

Programs that cannot be changed get a module under the name of the package: `install` does that in a running program,
``python -m trellis.compat script.py`` for a script.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType

from trellis.errors import ConfigError, did_you_mean

__all__ = ["PACKAGES", "Aliases", "install", "uninstall"]

PACKAGES = ("pycrfsuite", "sklearn_crfsuite", "hmmlearn", "seqeval", "torchcrf")
"""The packages that have a module here that can take their names."""
_NEEDED = {"sklearn_crfsuite": ("pycrfsuite",)}
"""Packages that come with another: its pickles name their classes."""


class Aliases:
    """Packages whose names were taken by `install`; at the end of a ``with`` they are given back."""

    def __init__(self, *packages: str) -> None:
        self.packages = packages

    def __enter__(self) -> Aliases:
        return self

    def __exit__(self, *_: object) -> None:
        uninstall(*self.packages)


def install(*packages: str) -> Aliases:
    """From now on, ``import`` of these packages, by default of all in `PACKAGES`, finds the modules of Trellis.

    That lasts until `uninstall`, or until the end of a ``with install(...):``. A package that has been imported already
    is an error, since parts of the program would go on with it.
    """
    chosen = _checked(packages)
    wanted = tuple(dict.fromkeys(name for package in chosen for name in (package, *_NEEDED.get(package, ()))))
    new = tuple(package for package in wanted if not _is_ours(sys.modules.get(package)))
    for package in new:
        loaded = next((name for name in sys.modules if name.partition(".")[0] == package), None)
        if loaded is not None and package in chosen:
            raise ConfigError(f"{loaded} is already imported: call trellis.compat.install before it is")
    new = tuple(package for package in new if package not in sys.modules)
    # All are imported before any gets a name.
    modules = [(package, list(_modules(package))) for package in new]
    for package, found in modules:
        for name, module in found:
            sys.modules[package + name] = module
    return Aliases(*new)


def uninstall(*packages: str) -> None:
    """``import`` of these packages, by default of all in `PACKAGES`, finds the real ones again."""
    for package in _checked(packages):
        if _is_ours(sys.modules.get(package)):
            for name in [name for name in sys.modules if name.partition(".")[0] == package]:
                del sys.modules[name]


def _checked(packages: tuple[str, ...]) -> tuple[str, ...]:
    for package in packages:
        if package not in PACKAGES:
            known = ", ".join(PACKAGES)
            raise ConfigError(f"package must be one of {known}, got {package!r}{did_you_mean(package, PACKAGES)}")
    return packages or PACKAGES


def _is_ours(module: ModuleType | None) -> bool:
    return module is not None and module.__name__.startswith(f"{__name__}.")


def _modules(package: str) -> Iterator[tuple[str, ModuleType]]:
    """The module of a package and those inside, by the rest of their names."""
    top = importlib.import_module(f"{__name__}.{package}")
    yield "", top
    for found in pkgutil.walk_packages(getattr(top, "__path__", []), f"{top.__name__}."):
        yield found.name.removeprefix(top.__name__), importlib.import_module(found.name)
