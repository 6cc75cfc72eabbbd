"""A neural tagger as arrays: names as bytes, weights by their names in the network, a transformer apart from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.arrays import Arrays
from trellis.errors import ConfigError, ModelError, StoreError
from trellis.models.neural.config import Facts, NeuralConfig, resolved
from trellis.models.neural.inference import LearnedNetwork
from trellis.models.neural.plan import PRETRAINED, TRANSFORMER, VECTORS, WEIGHTS, TableSize, plan_of
from trellis.models.neural.vocabulary import Vocabulary
from trellis.optional import required
from trellis.store import Stored, pack_strings
from trellis.symbols import Symbols
from trellis.tags import StateMap

_NAMES = ("words", "vectors", "characters", "pairs")


def to_stored(learned: LearnedNetwork, *, by_reference: bool) -> tuple[dict[str, Any], Arrays]:
    """Manifest and arrays."""
    vocabulary = learned.vocabulary
    names = {name: getattr(vocabulary, name) for name in _NAMES}
    names |= {f"column {name}": symbols for name, symbols in vocabulary.columns.items()}
    arrays: Arrays = {}
    for name, symbols in names.items():
        arrays |= pack_strings(f"names.{name}", symbols.names)
    arrays |= {f"{WEIGHTS}{name}": a for name, a in learned.weights.items() if not name.startswith(PRETRAINED)}
    manifest: dict[str, Any] = {"columns": list(vocabulary.columns), "transformer": None}
    transformer = None if learned.plan is not None else learned.network.transformer
    if transformer is not None:
        own, manifest["transformer"] = transformer.to_arrays(reference=by_reference)
        arrays |= {f"{TRANSFORMER}{name}": array for name, array in own.items()}
    return manifest, arrays


def from_stored(config: NeuralConfig, states: StateMap, stored: Stored) -> tuple[LearnedNetwork, NeuralConfig]:
    """The inverse of `to_stored`; memory is taken only for what the file has arrays for.

    Settings that the file leaves unset follow from its arrays.
    """
    columns = {name: Symbols(stored.strings(f"names.column {name}")) for name in stored.manifest.texts("columns")}
    known = {name: Symbols(stored.strings(f"names.{name}")) for name in _NAMES}
    vocabulary = Vocabulary(**known, columns=columns, lower=config.encoder.words.lower)
    vectors = None
    if f"{WEIGHTS}{VECTORS}" in stored:
        vectors = stored.array(f"{WEIGHTS}{VECTORS}", np.float32, (len(vocabulary.vectors), None))
    size = None if vectors is None else vectors.shape[1]
    spelled, paired = bool(vocabulary.characters.names), bool(vocabulary.pairs.names)
    settings = resolved(config, Facts(spelled, paired, size, states.tags.scheme, states.scheme))
    _check_labels(config, len(states), stored)
    plan = None
    if stored.manifest.optional_table("transformer") is None:
        try:
            plan = plan_of(settings, vocabulary, states, None if vectors is None else TableSize(*vectors.shape))
        except ConfigError as error:
            raise StoreError(f"{stored.where}: the saved settings make no network: {error}") from None
    if plan is None:  # the torch module is built now: only then it is known to fit the file
        with required("a neural model with a transformer or a semi-CRF", "trellis-crf[neural]", ModelError):
            from trellis.models.neural.network import checked
        network = checked(settings, vocabulary, states, vectors, stored)
        return LearnedNetwork(vocabulary, None, {}, lambda: network), settings
    # One by one: settings may claim a million layers, of which the second is missing.
    weights = {name: stored.array(f"{WEIGHTS}{name}", np.float32, shape) for name, shape in plan.shapes()}
    stored.refuse_others(WEIGHTS, weights)

    def make() -> Any:
        from trellis.models.neural.network import with_weights

        return with_weights(settings, vocabulary, states, weights)

    return LearnedNetwork(vocabulary, plan, weights, make), settings


def _check_labels(config: NeuralConfig, L: int, stored: Stored) -> None:
    """The tables of what the scheme allows are square in the labels, so these must be those of the weights."""
    stored.array(
        f"{WEIGHTS}emission.bias", np.float32, (L + 2 * (config.boundaries if config.head == "semicrf" else 0),)
    )
    if config.head == "crf":
        stored.array(f"{WEIGHTS}head.crf.transitions", np.float32, (L, L))
