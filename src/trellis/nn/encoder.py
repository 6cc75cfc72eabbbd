"""The encoder of a neural tagger: parts side by side, then BiLSTM layers.

    word + file's vector | characters | case | columns | transformer  ->  dropout  ->  BiLSTM  ->  dropout

Each part is optional and gives ``(N, width)``, one row per token of the batch, flat.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trellis.nn.bilstm import BiLSTM
from trellis.nn.dropout import LockedDropout, TokenDropout
from trellis.nn.masked import Dropout, RowSource
from trellis.nn.packing import Packing


@dataclass(frozen=True, slots=True, eq=False)
class Characters:
    """The characters of a batch's distinct words ``(W, C)``, padded with 0, and the word of each token ``(N,)``."""

    words: Tensor
    index: Tensor

    def to(self, device: torch.device) -> Characters:
        """The same on another device."""
        return Characters(self.words.to(device), self.index.to(device))


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

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
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
        """The same as tables whose rows, added up, are the features: they need not be looked up one by one."""
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
        """Whether this is true of every part: then it accepts batches with an index."""
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
        """What the input and the output of the BiLSTM lose in this step."""
        tokens, plain, locked = (
            own.p if self.training else 0.0 for own in (self.token_dropout, self.dropout, self.locked_dropout)
        )
        first = Dropout.drawn(tokens=tokens, numbers=plain, columns=locked)
        return first, Dropout.drawn(numbers=plain, columns=locked)

    def _drop(self, features: Tensor, packing: Packing) -> Tensor:
        dropped: Tensor = self.locked_dropout(self.dropout(features), packing.sequence, len(packing.lengths))
        return dropped
