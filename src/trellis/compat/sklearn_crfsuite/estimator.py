"""``sklearn_crfsuite.CRF`` on the trainer and the tagger of `trellis.compat.pycrfsuite`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis.compat.parameters import Estimator
from trellis.compat.pycrfsuite import ParsedDump, Tagger, Unchanging
from trellis.compat.sklearn_crfsuite._fileresource import FileResource
from trellis.compat.sklearn_crfsuite.trainer import LinePerIterationTrainer
from trellis.errors import ModelError
from trellis.models.data import Labelled

__all__ = ["CRF"]

_PARAMETERS = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    "calibration_eta": "calibration.eta",
    "calibration_rate": "calibration.rate",
    "calibration_samples": "calibration.samples",
    "calibration_candidates": "calibration.candidates",
    "calibration_max_trials": "calibration.max_trials",
    "pa_type": "type",
}
"""Parameters that have another name in CRFsuite."""
_OTHERS = ("algorithm", "verbose", "model_filename", "keep_tempfiles", "trainer_cls")


@dataclass(eq=False, repr=False)
class CRF(Estimator):
    """``sklearn_crfsuite.CRF``; see the original for its parameters.

    ``linesearch`` and the ``calibration_*`` of l2sgd are accepted and change nothing: there is one line search, and one
    calibration. ``model_filename`` names a file of CRFsuite, which is read if it exists and nothing was fitted.
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

    def __post_init__(self) -> None:
        self.modelfile = FileResource(self.model_filename, self.keep_tempfiles, ".crfsuite", "model")
        self.training_log_: Any = None
        self._tagger: Tagger | None = None
        self._parsed: ParsedDump | None = None

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> CRF:
        """Train a model; held-out data, if given, is scored at the end and has no influence, as in CRFsuite."""
        if (X_dev is None) != (y_dev is None):
            raise ValueError("Pass both X_dev and y_dev to use the holdout data")
        given = {name: value for name, value in self.get_params().items() if name not in _OTHERS and value is not None}
        params = {_PARAMETERS.get(name, name): value for name, value in given.items()}
        trainer = (self.trainer_cls or LinePerIterationTrainer)(
            algorithm=self.algorithm, params=params, verbose=self.verbose
        )
        for group, inputs, labels in ((0, X, y), (1, X_dev, y_dev)):
            if inputs is not None:
                data = Labelled.of(inputs, labels)
                for xseq, yseq in zip(data.inputs, data.labels, strict=True):
                    trainer.append(Unchanging(xseq), list(map(str, yseq)), group)
        self._tagger = self._parsed = None
        trainer.train(self.modelfile.refresh(), holdout=-1 if X_dev is None else 1)
        self.training_log_ = trainer.logparser
        return self

    def predict(self, X: Any) -> npt.NDArray[np.object_]:
        """The best labels of each sequence, as an array of lists."""
        return np.array(self._require().tag_all(X), dtype=object)

    def predict_single(self, xseq: Any) -> list[str]:
        return self._require().tag(xseq)

    def predict_marginals(self, X: Any) -> npt.NDArray[np.object_]:
        """For each sequence a list of dicts: the probability of each label at each item."""
        return np.array(self._require().marginals(X), dtype=object)

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        return self._require().marginals([xseq])[0]

    def score(self, X: Any, y: Any) -> float:
        """Share of items with the right label."""
        from trellis.compat.sklearn_crfsuite.metrics import flat_accuracy_score

        return float(flat_accuracy_score(y, self.predict(X)))

    @property
    def tagger_(self) -> Tagger | None:
        """The tagger of single sequences; None before fit."""
        name = self.modelfile.name
        if self._tagger is None and name is not None and os.path.exists(name):
            self._tagger = Tagger()
            self._tagger.open(name)
        return self._tagger

    @property
    def classes_(self) -> list[str] | None:
        """The labels, in the order in which they first occurred."""
        return None if self.tagger_ is None else self.tagger_.labels()

    @property
    def size_(self) -> int | None:
        """Bytes of the model's file."""
        return None if self._info is None else int(self._info.header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """How many attributes have a weight that is not zero."""
        return None if self._info is None else len(self._info.attributes)

    @property
    def attributes_(self) -> list[str] | None:
        """The names of those attributes."""
        return None if self._info is None else list(self._info.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights by (attribute, label)."""
        return None if self._info is None else self._info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights by (label before, label after)."""
        return None if self._info is None else self._info.transitions

    @property
    def _info(self) -> ParsedDump | None:
        if self._parsed is None and self.tagger_ is not None:
            self._parsed = self.tagger_.info()
        return self._parsed

    def _require(self) -> Tagger:
        if self.tagger_ is None:
            raise ModelError("this CRF is not fitted: call fit first")
        return self.tagger_

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is made from the model file."""
        return self.__dict__ | {"_tagger": None, "_parsed": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A state of this class, or of the original."""
        self.__dict__.update({"_tagger": None, "_parsed": None, "trainer_cls": None} | state)
