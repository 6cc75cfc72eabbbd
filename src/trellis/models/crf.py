"""The classical linear-chain CRF: state and transition features with weights, trained on the CPU.

    model = CRF(features="ner", c2=0.1).fit(sentences)
    model.tag([["She", "lives", "in", "Paris"]])
    print(model.explain(["She", "lives", "in", "Paris"], 3).to_markdown())

Features come from templates (``features="ner" | "pos" | "chunk" | "segment"``, or a template file), or are given
ready for each token (``features="ready"``) as lists of strings or as the dicts that sklearn-crfsuite takes. Objective,
defaults and stopping tests are CRFsuite's; scheme constraints, on by default, are what it does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt

from trellis import _native, chain
from trellis.config import setting
from trellis.errors import ConfigError, ModelError, StoreError, TemplateError
from trellis.features import AttributeIndex, Extractor, ReadyExtractor, TemplateExtractor, Templates, get_templates
from trellis.models.base import Tagger
from trellis.models.crf_explain import FeatureTable, TransitionTable, explain_features, top_features, transitions
from trellis.models.crf_problem import Choice, CRFObjective, Parameters, scores_of
from trellis.models.crf_training import train
from trellis.models.data import Labelled, learnt_tag_set
from trellis.models.explanation import Explanation
from trellis.models.fitting import FitOptions
from trellis.store import Stored
from trellis.tags import TagSet
from trellis.untrusted import Fields

_LARGE = 50_000  # tokens


@dataclass(frozen=True)
class CRFConfig:
    """Settings of a feature CRF; the defaults are CRFsuite's where it has the setting."""

    features: str = setting(
        "ner", "ner, pos, chunk, segment, or the path of a template file; ready: features are given"
    )
    algorithm: Literal["lbfgs", "owlqn", "sgd", "ap"] = setting(
        "lbfgs", "lbfgs (L2), owlqn (L1 and L2), sgd, or ap (averaged perceptron)"
    )
    c1: float = setting(0.0, "coefficient of |w|_1; above 0, lbfgs becomes owlqn")
    c2: float = setting(1.0, "coefficient of |w|^2")
    max_iterations: int | None = setting(None, "at most so many; unset: lbfgs and owlqn no limit, sgd 50, ap 20")
    epsilon: float = setting(1e-5, "lbfgs, owlqn: stop when |gradient| < epsilon * max(1, |w|)")
    delta: float = setting(
        1e-5, "lbfgs, owlqn: stop when the loss fell by less than this share over `period` iterations"
    )
    period: int = setting(10, "see delta")
    memory: int = setting(6, "lbfgs, owlqn: steps remembered")
    max_linesearch: int = setting(20, "lbfgs, owlqn: trials of a step length")
    batch_size: int = setting(8, "sgd: sentences a step")
    learning_rate: float | None = setting(None, "sgd: first step length; unset: found on a sample")
    min_freq: float = setting(0.0, "features that occur less often get no weight")
    all_possible_states: bool = setting(False, "weights also for attributes with labels they never occur with")
    all_possible_transitions: bool = setting(False, "weights also for transitions that never occur")
    scheme: str | None = setting(None, "tag scheme, e.g. bio; unset: the one that fits the labels best")
    constraints: bool = setting(True, "forbid what the scheme forbids, in training and in tagging")
    label_weights: Mapping[str, float] | None = setting(None, "how much tokens of a label count; 1 unless given")
    patience: int | None = setting(None, "stop after so many iterations without a better score on the held-out data")
    precision: Literal["auto", "single", "double"] = setting(
        "auto",
        "lbfgs, owlqn: of scores and marginals (sums are always double); auto: single for large corpora unless\n"
        "epsilon or delta is below 1e-6",
    )
    seed: int = setting(0, "of sgd's and ap's shuffling")

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        for name in ("c1", "c2", "min_freq", "epsilon", "delta"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} must be a finite number >= 0, got {value!r}")
        for name, least in (("period", 0), ("memory", 1), ("max_linesearch", 1), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, got {getattr(self, name)!r}")


@final
class CRF(Tagger[CRFConfig]):
    """Linear-chain CRF over templates or ready features; see the module for how to use it."""

    kind: ClassVar[str] = "crf"
    config_class: ClassVar[type[Any]] = CRFConfig
    parameters_: Parameters
    _cached: Extractor | None = None
    _scorer: tuple[Parameters, _native.TokenScorer] | None = None

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        options.refuse_resume("a feature CRF")
        extractor = self._extractor()
        before = (self.parameters_, self.tagset_) if self._goes_on(options) else (None, None)
        index = AttributeIndex() if before[0] is None else AttributeIndex(before[0].index.native.growing())
        compiled = extractor.compile(data.inputs, index, grow=True)
        tags = learnt_tag_set(data, self.config.scheme, self.config.constraints, before[1])
        objective = CRFObjective(
            compiled,
            index,
            data,
            tags,
            self._choice(),
            c2=self.config.c2 if self.config.algorithm != "ap" else 0.0,
            sentence_weights=options.sentence_weights,
            token_weights=_token_weights(data, tags, self.config.label_weights),
            single=_in_single_precision(self.config, compiled.tokens),
        )
        start = np.zeros(objective.size)
        if before[0] is not None and before[1] is not None:
            start = objective.take_over(before[0], before[1])
        held_out = None if dev is None else (extractor.compile(dev.inputs, index, grow=False), dev)
        trained = train(objective, start, self.config, held_out, options.progress)
        self.parameters_ = objective.parameters(trained.weights).pruned()
        self.tagset_, self.history_, self._cached = tags, trained.history, extractor

    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        p, extractor = self._fitted(), self._extractor()
        if not isinstance(extractor, TemplateExtractor):
            return scores_of(extractor.compile(inputs, p.index, grow=False), p)
        if self._scorer is None or self._scorer[0] is not p:
            self._scorer = p, _native.TokenScorer(extractor.templates.native, p.index.native, p.ready)
        emissions, offsets = extractor.score(inputs, self._scorer[1])
        return chain.ChainScores(emissions, np.diff(offsets), p.transitions, p.start, p.end)

    def explain(self, sentence: Any, position: int) -> Explanation:
        """Why the token at `position` got its label: what spoke for it and what for the runner-up.

        The runner-up is the best labelling of the sentence with another label there; the differences of all
        features and transitions add up to the difference of the two scores.
        """
        return explain_features(sentence, position, self._extractor(), self._fitted(), self._fitted_tags())

    def top_features(self, label: str | None = None, n: int = 10) -> FeatureTable:
        """The `n` state features with the largest weights, by size, of one label or of all."""
        return top_features(self._fitted(), self._fitted_tags(), label, n)

    def transitions(self) -> TransitionTable:
        """Weights of transitions from row to column."""
        return transitions(self._fitted(), self._fitted_tags())

    def feature_names(self, sentence: Any) -> list[list[str]]:
        """The names of the features of each token, known to the model or not."""
        names = self._extractor().strings(sentence)
        if names is None:
            raise ModelError("ready features have no templates to be named by")
        return names

    def _choice(self) -> Choice:
        extractor = self._extractor()
        c = self.config
        has_transitions = not isinstance(extractor, TemplateExtractor) or extractor.templates.transitions
        return Choice(c.min_freq, c.all_possible_states, c.all_possible_transitions, has_transitions, c.constraints)

    def _fitted(self) -> Parameters:
        self._fitted_tags()
        return self.parameters_

    def _extractor(self) -> Extractor:
        if self._cached is None or not self.__sklearn_is_fitted__():
            features = self.config.features
            self._cached = ReadyExtractor() if features == "ready" else TemplateExtractor(get_templates(features))
        return self._cached

    def _state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        p, extractor = self._fitted(), self._extractor()
        templates = None
        if isinstance(extractor, TemplateExtractor):
            templates = {"name": extractor.templates.name, "text": extractor.templates.text}
        arrays: dict[str, npt.NDArray[Any]] = {
            **p.index.arrays(),
            "pair_ends": p.ends,
            "pair_labels": p.labels,
            "pair_weights": p.weights,
            "transitions": p.transitions,
            "weighted": p.weighted.view(np.uint8),
            "start": p.start,
            "end": p.end,
        }
        return {"templates": templates}, arrays

    def _restore(self, stored: Stored) -> None:
        self.parameters_ = _stored_parameters(stored, len(self._fitted_tags()))
        templates = stored.manifest.optional_table("templates")
        self._cached = ReadyExtractor() if templates is None else TemplateExtractor(_stored_templates(templates))


def _in_single_precision(settings: CRFConfig, tokens: int) -> bool:
    """Single precision leaves the loss exact to about 1e-8, which is enough unless the stopping tests are finer."""
    if settings.precision == "auto":
        return tokens >= _LARGE and min(settings.epsilon, settings.delta) >= 1e-6
    return settings.precision == "single"


def _token_weights(data: Labelled, tags: TagSet, weights: Mapping[str, float] | None) -> npt.NDArray[np.float64] | None:
    if weights is None:
        return None
    if data.partial:
        raise ModelError("label_weights need labels that are fully known")
    by_label = np.ones(len(tags))
    for label, weight in weights.items():
        if not (np.isfinite(weight) and weight >= 0):
            raise ConfigError(f"label_weights: the weight of {label!r} must be a finite number >= 0, got {weight!r}")
        by_label[tags.id(label)] = weight
    return by_label[data.encode(tags)]


def _stored_parameters(stored: Stored, L: int) -> Parameters:
    """The arrays of a saved model for L labels, each of which native code indexes by."""
    index = AttributeIndex.from_stored(stored)
    labels = stored.array("pair_labels", np.uint16, (None,), 0, L - 1)
    forbidden = -np.inf
    return Parameters(
        index,
        stored.ends("pair_ends", np.int64, len(labels), len(index)),
        labels,
        stored.array("pair_weights", np.float64, (len(labels),)),
        stored.array("transitions", np.float64, (L, L), forbidden),
        stored.array("weighted", np.uint8, (L, L), 0, 1).astype(np.bool_),
        stored.array("start", np.float64, (L,), forbidden),
        stored.array("end", np.float64, (L,), forbidden),
    )


def _stored_templates(fields: Fields) -> Templates:
    try:
        return Templates.parse(fields.text("text"), name=fields.text("name"))
    except TemplateError as error:
        raise StoreError(f"{fields.where}: {error}") from None
