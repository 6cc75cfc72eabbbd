"""The families of taggers by the names people call them: which class each is, and with which settings it starts.

This is the one place where a name becomes a class. Nothing is imported until it is asked for, so that torch loads only
where a neural tagger is made or opened, and its settings can be printed without it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trellis import config
from trellis.errors import ConfigError, ModelError, StoreError
from trellis.suggest import did_you_mean

if TYPE_CHECKING:
    from trellis.models.base import Tagger


@dataclass(frozen=True)
class Family:
    """A tagger class, the class of its settings, and what this family changes of their defaults."""

    about: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it changes of the defaults, by name; a section is a mapping of its own."""
    required: str | None = None
    """A setting without which this family cannot learn."""

    @property
    def neural(self) -> bool:
        """Whether it needs torch."""
        return self.kind == "neural"

    def defaults(self) -> Any:
        """The settings it starts from."""
        return config.changed(_named(_CONFIGS[self.kind])(), self.settings)

    def make(self, settings: Any) -> Tagger[Any]:
        """A tagger with these settings, not yet fitted."""
        if self.required is not None and _setting(settings, self.required) is None:
            raise ConfigError(f"this family needs the setting {self.required!r}, which is not set")
        made: Tagger[Any] = tagger_class(self.kind)(settings)
        return made


FAMILIES = {
    "hmm": Family("hidden Markov model: counts, seconds to train, unknown words by suffix and shape", "hmm"),
    "crf": Family("feature CRF: templates and exact training on the CPU, explains its answers", "crf"),
    "softmax": Family(
        "neural, each token by itself from its own word and characters",
        "neural",
        {"head": "softmax", "encoder": {"hidden": 0}},
    ),
    "bilstm-crf": Family("neural, BiLSTM with a CRF over the labels", "neural", {"head": "crf"}),
    "bilstm-softmax": Family("neural, BiLSTM with one decision per token", "neural", {"head": "softmax"}),
    "transformer-crf": Family(
        "neural, a pretrained encoder with a CRF over the labels", "neural", {"head": "crf"}, "encoder.transformer"
    ),
    "transformer-softmax": Family(
        "neural, a pretrained encoder with one decision per token", "neural", {"head": "softmax"}, "encoder.transformer"
    ),
}

_TAGGERS = {
    "crf": "trellis.models.crf.model:CRF",
    "ensemble": "trellis.models.ensemble:Ensemble",
    "hmm": "trellis.models.hmm.model:HMM",
    "neural": "trellis.models.neural.model:NeuralTagger",
}
_CONFIGS = {
    "crf": "trellis.models.crf.config:CRFConfig",
    "hmm": "trellis.models.hmm.config:HMMConfig",
    "neural": "trellis.models.neural.config:NeuralConfig",
}


def get_family(name: str) -> Family:
    """The family of that name."""
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ConfigError(f"unknown model {name!r}: expected one of {known}{did_you_mean(name, FAMILIES)}")
    return FAMILIES[name]


def tagger_class(kind: str) -> type[Tagger[Any]]:
    """The class of models that are stored under this kind."""
    if kind not in _TAGGERS:
        raise StoreError(f"a model of unknown kind {kind!r}; known are {', '.join(_TAGGERS)}")
    try:
        found: type[Tagger[Any]] = _named(_TAGGERS[kind])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "trellis":
            raise
        raise ModelError(f"a {kind} model needs {error.name}: pip install 'trellis[neural]'") from None
    return found


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _setting(settings: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        settings = getattr(settings, part)
    return settings
