"""Bidirectional LSTM layers over a ragged batch: flat features in, flat features out, nothing for padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from trellis.nn.dropout import LockedDropout
from trellis.nn.packing import Packing

_PADDING = 4  # padded batches of up to so many rows a token are faster than packed ones


class BiLSTM(nn.Module):
    """One or more layers, each with its own dropout of what comes in.

    Args:
        size: width of the features.
        hidden: width of each layer's output, half each way.
        layers: how many.
        dropout: locked dropout between layers.

    """

    def __init__(self, size: int, hidden: int, layers: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__()
        sizes = [size] + [hidden] * (layers - 1)
        self.layers = nn.ModuleList(nn.LSTM(width, hidden // 2, bidirectional=True) for width in sizes)
        self.dropout = LockedDropout(dropout)
        self.output_size = hidden
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Orthogonal recurrent weights, Glorot's input weights, and a forget gate that is open at first."""
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                for gate in parameter.chunk(4):
                    nn.init.orthogonal_(gate)
            elif "weight_ih" in name:
                for gate in parameter.chunk(4):
                    nn.init.xavier_uniform_(gate)
            else:
                nn.init.zeros_(parameter)
                if "bias_ih" in name:
                    nn.init.ones_(parameter.chunk(4)[1])

    def forward(self, features: Tensor, packing: Packing) -> Tensor:
        """``(N, size)`` to ``(N, hidden)``."""
        if not len(features):
            return features.new_zeros(0, self.output_size)
        # oneDNN's fused LSTM takes padded batches only, and is worth a good deal of padding.
        dense = features.device.type == "cpu" and packing.padded <= _PADDING * len(features)
        for i, layer in enumerate(self.layers):
            if i:
                features = self.dropout(features, packing.sequence, len(packing.lengths))
            features = _over_padded(layer, features, packing) if dense else _over_packed(layer, features, packing)
        return features


def _over_packed(layer: nn.Module, features: Tensor, packing: Packing) -> Tensor:
    states: Tensor = layer(PackedSequence(features[packing.order], packing.batch_sizes))[0].data
    return states[packing.inverse]


def _over_padded(layer: nn.Module, features: Tensor, packing: Packing) -> Tensor:
    """One direction after the other: a sequence that is put in back to front needs no mask to be read backward."""
    assert isinstance(layer, nn.LSTM)
    ways = zip(layer.all_weights, (packing.places, packing.reversed_places), strict=True)
    return torch.cat([_one_way(layer.hidden_size, own, features, packing, places) for own, places in ways], 1)


def _one_way(hidden: int, weights: Sequence[Tensor], features: Tensor, packing: Packing, places: Tensor) -> Tensor:
    B, T = len(packing.lengths), len(packing.batch_sizes)
    padded = features.new_zeros(T * B, features.shape[1]).index_copy(0, places, features)
    start = features.new_zeros(1, B, hidden)
    states: Tensor = torch.lstm(padded.view(T, B, -1), (start, start), [*weights], True, 1, 0.0, False, False, False)[0]
    return states.reshape(T * B, hidden)[places]
