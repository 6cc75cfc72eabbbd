"""A neural tagger as arrays: names as bytes, weights by their names in the network, a transformer apart from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import torch

from trellis.errors import StoreError
from trellis.models.neural_config import NeuralConfig, resolved
from trellis.models.neural_network import Network, build_empty
from trellis.models.neural_vocabulary import Symbols, Vocabulary
from trellis.nn.transformer import TransformerEncoder
from trellis.store import pack_strings, unpack_strings
from trellis.tags import TagSet

Arrays = dict[str, npt.NDArray[Any]]
_NAMES = ("words", "vectors", "characters", "pairs")
_WEIGHTS, _TRANSFORMER = "weights.", "transformer."
_OWN = "encoder.parts.transformer."  # in the network
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


def from_stored(
    config: NeuralConfig, tags: TagSet, manifest: Mapping[str, Any], arrays: Arrays
) -> tuple[Network, Vocabulary]:
    """The inverse of `to_stored`."""
    columns = {name: Symbols(unpack_strings(f"names.column {name}", arrays)) for name in manifest["columns"]}
    known = {name: Symbols(unpack_strings(f"names.{name}", arrays)) for name in _NAMES}
    vocabulary = Vocabulary(**known, columns=columns, lower=config.encoder.words.lower)
    table = arrays.get(_VECTORS)
    settings = resolved(config, vector_size=None if table is None else table.shape[1])
    network = build_empty(settings, vocabulary, tags, table, _transformer(manifest["transformer"], arrays))
    _load(network, {name: array for name, array in arrays.items() if name.startswith(_WEIGHTS)})
    return network, vocabulary


def _transformer(description: Mapping[str, Any] | None, arrays: Arrays) -> TransformerEncoder | None:
    if description is None:
        return None
    own = {name.removeprefix(_TRANSFORMER): a for name, a in arrays.items() if name.startswith(_TRANSFORMER)}
    return TransformerEncoder.from_arrays(own, description)


def _load(network: Network, arrays: Arrays) -> None:
    state = {name.removeprefix(_WEIGHTS): torch.tensor(array, dtype=torch.float32) for name, array in arrays.items()}
    try:
        # The encoder's weights have no memory of their own yet: they become these tensors.
        missing, unexpected = network.load_state_dict(state, strict=False, assign=True)
    except RuntimeError as error:
        raise StoreError(f"the saved weights do not fit the saved settings: {error}") from None
    missing = [name for name in missing if not name.startswith(_OWN)]
    if missing or unexpected:
        raise StoreError(f"the saved weights do not fit the saved settings: {[*missing, *unexpected][0]!r}")
