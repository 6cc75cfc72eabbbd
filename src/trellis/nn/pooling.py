"""From subwords to words: one feature vector per word, whole batches at once.

An encoder gives ``features[R, S, H]``, one vector per subword; ``word_ids[R, S]`` says which word each subword belongs
to, -1 for special tokens, padding and anything else to be dropped. The places of a word's subwords do not matter,
so padding may be on either side. The subwords are sorted by word and reduced segment by segment in
one operation: no loop over sentences or words.

    >>> features = torch.tensor([[[9.0], [1.0], [2.0], [4.0]]])
    >>> word_ids = torch.tensor([[-1, 0, 2, 2]])
    >>> pool(features, word_ids, 3, "mean").tolist()
    [[[1.0], [0.0], [3.0]]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from trellis.errors import ConfigError, ShapeError

How = Literal["mean", "first", "last", "max"]
"""How the subwords of a word become one vector."""


class Segments(NamedTuple):
    """Subwords in the order of their words; one segment per word, and a last one for what is dropped."""

    order: Tensor  # (R * S,) places of the subwords
    counts: Tensor  # (B * T + 1,) subwords of each word

    @property
    def starts(self) -> Tensor:
        """Where each segment begins in ``order``."""
        return self.counts.cumsum(0) - self.counts


def pool(
    features: Tensor,
    word_ids: Tensor,
    words: int,
    how: How = "mean",
    *,
    rows: Tensor | None = None,
    sentences: int | None = None,
) -> Tensor:
    """Word features ``(B, T, H)`` of subword features ``(R, S, H)``; a word without subwords is zero.

    Args:
        features: one vector per subword.
        word_ids: ``(R, S)``, the word of each subword within its sentence, or -1.
        words: T, the words of the longest sentence.
        how: "mean", "first", "last" or "max" of a word's subwords.
        rows: ``(R,)``, the sentence of each row, if long sentences take several; row b is sentence b by default.
        sentences: B, required with ``rows``.

    """
    if word_ids.numel() and int(word_ids.max()) >= words:
        raise ShapeError(f"word_ids must be below T = {words}, got {int(word_ids.max())}")
    segments = arrange(features, word_ids, words, rows, sentences)
    B = len(features) if sentences is None else sentences
    return _reduce(features, segments, how).view(B, words, features.shape[2])


def arrange(
    features: Tensor, word_ids: Tensor, words: int, rows: Tensor | None = None, sentences: int | None = None
) -> Segments:
    """The segments that `pool` reduces; ``counts`` says which words have subwords at all."""
    if features.dim() != 3 or word_ids.shape != features.shape[:2]:
        raise ShapeError(
            f"features must be (R, S, H) and word_ids (R, S), got {tuple(features.shape)} and {tuple(word_ids.shape)}"
        )
    if (rows is None) != (sentences is None) or (rows is not None and rows.shape != word_ids.shape[:1]):
        raise ShapeError(f"rows must be (R,) = ({len(word_ids)},) and come with the number of sentences")
    if rows is None:
        rows, sentences = torch.arange(len(word_ids), device=word_ids.device), len(word_ids)
    assert sentences is not None
    dropped = sentences * words
    targets = torch.where(word_ids >= 0, word_ids + rows[:, None] * words, dropped).view(-1)
    # A stable sort keeps the subwords of a word in their order, which "first" and "last" look at.
    targets, order = targets.sort(stable=True)
    bounds = torch.searchsorted(targets, torch.arange(dropped + 1, device=targets.device))
    return Segments(order, bounds.diff(append=bounds.new_tensor([targets.numel()])))


def _reduce(features: Tensor, segments: Segments, how: How) -> Tensor:
    """``out[w] = how(features[i] for i in segment w)``, ``(B * T, H)``, zero for an empty segment."""
    flat = features.reshape(-1, features.shape[2])
    order, offsets, counts = segments.order, segments.starts, segments.counts
    if how in ("first", "last"):
        # Segments of one subword, or of none if the word has none.
        chosen = offsets if how == "first" else offsets + counts - 1
        order = order.index_select(0, chosen[counts > 0])
        counts = (counts > 0).to(offsets.dtype)
        offsets = counts.cumsum(0) - counts
    mode = "max" if how == "max" else "mean"
    # One fused gather and reduction; on CPUs it is much faster than index_add and gives the same bits every time.
    return nn.functional.embedding_bag(order, flat, offsets, mode=mode)[:-1]


class WordPooling(nn.Module):
    """From an encoder's subword states to word features, with the parameters learned on the way.

    Each given layer of the encoder is pooled; several layers are mixed with learned weights,
    ``scale * sum_l softmax(weights)[l] * pooled[l]``. A word that the tokenizer turned into nothing gets a learned
    vector, so that every word has a feature.

    Args:
        how: "mean", "first", "last" or "max".
        size: H.
        layers: how many layers are mixed; None for one layer, which is used unchanged.

    """

    def __init__(self, how: How = "mean", *, size: int, layers: int | None = None) -> None:
        super().__init__()
        if how not in get_args(How):
            raise ConfigError(f"pooling must be one of {', '.join(get_args(How))}, got {how!r}")
        if layers is not None and layers < 1:
            raise ConfigError(f"layers must be at least 1 or None, got {layers}")
        self.how: How = how
        self.output_size = size
        self.layers = layers
        self.absent = nn.Parameter(torch.empty(size).normal_(std=0.02))
        if layers is not None:
            self.weights = nn.Parameter(torch.zeros(layers))
            self.scale = nn.Parameter(torch.ones(()))

    def forward(
        self, states: Tensor | Sequence[Tensor], word_ids: Tensor, mask: Tensor, *, rows: Tensor | None = None
    ) -> Tensor:
        """Word features ``(B, T, H)``.

        Args:
            states: ``(R, S, H)``, or one such tensor for each layer of the mix.
            word_ids: ``(R, S)``, the word of each subword or -1.
            mask: ``(B, T)``, true for places that hold a word.
            rows: ``(R,)``, the sentence of each row; row b is sentence b by default.

        """
        if self.layers is None or self.how == "max":
            return self.finish(*self.pool(states, word_ids, mask, rows=rows), mask)
        # The other ways are linear: mixing the layers first gives the same, and only one is left to pool.
        mixed = self._mix(self._layers(states))
        (features,), present = _pool_layers([mixed], word_ids, mask, rows, self.how)
        return self._with_absent(features, present, mask)

    def pool(
        self, states: Tensor | Sequence[Tensor], word_ids: Tensor, mask: Tensor, *, rows: Tensor | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """The part without parameters: each layer ``(B, T, H)``, and which words have subwords, ``(B, T)``."""
        return _pool_layers(self._layers(states), word_ids, mask, rows, self.how)

    def finish(self, pooled: Sequence[Tensor], present: Tensor, mask: Tensor) -> Tensor:
        """The learned part: the mix of layers, and the vector of words without subwords."""
        features = pooled[0] if self.layers is None else self._mix(pooled)
        return self._with_absent(features, present, mask)

    def _layers(self, states: Tensor | Sequence[Tensor]) -> list[Tensor]:
        layers = [states] if isinstance(states, Tensor) else list(states)
        if len(layers) != (self.layers or 1):
            raise ShapeError(f"expected the states of {self.layers or 1} layers, got {len(layers)}")
        return layers

    def _with_absent(self, features: Tensor, present: Tensor, mask: Tensor) -> Tensor:
        return torch.where((mask & ~present)[..., None], self.absent, features)

    def _mix(self, layers: Sequence[Tensor]) -> Tensor:
        first, *others = (self.scale * self.weights.softmax(0)).unbind()
        mixed = layers[0] * first
        for layer, weight in zip(layers[1:], others, strict=True):  # a stack of all would cost more than the sum
            mixed.addcmul_(layer, weight)
        return mixed


def _pool_layers(
    layers: Sequence[Tensor], word_ids: Tensor, mask: Tensor, rows: Tensor | None, how: How
) -> tuple[list[Tensor], Tensor]:
    """Each layer by words, ``(B, T, H)``, and which words have subwords, ``(B, T)``."""
    B, T = mask.shape
    segments = arrange(layers[0], word_ids, T, rows, None if rows is None else B)
    pooled = [_reduce(layer, segments, how).view(B, T, -1) for layer in layers]
    return pooled, (segments.counts[:-1] > 0).view(B, T)
