"""Taggers: every family keeps the contract of `trellis.models.tagger`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trellis.lazy import lazily
from trellis.models.answers import Labelling, Tagged, TextSpan
from trellis.models.crf import CRF, CRFConfig
from trellis.models.folder import load
from trellis.models.posterior import Posterior
from trellis.models.tagger import Tagger
from trellis.tags.spans import ScoredSpan

if TYPE_CHECKING:
    from trellis.models.ensemble import Ensemble
    from trellis.models.hmm import HMM, HMMConfig
    from trellis.models.neural.config import NeuralConfig
    from trellis.models.neural.model import NeuralTagger
    from trellis.models.pipeline import Pipeline
    from trellis.models.selection import Selected, select

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

# Imported when they are asked for: torch comes with neural taggers, and whoever tags with one family needs no other.
_find = lazily(
    __name__,
    {
        "ensemble": ("Ensemble",),
        "hmm": ("HMM", "HMMConfig"),
        "neural.config": ("NeuralConfig",),
        "neural.model": ("NeuralTagger",),
        "pipeline": ("Pipeline",),
        "selection": ("Selected", "select"),
    },
)


def __getattr__(name: str) -> Any:
    if name in ("FeatureFunctions", "MarkovChain"):  # at home in trellis.study, a layer above
        return getattr(import_module("trellis.study"), name)
    return _find(name)
