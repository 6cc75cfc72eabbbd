"""Bidirectional LSTM layers over a ragged batch: flat features in, flat features out, nothing for padding."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from trellis.nn.dropout import LockedDropout
from trellis.nn.packing import Packing


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
        packed = features[packing.order]
        for i, layer in enumerate(self.layers):
            if i:
                packed = self.dropout(packed, packing.sequence[packing.order], len(packing.lengths))
            packed = layer(PackedSequence(packed, packing.batch_sizes))[0].data
        return packed[packing.inverse]
