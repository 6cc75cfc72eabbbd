"""The one place where a name becomes a tagger: that of a family, or the kind of a stored model.

A class is imported when it is asked for. Torch is not: a neural tagger loads it to learn, or if only torch computes
its network.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from trellis import store
from trellis.errors import StoreError
from trellis.models.families import Family
from trellis.models.folder import model_file
from trellis.models.tagger import Tagger

_TAGGERS = {
    "crf": ("trellis.models.crf.model", "CRF"),
    "ensemble": ("trellis.models.ensemble", "Ensemble"),
    "hmm": ("trellis.models.hmm.model", "HMM"),
    "neural": ("trellis.models.neural.model", "NeuralTagger"),
}


def make_tagger(family: Family, settings: Any) -> Tagger[Any]:
    """A tagger of this family with these settings, not yet fitted."""
    family.check(settings)
    return tagger_class(family.kind)(settings)


def load(path: str | Path, *, verify: bool = True) -> Tagger[Any]:
    """Open a saved model of any kind: a file that `save` wrote, or a folder that ``trellis train`` made."""
    stored = store.load(model_file(path), verify=verify)
    try:
        cls = tagger_class(stored.kind)
    except StoreError as error:
        raise StoreError(f"{path} holds {error}") from None
    return cls.from_stored(stored)


def tagger_class(kind: str) -> type[Tagger[Any]]:
    """The class of models that are stored under this kind."""
    if kind not in _TAGGERS:
        raise StoreError(f"a model of unknown kind {kind!r}; known are {', '.join(_TAGGERS)}")
    module, name = _TAGGERS[kind]
    found: type[Tagger[Any]] = getattr(importlib.import_module(module), name)
    return found
