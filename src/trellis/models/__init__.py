"""Taggers: every family keeps the contract of `trellis.models.base`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trellis import store
from trellis.errors import StoreError
from trellis.models.base import Labelling, ScoredSpan, Tagger
from trellis.models.crf import CRF, CRFConfig
from trellis.models.hmm import HMM, HMMConfig
from trellis.models.markov import MarkovChain

if TYPE_CHECKING:
    from trellis.models.neural import NeuralTagger
    from trellis.models.neural_config import NeuralConfig

__all__ = [
    "CRF",
    "HMM",
    "CRFConfig",
    "HMMConfig",
    "Labelling",
    "MarkovChain",
    "NeuralConfig",
    "NeuralTagger",
    "ScoredSpan",
    "Tagger",
    "load",
]

_LAZY = {"NeuralConfig": "trellis.models.neural_config", "NeuralTagger": "trellis.models.neural"}  # with torch
_KINDS = {"crf": "CRF", "hmm": "HMM", "neural": "NeuralTagger"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def load(path: str | Path, *, verify: bool = True) -> Tagger[Any]:
    """Open a saved model of any kind."""
    stored = store.load(path, verify=verify)
    if stored.kind not in _KINDS:
        raise StoreError(f"{path} holds a model of unknown kind {stored.kind!r}; known are {', '.join(_KINDS)}")
    family: type[Tagger[Any]] = getattr(sys.modules[__name__], _KINDS[stored.kind])
    return family.from_stored(stored)
