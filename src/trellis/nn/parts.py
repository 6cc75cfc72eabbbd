"""The parts of an encoder: each gives the tokens of a batch some features, ``(N, output_size)``."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trellis.arrays import BoolArray, Float32Array
from trellis.nn.bilstm import BiLSTM
from trellis.nn.characters import CharacterCNN, CharacterLSTM
from trellis.nn.embeddings import CategoryEmbedding, WordEmbedding
from trellis.nn.encoder import Batch, Part
from trellis.nn.masked import RowSource
from trellis.nn.packing import Packing
from trellis.nn.pooling import WordPooling
from trellis.nn.transformer import TransformerEncoder


class WordPart(Part):
    """A vector for each word: a learned one, one read from a file, or the sum of both.

    With a file's vectors the learned one is a correction that begins at zero. Words that are not in the training data
    keep their vector and get the correction of the unknown word, which is learned on known words treated as unknown.

    Args:
        count: ids of words, padding and the unknown word included.
        size: width.
        vectors: ``(V, size)`` of a file, row 0 zeros; None for none.
        learnt: whether words have a learned vector.
        unknown: share of known words that training treats as unknown.

    """

    of_words = True

    def __init__(
        self,
        count: int,
        size: int,
        *,
        vectors: Float32Array | None = None,
        learnt: bool = True,
        unknown: float = 0.0,
    ) -> None:
        super().__init__()
        self.output_size = size
        self.learnt, self.vectors = None, None
        if vectors is not None:
            self.vectors = nn.Embedding(len(vectors), size, _weight=torch.tensor(vectors), _freeze=True)
        if learnt:
            self.learnt = WordEmbedding(count, size, dropout=unknown)

    def begin_at_vectors(self, with_vector: BoolArray) -> None:
        """Set the correction of words that have a vector in the file, ``(count,)`` true, to zero."""
        if self.learnt is not None:
            self.learnt.weight.data[torch.from_numpy(with_vector)] = 0.0

    def forward(self, batch: Batch) -> Tensor:
        """``(N, size)``."""
        if self.learnt is None:
            assert self.vectors is not None
            return self.vectors(batch.vector)  # type: ignore[no-any-return]
        learnt: Tensor = self.learnt(batch.word)
        return learnt if self.vectors is None else learnt + self.vectors(batch.vector)

    def sources(self, batch: Batch) -> list[RowSource]:
        """See `Part`."""
        learnt, vectors = self.learnt, self.vectors
        own = [] if learnt is None else [RowSource(learnt.weight, learnt.dropout(batch.word), padded=True)]
        return own if vectors is None else [*own, RowSource(vectors.weight, batch.vector)]


class CharacterPart(Part):
    """Features of each distinct word's characters, copied to its tokens."""

    of_words = True

    def __init__(self, module: CharacterCNN | CharacterLSTM) -> None:
        super().__init__()
        self.module = module
        self.output_size = module.output_size

    def forward(self, batch: Batch) -> Tensor:
        """``(N, output_size)``."""
        assert batch.characters is not None
        by_word: Tensor = self.module(batch.characters.words)
        index = batch.characters.index
        if by_word.device.type == "cpu":
            return by_word.index_select(0, index)
        return F.embedding(index, by_word)  # slower, but its gradient is reproducible on GPUs too

    def sources(self, batch: Batch) -> list[RowSource]:
        """See `Part`."""
        assert batch.characters is not None
        return [RowSource(self.module(batch.characters.words), batch.characters.index)]


class CasePart(Part):
    """A vector for how a word is written."""

    of_words = True

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.embedding = CategoryEmbedding(count, size)
        self.output_size = size

    def forward(self, batch: Batch) -> Tensor:
        """``(N, output_size)``."""
        assert batch.case is not None
        return self.embedding(batch.case)  # type: ignore[no-any-return]


class PairPart(Part):
    """Two vectors: of a token with its left neighbour, and with its right one.

    Args:
        count: ids of pairs, padding and the unknown pair included.
        size: width of each vector.
        unknown: share of known pairs that training treats as unknown.

    """

    def __init__(self, count: int, size: int, *, unknown: float = 0.0) -> None:
        super().__init__()
        self.embedding = WordEmbedding(count, size, dropout=unknown)
        self.output_size = 2 * size

    def forward(self, batch: Batch) -> Tensor:
        """``(N, output_size)``."""
        assert batch.pairs is not None
        vectors: Tensor = self.embedding(batch.pairs)
        return vectors.flatten(1)


class ColumnPart(Part):
    """A vector for the value of a further column."""

    def __init__(self, name: str, count: int, size: int) -> None:
        super().__init__()
        self.name = name
        self.embedding = CategoryEmbedding(count, size)
        self.output_size = size

    def forward(self, batch: Batch) -> Tensor:
        """``(N, output_size)``."""
        return self.embedding(batch.columns[self.name])  # type: ignore[no-any-return]


class PretrainedPart(Part):
    """The features of a pretrained transformer, one row per word.

    With `hidden`, BiLSTM layers read its subwords, window by window, before these are pooled to words.
    """

    def __init__(
        self, transformer: TransformerEncoder, *, hidden: int = 0, layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.transformer = transformer
        self.output_size = hidden or transformer.output_size
        self.lstm = BiLSTM(transformer.output_size, hidden, layers, dropout=dropout) if hidden else None
        self.pooling = WordPooling(transformer.pooling.how, size=hidden) if hidden else None

    def forward(self, batch: Batch) -> Tensor:
        """``(N, output_size)``."""
        assert batch.pretrained is not None
        if self.pooling is None:
            features, mask = self.transformer(batch.pretrained)
            flat: Tensor = features[mask]
            return flat
        own = {name: tensor.to(self.pooling.absent.device) for name, tensor in batch.pretrained.items()}
        mask = own["mask"]
        if own["ids"].numel() == 0:
            return self.pooling.absent.expand(int(mask.sum()), -1)
        words: Tensor = self.pooling(self._read(own), own["word_ids"], mask, rows=own["rows"])
        return words[mask]

    def _read(self, batch: Mapping[str, Tensor]) -> Tensor:
        """The states of the BiLSTM at each subword, ``(R, S, output_size)``, 0 at padding."""
        assert self.lstm is not None
        (states,), real = self.transformer.states(batch), batch["attention"].bool()
        packing = Packing.of(real.sum(dim=1).cpu().numpy()).to(states.device)
        read = self.lstm(states[real], packing)
        return states.new_zeros(*real.shape, self.output_size).masked_scatter(real[..., None], read.to(states.dtype))
