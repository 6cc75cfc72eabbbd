"""Bidirectional LSTM layers over a ragged batch: flat features in, flat features out, nothing for padding."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from trellis.nn import native
from trellis.nn.dropout import LockedDropout
from trellis.nn.packing import Packing
from trellis.nn.recurrence import bilstm


class BiLSTM(nn.Module):
    """One or more layers, each with its own dropout of its input.

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

    def forward(self, features: Tensor, packing: Packing, index: Tensor | None = None) -> Tensor:
        """From ``(N, size)``, or from rows that tokens share and ``index[N]``, to ``(N, hidden)``."""
        for i, layer in enumerate(self.layers):
            if i:
                features = self.dropout(features, packing.sequence, len(packing.lengths))
            assert isinstance(layer, nn.LSTM)
            features = run_lstm(layer, features, packing, None if i else index)
        return features


def run_lstm(layer: nn.LSTM, features: Tensor, packing: Packing, index: Tensor | None = None) -> Tensor:
    """The states of a bidirectional layer, from ``(N, D)`` to ``(N, 2 * hidden_size)``.

    With ``index[N]`` the features are rows that tokens share, such as those of the same word.
    """
    if not len(features):
        return features.new_zeros(0, 2 * layer.hidden_size)
    if native.supports(features):
        forward, backward = layer.all_weights
        return bilstm(features, packing.lengths, (*forward, *backward), index)
    if index is not None:
        features = features.index_select(0, index)
    order, inverse, batch_sizes = packing.by_position
    states: Tensor = layer(PackedSequence(features[order], batch_sizes))[0].data
    return states[inverse]
