"""Packages that only some runs need: imported where they are used, and asked for by the name of their extra."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trellis.errors import ConfigError, TrellisError


@contextmanager
def required(what: str, package: str, error: type[TrellisError] = ConfigError, instead: str = "") -> Iterator[None]:
    """Around imports: if a package is missing, the error says what needs it and how to install it.

    Args:
        what: who needs it, the beginning of the message.
        package: what to install: a package, or an extra of ours, e.g. "trellis-crf[neural]".
        error: the kind of error.
        instead: what works without the package, the end of the message.

    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "trellis":
            raise
        install = f"'{package}'" if "[" in package else package
        raise error(f"{what} needs {missing.name}: pip install {install}{instead and '; '}{instead}") from None


def needed(module: str, extra: str, what: str) -> Any:
    """A module of one of our extras; see `required`."""
    with required(what, f"trellis-crf[{extra}]"):
        return importlib.import_module(module)
