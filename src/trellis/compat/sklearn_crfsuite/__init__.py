"""sklearn-crfsuite's public names on Trellis: ``from trellis.compat.sklearn_crfsuite import CRF, metrics``.

Parameters, attributes and results are those of sklearn-crfsuite 0.5.0, and so is the model: the same objective, no
scheme constraints, the same features. CRFsuite's binary model files are refused with an error that says so. Fitted
estimators can be pickled, cloned and searched over.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis import models
from trellis.compat.estimator import Estimator
from trellis.errors import ModelError, shown
from trellis.lazy import cached
from trellis.models.data import Labelled
from trellis.training import Step

__all__ = ["CRF"]

__version__ = "0.5.0"

_ALGORITHMS = {None: "lbfgs", "lbfgs": "lbfgs", "l2sgd": "sgd", "ap": "ap", "pa": "pa", "arow": "arow"}
_LIMITS = {"sgd": 1000, "ap": 100, "pa": 100, "arow": 100}
_SHARED = ("c1", "c2", "epsilon", "delta", "period", "max_linesearch", "min_freq", "pa_type", "variance", "gamma")
_FLAGS = ("all_possible_states", "all_possible_transitions", "error_sensitive", "averaging")
_INTEGERS = ("period", "max_linesearch", "num_memories", "max_iterations", "pa_type")
_NAMES = {"num_memories": "memory", "c": "aggressiveness"}
"""Settings that have another name in Trellis; both are above zero."""


class TrainingLog:
    """The result of the original's log parser: one dict per iteration."""

    def __init__(self) -> None:
        self.iterations: list[dict[str, Any]] = []

    def __call__(self, step: Step) -> None:
        """Record the next iteration."""
        begin = self.iterations[-1]["seconds"] if self.iterations else 0.0
        row = {"num": step.iteration, "loss": step.loss, "error_norm": step.gradient_norm}
        self.iterations.append({**row, "time": step.seconds - begin, "seconds": step.seconds, "scores": {}})

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        """The last iteration."""
        return self.iterations[-1] if self.iterations else None


@dataclass(frozen=True)
class ModelInfo:
    """Attributes and weights of a model, by name."""

    attributes: dict[str, int]
    state_features: dict[tuple[str, str], float]
    transitions: dict[tuple[str, str], float]
    size: int
    """Bytes of the model's file."""


class Tagger:
    """``pycrfsuite.Tagger`` as far as users of sklearn-crfsuite see it, through ``CRF.tagger_``.

    It answers for one sequence at a time; `labels` are in the order in which they first occurred.
    """

    def __init__(self, model: models.CRF, labels: list[str]) -> None:
        self.model = model
        self._labels = labels
        self._sequence: Any = None

    def labels(self) -> list[str]:
        """All labels."""
        return list(self._labels)

    def tag(self, xseq: Any = None) -> list[str]:
        """The best labels of the sequence, or of the one that was set."""
        return self.model.predict([self._given(xseq)])[0]

    def set(self, xseq: Any) -> None:
        """Set the sequence that the other methods use."""
        self._sequence = xseq

    def probability(self, yseq: list[str]) -> float:
        """The probability of these labels."""
        return float(self.model.sequence_probabilities([self._given(None)], [yseq])[0])

    def marginal(self, y: str, pos: int) -> float:
        """The probability of one label at one position."""
        return self.marginals([self._given(None)])[0][pos][y]

    def marginals(self, X: Any) -> list[list[dict[str, float]]]:
        """The probability of each label at each position of each sequence."""
        columns = [self.model.labels_.index(label) for label in self._labels]
        return [
            [dict(zip(self._labels, row, strict=True)) for row in marginals[:, columns].tolist()]
            for marginals in self.model.marginals(X)
        ]

    def info(self) -> ModelInfo:
        """Names and weights."""
        return self._info

    @cached
    def _info(self) -> ModelInfo:
        p, labels = self.model.parameters_, self.model.labels_
        assert p is not None
        names = p.index.names()
        rows = zip(p.owners.tolist(), p.labels.tolist(), p.weights.tolist(), strict=True)
        states = {(names[attribute], labels[label]): weight for attribute, label, weight in rows}
        steps = [(i, j) for i, j in zip(*p.weighted.nonzero(), strict=True) if p.transitions[i, j] != 0.0]
        moves = {(labels[i], labels[j]): float(p.transitions[i, j]) for i, j in steps}
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            self.model.save(path)
            size = path.stat().st_size
        return ModelInfo({name: i for i, name in enumerate(names)}, states, moves, size)

    def _given(self, xseq: Any) -> Any:
        sequence = self._sequence if xseq is None else xseq
        if sequence is None:
            raise ModelError("no sequence is set: call set first, or give one")
        return sequence


