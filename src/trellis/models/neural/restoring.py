"""Torch modules of saved networks: of those with a plan from their weights, of others from what a file claims."""

from __future__ import annotations

from functools import partial

import torch

from trellis.arrays import Float32Array
from trellis.errors import ConfigError, StoreError
from trellis.models.neural.config import NeuralConfig
from trellis.models.neural.layers import Weights
from trellis.models.neural.network import Network, build_empty
from trellis.models.neural.plan import PRETRAINED, TRANSFORMER, VECTORS, WEIGHTS
from trellis.models.neural.vocabulary import Vocabulary
from trellis.nn.state import blueprint, check_state
from trellis.nn.transformer import TransformerEncoder
from trellis.store import Stored
from trellis.tags import StateMap


def with_weights(config: NeuralConfig, vocabulary: Vocabulary, states: StateMap, weights: Weights) -> Network:
    """The module of a network with a plan, whose weights were checked against it."""
    with torch.random.fork_rng():
        network = build_empty(config, vocabulary, states, weights.get(VECTORS))
    return _filled(network, weights)


def checked(
    config: NeuralConfig, vocabulary: Vocabulary, states: StateMap, vectors: Float32Array | None, stored: Stored
) -> Network:
    """The module that the settings of a file describe; memory is taken only for what the file has arrays for."""
    try:
        with torch.random.fork_rng():
            make = partial(build_empty, config, vocabulary, states, vectors, _transformer(stored))
            network = blueprint(make, len(stored.arrays), stored.where)
    except ConfigError as error:
        raise StoreError(f"{stored.where}: the saved settings make no network: {error}") from None
    check_state(network.state_dict(), stored, WEIGHTS, left_out=PRETRAINED)
    own = {name.removeprefix(WEIGHTS): a for name, a in stored.arrays.items() if name.startswith(WEIGHTS)}
    return _filled(network, own)


def _filled(network: Network, weights: Weights) -> Network:
    """The network with weights that fit, where there is most room to compute; a transformer has its own."""
    # The encoder's weights have no memory yet: they become these tensors.
    state = {name: torch.tensor(array) for name, array in weights.items()}
    network.load_state_dict(state, strict=False, assign=True)
    return network.to("cuda" if torch.cuda.is_available() else "cpu")


def _transformer(stored: Stored) -> TransformerEncoder | None:
    description = stored.manifest.optional_table("transformer")
    if description is None:
        return None
    own = {name.removeprefix(TRANSFORMER): a for name, a in stored.arrays.items() if name.startswith(TRANSFORMER)}
    return TransformerEncoder.from_arrays(own, description.values, where=stored.where)
