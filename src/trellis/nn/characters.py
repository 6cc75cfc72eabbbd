"""Vectors of words made from their characters, for words that are in no table.

Both modules map the *distinct* words of a batch, ``(W, C)`` character ids padded on the right with 0, to
``(W, output_size)``; the caller gathers the rows of its tokens. Work and memory grow with the number of
characters, not with ``W * C``: one long word among short ones costs no more than its own length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trellis import _native
from trellis.arrays import plain_tensor
from trellis.errors import ConfigError, ShapeError
from trellis.nn.dropout import RowSource, check_rate
from trellis.nn.encoder import Batch, CategoryEmbedding, Part
from trellis.nn.lstm import Packing, has_kernels, run_lstm
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
        if not has_kernels(vectors):
            return self._by_windows(characters, vectors).tanh()
        if len(vectors) > characters.numel():  # with vectors of only the characters that occur
            with_padding = torch.cat((characters.new_zeros(1), characters.flatten()))
            present, index = torch.unique(with_padding, return_inverse=True)  # padding, the smallest id, is still 0
            characters, vectors = index[1:].view_as(characters), vectors[present]
        values = []
        for filters in self.filters:
            assert isinstance(filters, nn.Linear)
            values.append(character_filters(vectors, filters.weight, filters.bias, characters))
        return values[0] if len(values) == 1 else torch.cat(values, 1)

    def _by_windows(self, characters: Tensor, vectors: Tensor) -> Tensor:
        """`forward` before its tanh with torch's own operations, on any device."""
        widest = max(self.widths)
        characters, lengths = _at_least_one(characters)
        left = (widest - 1) // 2
        padded = F.pad(characters, (left, widest - 1 - left), value=PADDING)
        present = torch.arange(characters.shape[1], device=characters.device) < lengths[:, None]
        rows, columns = present.nonzero(as_tuple=True)  # of the N characters in all
        first = rows * padded.shape[1] + columns
        windows = padded.reshape(-1)[first[:, None] + torch.arange(widest, device=characters.device)]  # [N, widest]
        around = F.embedding(windows, vectors, PADDING)  # [N, widest, size]
        values = []
        for width, filters in zip(self.widths, self.filters, strict=True):
            begin = left - (width - 1) // 2
            values.append(filters(around[:, begin : begin + width].flatten(1)))
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


def character_filters(vectors: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    """From vectors ``(characters, size)``, filters ``(F, width * size)`` and words ``(W, C)`` to ``(W, F)``.

    ``tanh(bias + max_t sum_k weight[:, k] . vector[word[t + k - (width - 1) // 2]])`` with t over the characters of the
    word, which is padded with 0; places before and after it add nothing, and a word without characters has a sum of 0.
    """
    tensors = (vectors, weight, bias)
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    features: Tensor = _CharacterFilters.apply(keep, words, *tensors)  # type: ignore[no-untyped-call]
    return features


class _CharacterFilters(torch.autograd.Function):
    """The product of each character's vector and each place of a filter is computed once, however often it occurs.

    Keeps its own copy of the words for the backward pass: changed ids could point outside the table.
    """

    @staticmethod
    def forward(ctx: Any, keep: bool, words: Tensor, vectors: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        words = plain_tensor(words.to(torch.int64, copy=keep))
        by_place = weight.view(len(weight), -1, vectors.shape[1]).transpose(0, 1)  # (width, F, size)
        table = plain_tensor(torch.matmul(vectors, by_place.transpose(1, 2)))  # (width, characters, F)
        (W, C), (width, count, F) = words.shape, table.shape
        largest, places = table.new_empty(W, F), torch.empty(W, F, dtype=torch.int32)
        shape = (words.data_ptr(), W, C, table.data_ptr(), width, count, F)
        if not _native.spelling_forward(table.dtype == torch.float64, *shape, largest.data_ptr(), places.data_ptr()):
            wrong = int(words[(words < 0) | (words >= count)][0])
            raise ShapeError(f"ids of characters must be in 0..{count - 1}, got {wrong}")
        values = largest.add_(bias).tanh_()
        if keep:
            ctx.save_for_backward(words, places, vectors, by_place, values)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        words, places, vectors, by_place, values = ctx.saved_tensors
        (W, C), (width, F, _), count = words.shape, by_place.shape, len(vectors)
        of_largest = plain_tensor(torch.ops.aten.tanh_backward(gradient, values))
        of_table = vectors.new_zeros(width, count, F)
        shape = (words.data_ptr(), W, C, of_table.data_ptr(), width, count, F)
        _native.spelling_backward(vectors.dtype == torch.float64, *shape, of_largest.data_ptr(), places.data_ptr())
        of_vectors = torch.matmul(of_table, by_place).sum(0)
        of_weight = torch.matmul(of_table.transpose(1, 2), vectors).transpose(0, 1).flatten(1)
        return None, None, of_vectors, of_weight, of_largest.sum(0)


class CharacterPart(Part):
    """Features of each distinct word's characters, copied to its tokens."""

    of_words = True

    def __init__(self, module: CharacterCNN | CharacterLSTM) -> None:
        super().__init__()
        self.module = module
        self.output_size = module.output_size

    def forward(self, batch: Batch) -> Tensor:
        assert batch.characters is not None
        by_word: Tensor = self.module(batch.characters.words)
        index = batch.characters.index
        if by_word.device.type == "cpu":
            return by_word.index_select(0, index)
        return F.embedding(index, by_word)  # slower, but its gradient is reproducible on GPUs too

    def sources(self, batch: Batch) -> list[RowSource]:
        assert batch.characters is not None
        return [RowSource(self.module(batch.characters.words), batch.characters.index)]
