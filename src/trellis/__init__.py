"""Trellis: exact, fast sequence labelling over one linear-chain core.

Names load when they are first used, so ``import trellis`` is quick and imports neither torch nor anything else that
the program does not use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trellis.lazy import lazily

if TYPE_CHECKING:
    from trellis.chain import ChainScores, get_num_threads, set_num_threads
    from trellis.lexicon import Lexicon
    from trellis.models import CRF, HMM, NeuralTagger, Pipeline, load, select
    from trellis.study import FeatureFunctions, MarkovChain
    from trellis.text import Sentence

__version__ = "0.1.0"

_named = lazily(
    "trellis",
    {
        "chain": ("ChainScores", "get_num_threads", "set_num_threads"),
        "lexicon": ("Lexicon",),
        "models": ("CRF", "HMM", "NeuralTagger", "Pipeline", "load", "select"),
        "study": ("FeatureFunctions", "MarkovChain"),
        "text": ("Sentence",),
    },
)

_PARTS = (
    "chain",
    "compat",
    "config",
    "corpus",
    "demo",
    "distributed",
    "errors",
    "export",
    "features",
    "lexicon",
    "metrics",
    "models",
    "nn",
    "ragged",
    "store",
    "study",
    "tags",
    "text",
    "training",
)

__all__ = [
    "CRF",
    "HMM",
    "ChainScores",
    "FeatureFunctions",
    "Lexicon",
    "MarkovChain",
    "NeuralTagger",
    "Pipeline",
    "Sentence",
    "__version__",
    "get_num_threads",
    "load",
    "select",
    "set_num_threads",
]


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"trellis.{name}") if name in _PARTS else _named(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_PARTS})
