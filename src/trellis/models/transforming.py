"""A tagger as scikit-learn's transformer: the probabilities of its labels as features of tokens.

`transform` gives one array ``(T, L)`` per sentence, or after ``set_output(transform="pandas")`` one frame.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Literal, Self

import numpy as np

from trellis.arrays import AnyArray, FloatArray
from trellis.errors import ConfigError, shown
from trellis.optional import required

FORMS = ("default", "pandas")


class Transforming:
    """What turns sentences into probabilities, in the form that `set_output` asked for."""

    _sklearn_output_config: dict[str, str]
    """The name that scikit-learn's `clone` copies; it exists once `set_output` was called."""

    @property
    @abstractmethod
    def labels_(self) -> tuple[str, ...]:
        """The labels, in the order of their ids."""

    @abstractmethod
    def marginals(self, X: Iterable[Any]) -> list[FloatArray]:
        """For each input ``(T, L)``: the exact probability of each label at each token."""

    def transform(self, X: Iterable[Any]) -> Any:
        """The exact probability of each label at each token, as features for another model.

        One array ``(T, L)`` per sentence; after ``set_output(transform="pandas")`` one frame with a row per token,
        whose index is (sentence, position) and whose columns are the labels.
        """
        form = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        found = self.marginals(X)
        return found if form == "default" else self._framed(found)

    def get_feature_names_out(self, input_features: object = None) -> AnyArray:
        """The labels: what the columns of `transform` are; `input_features` is ignored."""
        return np.array(self.labels_, dtype=object)

    def set_output(self, *, transform: Literal["default", "pandas"] | None = None) -> Self:
        """Choose what `transform` gives: "default" arrays, or a "pandas" frame; None changes nothing."""
        if transform is not None and transform not in FORMS:
            raise ConfigError(f"set_output: transform must be one of {', '.join(FORMS)}, got {shown(transform)}")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def _framed(self, found: list[FloatArray]) -> Any:
        with required("set_output(transform='pandas')", "pandas", instead="'default' gives arrays"):
            import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

        lengths = [len(rows) for rows in found]
        places = [np.repeat(np.arange(len(found)), lengths), np.concatenate([[], *map(np.arange, lengths)]).astype(int)]
        index = pandas.MultiIndex.from_arrays(places, names=["sentence", "position"])
        rows = np.concatenate([np.empty((0, len(self.labels_))), *found])
        return pandas.DataFrame(rows, index=index, columns=list(self.labels_))
