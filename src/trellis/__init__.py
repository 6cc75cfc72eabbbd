"""Trellis: exact, fast sequence labelling over one linear-chain core.

Names load when they are first used, so ``import trellis`` is quick and brings in neither torch nor anything else that
the program does not touch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trellis.chain import ChainScores, get_num_threads, set_num_threads

__version__ = "0.1.0"

_HOMES = {
    "ChainScores": "trellis.chain",
    "get_num_threads": "trellis.chain",
    "set_num_threads": "trellis.chain",
}

__all__ = ["ChainScores", "__version__", "get_num_threads", "set_num_threads"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'trellis' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
