"""What `fit` is asked for apart from its data, and the settings of a tagger with some of them changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from trellis import config
from trellis.arrays import Arrays, FloatArray, plain_array
from trellis.errors import ConfigError, ModelError
from trellis.lexicon import Lexicon
from trellis.lexicon.storage import to_stored
from trellis.models.data import Labelled, Supervised
from trellis.models.folder import ModelFolder, training
from trellis.models.streams.epochs import SentenceStream
from trellis.tags import OnBadTags
from trellis.text import OwnTokenizer, Sentence, Splitter
from trellis.training import Progress
from trellis.training.folder import TrainingFolder
from trellis.training.processes import ALONE, Team


@dataclasses.dataclass(frozen=True, slots=True)
class FitOptions:
    """What `fit` was asked for apart from its data."""

    warm_start: bool = False
    progress: Progress | None = None
    sentence_weights: FloatArray | None = None
    folder: TrainingFolder | None = None
    """Where families that learn in epochs leave their checkpoints."""
    on_bad_tags: OnBadTags = "error"
    tokenizer: Splitter | str | OwnTokenizer | None = None
    """How raw text will be split, instead of the setting of that name."""
    lexicon: Lexicon | None = None
    stream: SentenceStream | None = None
    """Where the sentences are, if they are read anew in each epoch."""
    team: Team = ALONE
    """The processes that train together, each with its own sentences."""


@contextmanager
def opened(folder: str | Path | ModelFolder | None, kind: str, *, resume: bool = False) -> Iterator[ModelFolder | None]:
    """The folder of a training, if there is one, locked unless its owner has done so."""
    if folder is None or isinstance(folder, ModelFolder):
        yield folder
        return
    with training(folder, kind, kind, resume=resume) as place:
        yield place


def identify(
    options: FitOptions,
    settings: Any,
    free: frozenset[str] | None,
    data: Labelled | str,
    dev: Labelled | None,
    before: Arrays | None,
    *,
    shares: bool = False,
) -> None:
    """Tell the folder which training this is, so that no other continues it; `free` settings may change.

    The data may be a fingerprint already.
    """
    if options.folder is None:
        return
    if free is None:  # learned in one go
        options.folder.identify()
        return
    from trellis.models import fingerprint  # hashlib is not needed to tag

    prints = {
        "training data": data if isinstance(data, str) else _training_data(options, data, shares=shares),
        "dev data": fingerprint.of_data(dev),
        "sentence weights": fingerprint.of_weights(options.sentence_weights),
        "lexicon": None if options.lexicon is None else fingerprint.of_arrays(to_stored(options.lexicon)[1]),
        "weights of the model to start from": None if before is None else fingerprint.of_arrays(before),
    }
    fixed = {name: value for name, value in config.flat(settings).items() if name not in free}
    options.folder.identify(settings=fixed, data=prints)


def _training_data(options: FitOptions, data: Labelled, *, shares: bool) -> str | None:
    from trellis.models import fingerprint

    if options.stream is not None:
        return options.stream.fingerprint
    return fingerprint.of_sentences(data, options.team) if shares else fingerprint.of_data(data)


def labelled(dev: Supervised) -> Labelled:
    """Held-out sentences, or inputs and their labels as a pair."""
    pair = isinstance(dev, tuple) and len(dev) == 2 and not isinstance(dev[0], Sentence)
    return Labelled.of(dev[0], dev[1]) if pair else Labelled.of(dev)  # type: ignore[arg-type]


def check_weights(weights: Sequence[float] | None, count: int) -> FloatArray | None:
    """The weights of `count` sentences, if there are any."""
    if weights is None:
        return None
    array = plain_array(weights, np.float64)
    if array.shape != (count,) or not np.isfinite(array).all() or (array < 0).any():
        raise ModelError(f"sentence_weights must be {count} finite numbers >= 0, one per sentence, got {array.shape}")
    return array


def replaced(settings: Any, options: dict[str, Any]) -> Any:
    """The settings with some changed.

    The given values are kept unchanged, as scikit-learn's clone expects; a dict in place of a section changes only the
    settings that it names.
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
