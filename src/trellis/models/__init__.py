"""Taggers: every family keeps the contract of `trellis.models.base`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trellis.models.base import Tagger
from trellis.models.classes import load
from trellis.models.crf import CRF, CRFConfig
from trellis.models.ensemble import Ensemble
from trellis.models.functions import FeatureFunctions
from trellis.models.hmm import HMM, HMMConfig
from trellis.models.markov import MarkovChain
from trellis.models.pipeline import Pipeline
from trellis.models.posterior import Posterior
from trellis.models.selection import Selected, select
from trellis.models.tagged import Labelling, ScoredSpan, Tagged, TextSpan

if TYPE_CHECKING:
    from trellis.models.neural.config import NeuralConfig
    from trellis.models.neural.model import NeuralTagger

__all__ = [
    "CRF",
    "HMM",
    "CRFConfig",
    "Ensemble",
    "FeatureFunctions",
    "HMMConfig",
    "Labelling",
    "MarkovChain",
    "NeuralConfig",
    "NeuralTagger",
    "Pipeline",
    "Posterior",
    "ScoredSpan",
    "Selected",
    "Tagged",
    "Tagger",
    "TextSpan",
    "load",
    "select",
]

_LAZY = {"NeuralConfig": "trellis.models.neural.config", "NeuralTagger": "trellis.models.neural.model"}  # with torch


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