@dataclass(eq=False, repr=False)
class CRF(Estimator):
    """``sklearn_crfsuite.CRF``; see the original for its parameters.

    ``linesearch``, the ``calibration_*`` of l2sgd, ``keep_tempfiles`` and ``trainer_cls`` are accepted and change
    nothing: there is one line search, one calibration, no temporary file and no other trainer. ``model_filename``
    names a file saved by Trellis.
    """

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    calibration_eta: float | None = None
    calibration_rate: float | None = None
    calibration_samples: int | None = None
    calibration_candidates: int | None = None
    calibration_max_trials: int | None = None
    pa_type: int | None = None
    c: float | None = None
    error_sensitive: bool | None = None
    averaging: bool | None = None
    variance: float | None = None
    gamma: float | None = None
    verbose: bool = False
    model_filename: str | None = None
    keep_tempfiles: bool = False
    trainer_cls: Any = None
    training_log_: TrainingLog | None = field(default=None, init=False)
    _tagger: Tagger | None = field(default=None, init=False)

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> CRF:
        """Train a model; held-out data, if given, is scored at the end and has no influence, as in CRFsuite."""
        if (X_dev is None) != (y_dev is None):
            raise ValueError("Pass both X_dev and y_dev to use the holdout data")
        log, data = TrainingLog(), Labelled.of(X, y)
        model = models.CRF(**self._settings()).fit(data.inputs, data.labels, progress=self._progress(log))
        self._tagger, self.training_log_ = Tagger(model, data.distinct()), log
        if X_dev is not None and log.last_iteration is not None:
            log.last_iteration["scores"] = {"item_accuracy": self.score(X_dev, y_dev)}
        if self.model_filename is not None:
            model.save(self.model_filename)
        return self

    def predict(self, X: Any) -> npt.NDArray[np.object_]:
        """The best labels of each sequence, as an array of lists."""
        return np.array(self._require().model.predict(X), dtype=object)

    def predict_single(self, xseq: Any) -> list[str]:
        """The best labels of one sequence."""
        return self._require().tag(xseq)

    def predict_marginals(self, X: Any) -> npt.NDArray[np.object_]:
        """For each sequence a list of dicts: the probability of each label at each item."""
        return np.array(self._require().marginals(X), dtype=object)

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """For one sequence a list of dicts: the probability of each label at each item."""
        return self._require().marginals([xseq])[0]

    def score(self, X: Any, y: Any) -> float:
        """Share of items with the right label."""
        from trellis.compat.sklearn_crfsuite.metrics import flat_accuracy_score

        return float(flat_accuracy_score(y, self.predict(X)))

    @property
    def tagger_(self) -> Tagger | None:
        """The tagger of single sequences; None before fit."""
        if self._tagger is None and self.model_filename is not None and os.path.exists(self.model_filename):
            model = models.CRF.load(self.model_filename)
            self._tagger = Tagger(model, list(model.labels_))
        return self._tagger

    @property
    def classes_(self) -> list[str] | None:
        """The labels, in the order in which they first occurred."""
        return None if self.tagger_ is None else self.tagger_.labels()

    @property
    def size_(self) -> int | None:
        """Bytes of the model's file."""
        return None if self.tagger_ is None else self.tagger_.info().size

    @property
    def num_attributes_(self) -> int | None:
        """How many attributes have a weight that is not zero."""
        return None if self.tagger_ is None else len(self.tagger_.info().attributes)

    @property
    def attributes_(self) -> list[str] | None:
        """The names of those attributes."""
        return None if self.tagger_ is None else list(self.tagger_.info().attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights by (attribute, label)."""
        return None if self.tagger_ is None else self.tagger_.info().state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights by (label before, label after)."""
        return None if self.tagger_ is None else self.tagger_.info().transitions

    def __sklearn_tags__(self) -> Any:
        """Neither a classifier nor a regressor of rows, like the original."""
        from sklearn.utils import Tags, TargetTags  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return Tags(estimator_type=None, target_tags=TargetTags(required=True))

    def _require(self) -> Tagger:
        if self.tagger_ is None:
            raise ModelError("this CRF is not fitted: call fit first")
        return self.tagger_

    def _settings(self) -> dict[str, Any]:
        """The settings of Trellis; those that are None keep their defaults."""
        if not isinstance(self.algorithm, str | None) or self.algorithm not in _ALGORITHMS:
            known = ", ".join(str(name) for name in _ALGORITHMS if name)
            raise ModelError(f"algorithm {self.algorithm!r} is not available here: choose one of {known}")
        algorithm = _ALGORITHMS[self.algorithm]
        given = {name: getattr(self, name) for name in (*_SHARED, *_FLAGS)}
        limit = _LIMITS.get(algorithm) if self.max_iterations is None else self.max_iterations
        given |= {"num_memories": self.num_memories, "max_iterations": limit, "c": self.c}
        settings = {_NAMES.get(name, name): _plain(name, value) for name, value in given.items() if value is not None}
        fixed = {"features": "given", "algorithm": algorithm, "constraints": False, "scheme": "plain", "prune": 0.0}
        return settings | fixed | {"fold_width": False}  # nothing to fold: features are not tokens

    def _progress(self, log: TrainingLog) -> Any:
        if not self.verbose:
            return log
        from trellis.training import LiveLine

        line = LiveLine()

        def both(step: Step) -> None:
            log(step)
            line(step)

        return both


def _plain(name: str, value: Any) -> Any:
    """Numbers of any type (a parameter search draws NumPy's) as Python's own."""
    if name in _FLAGS:
        return bool(value)
    try:
        number = int(value) if name in _INTEGERS else float(value)
    except (TypeError, ValueError, OverflowError):
        kind = "an integer" if name in _INTEGERS else "a number"
        raise ModelError(f"{name} must be {kind}, got {shown(value)}") from None
    if name in _NAMES and not 0 < number < math.inf:
        raise ModelError(f"{name} must be a finite number > 0, got {shown(value)}")
    return number
