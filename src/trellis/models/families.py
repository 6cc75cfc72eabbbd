"""The families of taggers by the names people use: of which kind each is, and with which settings it starts.

This is the one place where a name becomes a tagger. The settings and the class of a family are imported when they are
asked for, and settings can be printed without torch; a neural tagger loads torch to learn, or if only torch computes
its network.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trellis import config
from trellis.errors import ConfigError, StoreError, did_you_mean

if TYPE_CHECKING:
    from trellis.models.tagger import Tagger


@dataclass(frozen=True)
class Family:
    """A kind of tagger, and what this family changes of the default settings of that kind."""

    about: str
    """One line for people who choose a family."""
    kind: str
    """The kind under which its models are stored."""
    tagger: str
    """Module and name of the class of taggers of this kind."""
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
        return config.changed(tagger_class(self.kind).config_class(), self.settings)

    def check(self, settings: Any) -> None:
        """Refuse settings with which this family cannot learn."""
        if self.required is not None and config.flat(settings)[self.required] is None:
            raise ConfigError(
                f"this family needs the setting {self.required!r}, the folder or the Hub's name of a pretrained "
                f"encoder; on the command line --set {self.required}=bert-base-cased"
            )


_NEURAL = ("neural", "trellis.models.neural.model:NeuralTagger")
FAMILIES = {
    "hmm": Family(
        "hidden Markov model: counts, seconds to train, unknown words by suffix and shape",
        "hmm",
        "trellis.models.hmm.model:HMM",
    ),
    "crf": Family(
        "feature CRF: templates and exact training on the CPU, explains its answers",
        "crf",
        "trellis.models.crf.model:CRF",
    ),
    "softmax": Family(
        "neural, each token by itself from its own word and characters",
        *_NEURAL,
        {"head": "softmax", "encoder": {"hidden": 0}},
    ),
    "bilstm-crf": Family("neural, BiLSTM with a CRF over the labels", *_NEURAL, {"head": "crf"}),
    "bilstm-semicrf": Family("neural, BiLSTM with a semi-Markov CRF over whole spans", *_NEURAL, {"head": "semicrf"}),
    "bilstm-softmax": Family("neural, BiLSTM with one decision per token", *_NEURAL, {"head": "softmax"}),
    "transformer-crf": Family(
        "neural, a pretrained encoder with a CRF over the labels", *_NEURAL, {"head": "crf"}, "encoder.transformer"
    ),
    "transformer-softmax": Family(
        "neural, a pretrained encoder with one decision per token", *_NEURAL, {"head": "softmax"}, "encoder.transformer"
    ),
}


def get_family(name: str) -> Family:
    """The family of that name."""
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ConfigError(f"unknown model {name!r}: expected one of {known}{did_you_mean(name, FAMILIES)}")
    return FAMILIES[name]


def make_tagger(family: Family, settings: Any) -> Tagger[Any]:
    """A tagger of this family with these settings, not yet fitted."""
    family.check(settings)
    return tagger_class(family.kind)(settings)


def tagger_class(kind: str) -> type[Tagger[Any]]:
    """The class of models that are stored under this kind."""
    classes = {family.kind: family.tagger for family in FAMILIES.values()}
    classes["ensemble"] = "trellis.models.ensemble:Ensemble"  # it does not learn, so it is no family
    if kind not in classes:
        raise StoreError(f"a model of unknown kind {kind!r}; known are {', '.join(sorted(classes))}")
    module, _, name = classes[kind].partition(":")
    tagger: type[Tagger[Any]] = getattr(importlib.import_module(module), name)
    return tagger
