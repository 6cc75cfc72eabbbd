"""The encoder of a neural tagger: parts side by side, then BiLSTM layers.

    word + file's vector | characters | case | columns | transformer  ->  dropout  ->  BiLSTM  ->  dropout

Each part is optional and gives ``(N, width)``, one row per token of the batch, flat. `joined_loss` computes all of it,
the emissions and the loss of a CRF as one operation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from trellis.arrays import BoolArray, Float32Array, IntArray
from trellis.chain import torch as scoring
from trellis.errors import ConfigError
from trellis.nn.crf import CRF
from trellis.nn.dropout import Dropout, LockedDropout, RowSource, RowSources, TokenDropout, WordDropout, check_rate
from trellis.nn.lstm import BiLSTM, LayerRun, Packing, backward_pass, forward_pass, has_kernels
from trellis.symbols import PADDING


@dataclass(frozen=True, slots=True, eq=False)
class Characters:
    """The characters of a batch's distinct words ``(W, C)``, padded with 0, and the word of each token ``(N,)``."""

    words: Tensor
    index: Tensor

    def to(self, device: torch.device) -> Characters:
        return Characters(self.words.to(device), self.index.to(device))


class Around(NamedTuple):
    """The words with vectors that contain each token: 4 times the token plus its place in the word, vector, weight."""

    slots: Tensor
    vectors: Tensor
    shares: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """N tokens of B sentences, flat; inputs that the encoder does not use may be anything.

    With an `index`, the rows of word, vector, case and characters are those of the batch's W distinct words, and the
    index says which word each token is: what depends on the word alone is computed once.
    """

    packing: Packing
    word: Tensor
    vector: Tensor
    case: Tensor | None
    columns: Mapping[str, Tensor]
    characters: Characters | None = None
    pairs: Tensor | None = None
    """``(N, 2)``: each token with its left and with its right neighbour."""
    pretrained: Mapping[str, Tensor] | None = None
    """The input of the transformer, which moves it to its device itself."""
    index: Tensor | None = None
    """``(N,)``"""
    around: Around | None = None

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        return Batch(
            self.packing.to(device),
            self.word.to(device),
            self.vector.to(device),
            None if self.case is None else self.case.to(device),
            {name: values.to(device) for name, values in self.columns.items()},
            None if self.characters is None else self.characters.to(device),
            None if self.pairs is None else self.pairs.to(device),
            self.pretrained,
            None if self.index is None else self.index.to(device),
            None if self.around is None else Around(*(tensor.to(device) for tensor in self.around)),
        )


class Part(nn.Module, ABC):
    """Something that gives each token of a batch some features."""

    output_size: int
    of_words = False
    """Whether a token's features depend on its word only, not on its place."""

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """``(N, output_size)``, or ``(W, output_size)`` of a batch with an index."""

    def sources(self, batch: Batch) -> list[RowSource]:
        """Tables whose rows, added up, are the features: `joined_loss` looks them up and puts them side by side."""
        return [RowSource(self(batch))]


class Encoder(nn.Module):
    """Parts side by side, dropout, BiLSTM layers (none with ``hidden=0``), dropout.

    Args:
        parts: modules from a `Batch` to ``(N, width)``, each with its `output_size`.
        hidden: width of each BiLSTM layer's output.
        layers: how many.
        dropout: plain dropout before and after the BiLSTM.
        locked_dropout: dropout with one mask per sentence, at the same places and between layers.
        token_dropout: share of tokens whose features are zeroed before the BiLSTM.

    """

    def __init__(
        self,
        parts: Mapping[str, Part],
        *,
        hidden: int,
        layers: int = 1,
        dropout: float = 0.0,
        locked_dropout: float = 0.0,
        token_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)
        size = sum(part.output_size for part in parts.values())
        self.lstm = BiLSTM(size, hidden, layers, dropout=locked_dropout) if hidden else None
        self.output_size = hidden or size
        self.dropout = nn.Dropout(dropout)
        self.locked_dropout = LockedDropout(locked_dropout)
        self.token_dropout = TokenDropout(token_dropout)

    @property
    def of_words(self) -> bool:
        """Whether all parts depend on words only, so that batches may have an index."""
        return all(isinstance(part, Part) and part.of_words for part in self.parts.values())

    def forward(self, batch: Batch) -> Tensor:
        """``(N, output_size)``."""
        features = torch.cat([part(batch) for part in self.parts.values()], dim=1)
        index = batch.index
        if index is not None and (self.training or self.lstm is None):
            features, index = features.index_select(0, index), None
        features = self._drop(self.token_dropout(features), batch.packing)
        if self.lstm is None:
            return features
        return self._drop(self.lstm(features, batch.packing, index), batch.packing)

    def sources(self, batch: Batch) -> list[list[RowSource]]:
        """Where the features of the parts come from, part by part."""
        assert batch.index is None
        parts = self.parts.values()
        return [part.sources(batch) for part in parts]  # type: ignore[operator]

    def draw_dropout(self) -> tuple[Dropout, Dropout]:
        """Dropout of the input and of the output of the BiLSTM, drawn for one step."""
        layers = (self.token_dropout, self.dropout, self.locked_dropout)
        tokens, plain, locked = (layer.p if self.training else 0.0 for layer in layers)
        first = Dropout.drawn(tokens=tokens, numbers=plain, columns=locked)
        return first, Dropout.drawn(numbers=plain, columns=locked)

    def _drop(self, features: Tensor, packing: Packing) -> Tensor:
        dropped: Tensor = self.locked_dropout(self.dropout(features), packing.sequence, len(packing.lengths))
        return dropped


