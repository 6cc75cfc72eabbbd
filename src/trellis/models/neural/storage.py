"""A neural tagger as arrays: names as bytes, weights by their names in the network, a transformer apart from them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from trellis.arrays import Arrays
from trellis.errors import ConfigError, StoreError
from trellis.models.neural.config import Facts, NeuralConfig, resolved
from trellis.models.neural.network import Network, build_empty
from trellis.models.neural.vocabulary import Symbols, Vocabulary
from trellis.nn.blueprint import blueprint, check_state
from trellis.nn.transformer import TransformerEncoder
from trellis.store import Stored, pack_strings
from trellis.tags import TagStates

_NAMES = ("words", "vectors", "characters", "pairs")
_WEIGHTS, _TRANSFORMER = "weights.", "transformer."
_OWN = "encoder.parts.transformer.transformer."  # in the network
_VECTORS = "weights.encoder.parts.words.vectors.weight"


def to_stored(network: Network, vocabulary: Vocabulary, *, by_reference: bool) -> tuple[dict[str, Any], Arrays]:
    """Manifest and arrays."""
    names = {name: getattr(vocabulary, name) for name in _NAMES}
    names |= {f"column {name}": symbols for name, symbols in vocabulary.columns.items()}
    arrays: Arrays = {}
    for name, symbols in names.items():
        arrays |= pack_strings(f"names.{name}", symbols.names)
    state = network.state_dict()
    arrays |= {f"{_WEIGHTS}{k}": v.detach().cpu().numpy() for k, v in state.items() if not k.startswith(_OWN)}
    manifest: dict[str, Any] = {"columns": list(vocabulary.columns), "transformer": None}
    if network.transformer is not None:
        own, manifest["transformer"] = network.transformer.to_arrays(reference=by_reference)
        arrays |= {f"{_TRANSFORMER}{name}": array for name, array in own.items()}
    return manifest, arrays


def from_stored(config: NeuralConfig, states: TagStates, stored: Stored) -> tuple[Network, Vocabulary, NeuralConfig]:
    """The inverse of `to_stored`; memory is taken only for what the file has arrays for.

    Version 0.1 stored settings as they were given: what they leave unset follows from the arrays.
    """
    columns = {name: Symbols(stored.strings(f"names.column {name}")) for name in stored.manifest.texts("columns")}
    known = {name: Symbols(stored.strings(f"names.{name}")) for name in _NAMES}
    vocabulary = Vocabulary(**known, columns=columns, lower=config.encoder.words.lower)
    vectors = None
    if _VECTORS in stored:
        vectors = stored.array(_VECTORS, np.float32, (len(vocabulary.vectors), None))
    size = None if vectors is None else vectors.shape[1]
    spelled, paired = bool(vocabulary.characters.names), bool(vocabulary.pairs.names)
    settings = resolved(config, Facts(spelled, paired, size, states.tags.scheme, states.scheme))
    _check_labels(config, len(states), stored)
    try:
        make = partial(build_empty, settings, vocabulary, states, vectors, _transformer(stored))
        network = blueprint(make, len(stored.arrays), stored.where)
    except ConfigError as error:
        raise StoreError(f"{stored.where}: the saved settings make no network: {error}") from None
    check_state(network.state_dict(), stored, _WEIGHTS, left_out=_OWN)
    _load(network, stored)
    return network, vocabulary, settings


def _check_labels(config: NeuralConfig, L: int, stored: Stored) -> None:
    """The tables of what the scheme allows are square in the labels, so these must be those of the weights."""
    stored.array(
        f"{_WEIGHTS}emission.bias", np.float32, (L + 2 * (config.boundaries if config.head == "semicrf" else 0),)
    )
    if config.head == "crf":
        stored.array(f"{_WEIGHTS}head.crf.transitions", np.float32, (L, L))


def _transformer(stored: Stored) -> TransformerEncoder | None:
    description = stored.manifest.optional_table("transformer")
    if description is None:
        return None
    own = {name.removeprefix(_TRANSFORMER): a for name, a in stored.arrays.items() if name.startswith(_TRANSFORMER)}
    return TransformerEncoder.from_arrays(own, description.values, where=stored.where)


def _load(network: Network, stored: Stored) -> None:
    """Fill in the weights, of which `check_state` knows that they fit; the transformer has its own."""
    names = (name for name in stored.arrays if name.startswith(_WEIGHTS))
    state = {name.removeprefix(_WEIGHTS): torch.tensor(stored.arrays[name]) for name in names}
    # The encoder's weights have no memory yet: they become these tensors.
    network.load_state_dict(state, strict=False, assign=True)
