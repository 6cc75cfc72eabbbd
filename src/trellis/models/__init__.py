"""Taggers: every family keeps the contract of `trellis.models.base`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trellis import store
from trellis.errors import StoreError
from trellis.models.base import Labelling, ScoredSpan, Tagger
from trellis.models.crf import CRF, CRFConfig
from trellis.models.hmm import HMM, HMMConfig
from trellis.models.markov import MarkovChain

__all__ = ["CRF", "HMM", "CRFConfig", "HMMConfig", "Labelling", "MarkovChain", "ScoredSpan", "Tagger", "load"]

_KINDS: dict[str, type[Tagger[Any]]] = {CRF.kind: CRF, HMM.kind: HMM}


def load(path: str | Path, *, verify: bool = True) -> Tagger[Any]:
    """Open a saved model of any kind."""
    stored = store.load(path, verify=verify)
    if stored.kind not in _KINDS:
        raise StoreError(f"{path} holds a model of unknown kind {stored.kind!r}; known are {', '.join(_KINDS)}")
    return _KINDS[stored.kind].from_stored(stored)
