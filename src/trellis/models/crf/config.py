"""The settings of a feature CRF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trellis.config import setting
from trellis.errors import ConfigError


@dataclass(frozen=True)
class CRFConfig:
    """Settings of a feature CRF; the defaults are CRFsuite's where it has the setting."""

    features: str = setting(
        "ner", "ner, pos, chunk, seg, the path of a template file, or given: the inputs are features"
    )
    vectors: str | None = setting(
        None, "file of word vectors (GloVe, word2vec or fastText); clusters of words become features (%cluster)"
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
    learn_scheme: str | None = setting(
        None, "tag scheme to learn in, e.g. bio; data: that of the data; default: bioes, for words bmes"
    )
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
