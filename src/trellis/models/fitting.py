"""What `fit` is asked for besides its data, and the settings of a tagger with some of them changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trellis import config
from trellis.aligned import plain_array
from trellis.errors import ConfigError, ModelError
from trellis.models.data import Labelled, Supervised
from trellis.text import Sentence
from trellis.training import Progress

FloatArray = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class FitOptions:
    """What `fit` was asked for besides its data."""

    sentence_weights: FloatArray | None = None
    warm_start: bool = False
    progress: Progress | None = None
    folder: Path | None = None
    resume: bool = False

    def refuse_resume(self, family: str) -> None:
        """For families that learn in one go."""
        if self.resume:
            raise ModelError(f"{family} learns in one go: there is no checkpoint to resume from; fit it again")


def labelled(dev: Supervised) -> Labelled:
    """Held-out sentences, or inputs and their labels as a pair."""
    pair = isinstance(dev, tuple) and len(dev) == 2 and not isinstance(dev[0], Sentence)
    return Labelled.of(dev[0], dev[1]) if pair else Labelled.of(dev)  # type: ignore[arg-type]


def check_weights(weights: Sequence[float] | None, count: int) -> FloatArray | None:
    """The weights of so many sentences, where there are some."""
    if weights is None:
        return None
    array = plain_array(weights, np.float64)
    if array.shape != (count,) or not np.isfinite(array).all() or (array < 0).any():
        raise ModelError(f"sentence_weights must be {count} finite numbers >= 0, one a sentence, got {array.shape}")
    return array


def replaced(settings: Any, options: dict[str, Any]) -> Any:
    """The settings with some changed.

    Values given are kept as they are, as scikit-learn's clone expects; a dict in the place of a section changes what
    it names there.
    """
    if not options:
        return settings
    config.from_dict(type(settings), options)
    changed = {name: _section(getattr(settings, name), value) for name, value in options.items()}
    try:
        return dataclasses.replace(settings, **changed)
    except TypeError as error:
        raise ConfigError(str(error)) from None


def _section(before: Any, value: Any) -> Any:
    return replaced(before, dict(value)) if dataclasses.is_dataclass(before) and isinstance(value, Mapping) else value
