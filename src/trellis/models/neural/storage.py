"""A neural tagger as arrays: names as bytes, weights by their names in the network, a transformer apart from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from trellis.arrays import Arrays, Float32Array
from trellis.errors import ConfigError, ModelError, StoreError
from trellis.models.neural.config import Facts, NeuralConfig, resolved
from trellis.models.neural.layers import Weights
from trellis.models.neural.learned import LearnedNetwork
from trellis.models.neural.plan import PRETRAINED, TRANSFORMER, VECTORS, WEIGHTS, Plan, TableSize, plan_of
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

    Version 0.1 stored settings as they were given: what they leave unset follows from the arrays.
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
    plan = _plan(settings, vocabulary, states, vectors, stored)
    if plan is None:
        make = _torch_network(settings, vocabulary, states, vectors, stored)
        return LearnedNetwork(vocabulary, None, {}, make), settings
    weights = _checked(plan, stored)
    make = partial(_with_weights, settings, vocabulary, states, weights)
    return LearnedNetwork(vocabulary, plan, weights, make), settings


def _plan(
    settings: NeuralConfig, vocabulary: Vocabulary, states: StateMap, vectors: Float32Array | None, stored: Stored
) -> Plan | None:
    if stored.manifest.optional_table("transformer") is not None:
        return None
    try:
        return plan_of(settings, vocabulary, states, None if vectors is None else TableSize(*vectors.shape))
    except ConfigError as error:
        raise StoreError(f"{stored.where}: the saved settings make no network: {error}") from None


def _checked(plan: Plan, stored: Stored) -> Weights:
    """The weights of the plan, which are there in its shapes, and no others."""
    # One by one: settings may claim a million layers, of which the second is missing.
    found = {name: stored.array(f"{WEIGHTS}{name}", np.float32, shape) for name, shape in plan.shapes()}
    stored.refuse_others(WEIGHTS, found)
    return found


def _check_labels(config: NeuralConfig, L: int, stored: Stored) -> None:
    """The tables of what the scheme allows are square in the labels, so these must be those of the weights."""
    stored.array(
        f"{WEIGHTS}emission.bias", np.float32, (L + 2 * (config.boundaries if config.head == "semicrf" else 0),)
    )
    if config.head == "crf":
        stored.array(f"{WEIGHTS}head.crf.transitions", np.float32, (L, L))


def _with_weights(config: NeuralConfig, vocabulary: Vocabulary, states: StateMap, weights: Weights) -> Any:
    from trellis.models.neural.restoring import with_weights

    return with_weights(config, vocabulary, states, weights)


def _torch_network(
    config: NeuralConfig, vocabulary: Vocabulary, states: StateMap, vectors: Float32Array | None, stored: Stored
) -> Callable[[], Any]:
    """The network of a file that only torch computes, built now: only then it is known to fit the file."""
    with required("a neural model with a transformer or a semi-CRF", "trellis-crf[neural]", ModelError):
        from trellis.models.neural.restoring import checked

    network = checked(config, vocabulary, states, vectors, stored)
    return lambda: network
