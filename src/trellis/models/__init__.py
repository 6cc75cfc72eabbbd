"""Taggers: every family keeps the contract of `trellis.models.tagger`."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    "HMMConfig",
    "Labelling",
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

# Imported when they are asked for: torch comes with neural taggers, and tagging with one family needs no other.
__getattr__ = lazily(
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