class CategoryEmbedding(nn.Module):
    """A vector for each of a few categories: capitalisation, the values of an extra column.

    Id 0 is padding, whose vector is zero and never trained; id 1 is everything unknown.

    Args:
        count: how many ids there are, padding and unknown included.
        size: length of the vectors, which is also `output_size`.

    """

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        if count < 2:
            raise ConfigError(f"count must be at least 2, for padding and unknown, got {count}")
        if size < 1:
            raise ConfigError(f"size must be at least 1, got {size}")
        self.output_size = size
        limit = math.sqrt(3.0 / size)  # of uniform numbers of variance 1 / size
        self.weight = nn.Parameter(torch.empty(count, size).uniform_(-limit, limit))
        self.weight.data[PADDING] = 0.0

    def forward(self, ids: Tensor) -> Tensor:
        """``(B, T)`` to ``(B, T, size)``."""
        return F.embedding(ids, self.weight, PADDING)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class WordEmbedding(CategoryEmbedding):
    """A vector for each word, drawn at random.

    Args:
        count: how many ids there are, padding and the unknown word included.
        size: length of the vectors, which is also `output_size`.
        dropout: in training, the probability that a known word is treated as unknown.

    """

    def __init__(self, count: int, size: int, *, dropout: float = 0.0) -> None:
        super().__init__(count, size)
        self.dropout = WordDropout(check_rate(dropout, "dropout"))

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(self.dropout(ids))


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
        self, count: int, size: int, *, vectors: Float32Array | None = None, learnt: bool = True, unknown: float = 0.0
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

    def hide_rare_words(self, occurrences: IntArray, rare: float) -> None:
        """In training, treat a word that occurs n times as unknown with a probability of at least rare / (rare + n)."""
        if self.learnt is not None:
            rates = np.maximum(self.learnt.dropout.p, rare / (rare + occurrences))
            self.learnt.dropout.rates = torch.from_numpy(rates).float()

    def forward(self, batch: Batch) -> Tensor:
        if self.learnt is None:
            assert self.vectors is not None
            return self.vectors(batch.vector)  # type: ignore[no-any-return]
        learnt: Tensor = self.learnt(batch.word)
        return learnt if self.vectors is None else learnt + self.vectors(batch.vector)

    def sources(self, batch: Batch) -> list[RowSource]:
        learnt, vectors, sources = self.learnt, self.vectors, []
        if learnt is not None:
            sources.append(RowSource(learnt.weight, learnt.dropout(batch.word), padded=True))
        if vectors is not None:
            sources.append(RowSource(vectors.weight, batch.vector))
        return sources


class LexiconPart(Part):
    """A projection of the weighted vectors of the words that begin, go on, end or stand at a token (SoftLexicon).

    The vectors are those of the file that `words` has, and are not trained.
    """

    def __init__(self, words: WordPart, places: int, size: int) -> None:
        super().__init__()
        assert words.vectors is not None
        self._vectors, self.output_size = (words.vectors,), size  # in a tuple: they are weights of `words` only
        self.projection = nn.Linear(places * words.output_size, size, bias=False)

    def forward(self, batch: Batch) -> Tensor:
        (vectors,), around = self._vectors, batch.around
        assert around is not None
        rows = vectors.weight.new_zeros(len(batch.word), self.projection.in_features)
        found = vectors(around.vectors) * around.shares[:, None]
        rows.view(-1, found.shape[1]).index_add_(0, around.slots, found)
        projected: Tensor = self.projection(rows)
        return projected


