"""Packages that only some runs need: imported where they are used, and asked for by the name of their extra."""

from __future__ import annotations

import importlib
from typing import Any

from trellis.errors import ConfigError


def needed(module: str, extra: str, what: str) -> Any:
    """A module of an extra; if it is missing, the error says what needs it and how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ConfigError(f"{what} needs {error.name}: pip install 'trellis-crf[{extra}]'") from None
