"""Vectors of words made from their characters, for words that are in no table.

Both modules map the *distinct* words of a batch, ``(W, C)`` character ids padded on the right with 0, to
``(W, output_size)``; the caller gathers the rows of its tokens. Work and memory grow with the number of
characters, not with ``W * C``: one long word among short ones costs no more than its own length.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trellis.errors import ConfigError
from trellis.nn import native, spelling
from trellis.nn.bilstm import run_lstm
from trellis.nn.dropout import check_rate
from trellis.nn.embeddings import CategoryEmbedding
from trellis.nn.packing import Packing
from trellis.symbols import PADDING


class CharacterCNN(nn.Module):
    """Convolutions over the characters of a word, then the largest value of each filter.

    ``output[f] = tanh(max_t (bias[f] + sum_k weight[f, k] . vector[t + k - (width - 1) // 2]))`` with t over the
    characters of the word and zeros around it.

    Args:
        count: how many character ids there are, padding and unknown included.
        size: length of the vectors of characters.
        output_size: how many filters there are, divided evenly among the widths.
        widths: how many characters a filter sees, one or several.
        dropout: for the vectors of characters; the same everywhere in the batch for one character.

    """

    def __init__(
        self, count: int, size: int, output_size: int, *, widths: Sequence[int] = (3,), dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not widths or min(widths) < 1:
            raise ConfigError(f"widths must be one or more numbers of at least 1, got {tuple(widths)}")
        if output_size < len(widths):
            raise ConfigError(f"output_size must be at least {len(widths)}, one filter per width, got {output_size}")
        self.output_size = output_size
        self.widths = tuple(widths)
        self.embedding = CategoryEmbedding(count, size)
        self.dropout = nn.Dropout(check_rate(dropout, "dropout"))
        share, rest = divmod(output_size, len(widths))
        self.filters = nn.ModuleList(
            nn.Linear(width * size, share + (number < rest)) for number, width in enumerate(widths)
        )

    def forward(self, characters: Tensor) -> Tensor:
        """``(W, C)`` to ``(W, output_size)``; a word without characters is read as one place of padding."""
        vectors = self.dropout(self.embedding.weight)
        if native.supports(vectors):
            return self._by_tables(characters, vectors)
        return self._by_windows(characters, vectors).tanh()

    def _by_tables(self, characters: Tensor, vectors: Tensor) -> Tensor:
        """The same by the native kernel, for the characters that occur if they are few."""
        if len(vectors) > characters.numel():
            with_padding = torch.cat((characters.new_zeros(1), characters.flatten()))
            own, places = torch.unique(with_padding, return_inverse=True)  # padding, the smallest id, is still 0
            characters, vectors = places[1:].view_as(characters), vectors[own]
        values = []
        for filters in self.filters:
            assert isinstance(filters, nn.Linear)
            values.append(spelling.filtered(vectors, filters.weight, filters.bias, characters))
        return values[0] if len(values) == 1 else torch.cat(values, 1)

    def _by_windows(self, characters: Tensor, vectors: Tensor) -> Tensor:
        """The same with torch's own operations, on any device."""
        widest = max(self.widths)
        windows, lengths = _windows(characters, widest)
        around = F.embedding(windows, vectors, PADDING)  # [N, widest, size], N characters in all
        values = []
        for width, filters in zip(self.widths, self.filters, strict=True):
            first = (widest - 1) // 2 - (width - 1) // 2
            values.append(filters(around[:, first : first + width].flatten(1)))
        # The largest of the N rows of each word; faster than scatter_reduce, and faster than padding them for max.
        return torch.segment_reduce(torch.cat(values, 1), "max", lengths=lengths, unsafe=True)


class CharacterLSTM(nn.Module):
    """The last states of two LSTMs that read the characters of a word, one forward and one backward.

    Args:
        count: how many character ids there are, padding and unknown included.
        size: length of the vectors of characters.
        output_size: of both directions together, hence even.
        dropout: for the vectors of characters; the same everywhere in the batch for one character.

    """

    def __init__(self, count: int, size: int, output_size: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if output_size < 2 or output_size % 2:
            raise ConfigError(f"output_size must be even, half of it for each direction, got {output_size}")
        self.output_size = output_size
        self.embedding = CategoryEmbedding(count, size)
        self.dropout = nn.Dropout(check_rate(dropout, "dropout"))
        self.lstm = nn.LSTM(size, output_size // 2, bidirectional=True)

    def forward(self, characters: Tensor) -> Tensor:
        """``(W, C)`` to ``(W, output_size)``; a word without characters is read as one place of padding."""
        characters, lengths = _at_least_one(characters)
        if len(lengths) == 0:
            return self.embedding.weight.new_zeros(0, self.output_size)
        present = torch.arange(characters.shape[1], device=characters.device) < lengths[:, None]
        vectors = F.embedding(characters[present], self.dropout(self.embedding.weight), PADDING)
        states = run_lstm(self.lstm, vectors, Packing.of(lengths.cpu().numpy()))
        ends, half = lengths.cumsum(0), self.output_size // 2
        return torch.cat([states[ends - 1, :half], states[ends - lengths, half:]], 1)


def _at_least_one(characters: Tensor) -> tuple[Tensor, Tensor]:
    """The characters and lengths of the words; an empty word has its first place of padding."""
    if characters.shape[1] == 0:
        characters = F.pad(characters, (0, 1), value=PADDING)
    return characters, (characters != PADDING).sum(1).clamp_min(1)


def _windows(characters: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The `width` ids around each of the N characters, ``(N, width)``, and the lengths ``(W,)`` that sum to N."""
    characters, lengths = _at_least_one(characters)
    left = (width - 1) // 2
    padded = F.pad(characters, (left, width - 1 - left), value=PADDING)
    places = torch.arange(characters.shape[1], device=characters.device) < lengths[:, None]
    rows, columns = places.nonzero(as_tuple=True)
    first = rows * padded.shape[1] + columns
    offsets = torch.arange(width, device=characters.device)
    return padded.reshape(-1)[first[:, None] + offsets], lengths
