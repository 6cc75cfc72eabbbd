"""The families of taggers by the names people use: of which kind each is, and with which settings it starts.

The settings of a family are imported when they are asked for, and can be printed without torch.
`trellis.models.classes` has the class of each kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trellis import config
from trellis.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Family:
    """A kind of tagger, and what this family changes of the default settings of that kind."""

    about: str
    """One line for people who choose a family."""
    kind: str
    """Under which its models are stored."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it changes of the defaults, by name; a section is a nested mapping."""
    required: str | None = None
    """A setting without which this family cannot learn."""

    @property
    def neural(self) -> bool:
        """Whether it needs torch to learn."""
        return self.kind == "neural"

    def defaults(self) -> Any:
        """The settings it starts from."""
        module, name = _CONFIGS[self.kind]
        return config.changed(getattr(importlib.import_module(module), name)(), self.settings)

    def check(self, settings: Any) -> None:
        """Refuse settings with which this family cannot learn."""
        if self.required is not None and config.flat(settings)[self.required] is None:
            raise ConfigError(f"this family needs the setting {self.required!r}, which is not set")


FAMILIES = {
    "hmm": Family("hidden Markov model: counts, seconds to train, unknown words by suffix and shape", "hmm"),
    "crf": Family("feature CRF: templates and exact training on the CPU, explains its answers", "crf"),
    "softmax": Family(
        "neural, each token by itself from its own word and characters",
        "neural",
        {"head": "softmax", "encoder": {"hidden": 0}},
    ),
    "bilstm-crf": Family("neural, BiLSTM with a CRF over the labels", "neural", {"head": "crf"}),
    "bilstm-semicrf": Family("neural, BiLSTM with a semi-Markov CRF over whole spans", "neural", {"head": "semicrf"}),
    "bilstm-softmax": Family("neural, BiLSTM with one decision per token", "neural", {"head": "softmax"}),
    "transformer-crf": Family(
        "neural, a pretrained encoder with a CRF over the labels", "neural", {"head": "crf"}, "encoder.transformer"
    ),
    "transformer-softmax": Family(
        "neural, a pretrained encoder with one decision per token", "neural", {"head": "softmax"}, "encoder.transformer"
    ),
}

_CONFIGS = {
    "crf": ("trellis.models.crf.config", "CRFConfig"),
    "hmm": ("trellis.models.hmm.config", "HMMConfig"),
    "neural": ("trellis.models.neural.config", "NeuralConfig"),
}


def get_family(name: str) -> Family:
    """The family of that name."""
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ConfigError(f"unknown model {name!r}: expected one of {known}{did_you_mean(name, FAMILIES)}")
    return FAMILIES[name]
