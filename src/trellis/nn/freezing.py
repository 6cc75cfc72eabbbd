"""Which parameters of a pretrained encoder are not trained."""

from __future__ import annotations

from typing import Any, Literal

from torch import nn

from trellis.errors import ConfigError

Freeze = Literal["nothing", "embeddings", "all"] | int
"""What is not trained; a number means the embeddings and that many layers from the bottom."""


def freeze_parameters(encoder: nn.Module, freeze: Freeze) -> None:
    """Switch off the gradient of the parameters that are not trained."""
    for module in _frozen_parts(encoder, freeze):
        module.requires_grad_(False)


def _frozen_parts(encoder: nn.Module, freeze: Freeze) -> list[nn.Module]:
    if freeze == "all":
        return [encoder]
    if freeze == "nothing":
        return []
    if freeze == "embeddings":
        return [_embeddings(encoder)]
    if isinstance(freeze, bool) or not isinstance(freeze, int):
        raise ConfigError(f"freeze must be 'nothing', 'embeddings', 'all' or a number of layers, got {freeze!r}")
    layers = layers_of(encoder)
    if not 0 <= freeze <= len(layers):
        raise ConfigError(f"freeze must be in 0..{len(layers)}, the layers of the encoder, got {freeze}")
    return [_embeddings(encoder), *list(layers)[:freeze]]


def layers_of(encoder: nn.Module) -> nn.ModuleList:
    """The encoder's layers from the bottom up: the first list of modules that is as long as its configuration says."""
    config: Any = encoder.config
    for module in encoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == config.num_hidden_layers:
            return module
    raise ConfigError(
        f"the layers of {type(encoder).__name__} cannot be frozen one by one: it has no list of "
        f"{config.num_hidden_layers} separate layers"
    )


def _embeddings(encoder: Any) -> nn.Module:
    """The whole block of embeddings if there is one, otherwise the table of subwords."""
    block = getattr(encoder, "embeddings", None)
    return block if isinstance(block, nn.Module) else encoder.get_input_embeddings()