class LookupPart(Part):
    """A vector for an id that each token has; for its pairs, two side by side.

    Args:
        of: what is looked up: the pairs with its left and its right neighbour, its case (how it is written), or its
            value of a column.
        count: how many ids there are, padding and unknown included.
        size: width of a vector.
        column: the name of the column.
        unknown: share of known ids that training treats as unknown.

    """

    def __init__(
        self, of: Literal["pairs", "case", "column"], count: int, size: int, *, column: str = "", unknown: float = 0.0
    ) -> None:
        super().__init__()
        self.of, self.column, self.of_words = of, column, of == "case"
        self.embedding = WordEmbedding(count, size, dropout=unknown)
        self.output_size = size * (2 if of == "pairs" else 1)

    def forward(self, batch: Batch) -> Tensor:
        ids = batch.columns[self.column] if self.of == "column" else getattr(batch, self.of)
        vectors: Tensor = self.embedding(ids)
        return vectors.flatten(1)


def has_joined_loss(encoder: Encoder, emission: nn.Linear) -> bool:
    """Whether `joined_loss` computes the loss of a network with this encoder."""
    return has_kernels(emission.weight) and encoder.lstm is not None and len(encoder.lstm.layers) == 1


def joined_loss(encoder: Encoder, emission: nn.Linear, crf: CRF, batch: Batch, tags: Tensor) -> Tensor:
    """The negative log-likelihood of the tags ``(N,)``, summed over the sentences of a batch, as one node of the graph.

    It is what the modules compute one after another, on the CPU; a node for each of their operations, and each pass
    that one of them makes over all features, would take as long as the arithmetic. The batch has a token.
    """
    assert encoder.lstm is not None
    layer, sources = encoder.lstm.layers[0], encoder.sources(batch)
    assert isinstance(layer, nn.LSTM)
    tables = [source.table for columns in sources for source in columns]
    forward, backward = layer.all_weights
    weights = (*forward, *backward, emission.weight, emission.bias, *crf.parameters())
    inputs = _LossInputs(crf, sources, batch.packing.lengths, tags, *encoder.draw_dropout())
    loss: Tensor = _JoinedLoss.apply(inputs, *weights, *tables)  # type: ignore[no-untyped-call]
    return loss


class _LossInputs(NamedTuple):
    """The inputs of the loss that are not trained."""

    crf: CRF
    sources: RowSources
    lengths: IntArray
    tags: Tensor
    inward: Dropout
    outward: Dropout


class _JoinedLoss(torch.autograd.Function):
    """The gradient of the chain is computed together with its loss, that of everything before it in the backward pass.

    The tensors are the weights of the BiLSTM, of the emission layer, of the CRF, and the tables of the sources.
    """

    @staticmethod
    def forward(ctx: Any, inputs: _LossInputs, *tensors: Tensor) -> Tensor:
        lengths, emission, bias = inputs.lengths, tensors[8], tensors[9]
        run = forward_pass(inputs.inward.joined(inputs.sources, lengths), None, lengths, tensors[:8], keep=True)
        states = inputs.outward.apply(run.states, lengths)
        scores = scoring.ChainScores(torch.addmm(bias, states, emission.t()), lengths, *inputs.crf.chain_parameters())
        loss, gradients = scores.total_nll_gradient(inputs.tags)
        ctx.save_for_backward(*run, states, emission, *gradients[:4])
        ctx.inputs = inputs
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        inputs, saved = ctx.inputs, ctx.saved_tensors
        run, (states, emission, *of_chain) = LayerRun(*saved[: len(LayerRun._fields)]), saved[len(LayerRun._fields) :]
        of_emissions, of_transitions, of_start, of_end = (x * outer for x in of_chain)
        of_states = inputs.outward.apply(of_emissions @ emission, inputs.lengths)
        of_tables: list[Tensor | None] = [None] * (len(ctx.needs_input_grad) - 14)
        wanted = any(ctx.needs_input_grad[14:])
        of_features, of_lstm = backward_pass(run, inputs.lengths, of_states, inputs_too=wanted)
        if of_features is not None:
            of_tables = inputs.inward.gradients(of_features, inputs.sources, inputs.lengths)
        of_emission = (of_emissions.t() @ states, of_emissions.sum(0))
        return (None, *of_lstm, *of_emission, of_start, of_end, of_transitions, *of_tables)
