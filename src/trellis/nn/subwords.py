"""Words to subwords and back: tokenization, overlapping windows over long sentences, and pooling of features.

`SubwordTokenizer` holds a fast tokenizer of the ``tokenizers`` library and little else; it is stored as one JSON text.
Words stay as the user split them: each subword knows the index of its word, no matter what the word contains.

A sentence of n subwords that fits into a window of W is one window. A longer one takes windows of exactly W, ``W -
overlap`` apart, the last one moved back to end with the sentence. A subword that lies in several windows is taken from
the one where it has most context: the greatest ``min(p - start, start + W - 1 - p)``, which is the window whose middle
is nearest. So window k owns one range of places, from where window k - 1 stops to half-way between its own middle and
that of window k + 1, and every subword is owned exactly once.

An encoder gives ``features[R, S, H]``, one vector per subword; `pool` and `WordPooling` make one vector per word of
them. ``word_ids[R, S]`` says which word each subword belongs to, -1 for special tokens, padding and anything else to be
dropped, so padding may be on either side. The subwords are sorted by word and reduced segment by segment in one
operation: no loop over sentences or words.

    >>> features = torch.tensor([[[9.0], [1.0], [2.0], [4.0]]])
    >>> word_ids = torch.tensor([[-1, 0, 2, 2]])
    >>> pool(features, word_ids, 3, "mean").tolist()
    [[[1.0], [0.0], [3.0]]]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from trellis.arrays import IntArray
from trellis.errors import ConfigError, DataError, ModelError, ShapeError, StoreError, TrellisError, needed
from trellis.ragged import offsets_of, ranges
from trellis.untrusted import Fields, parse_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Subwords of a batch, padding included. A core is fastest while what a layer works on stays in its cache.
_ON_CPU, _ELSEWHERE = 768, 16384
_LARGEST = 2**31 - 1  # id of a subword, or length of an input


@dataclass(frozen=True, slots=True)
class Subwords:
    """Sentences as subwords, one after another, without special tokens."""

    ids: IntArray  # (M,) id of each subword
    words: IntArray  # (M,) its word, counted within the sentence
    lengths: IntArray  # (B,) subwords of each sentence
    tokens: IntArray  # (B,) words of each sentence

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def sizes(self) -> IntArray:
        """``[B]``: the room that each sentence takes; features have a row for each word, with subwords or without."""
        sizes: IntArray = np.maximum(self.lengths, self.tokens)
        return sizes

    def by_length(self, device: str = "cpu") -> list[IntArray]:
        """Indices of sentences, longest first, in batches of a padded size that suits this type of device."""
        sizes = self.sizes
        budget = _ON_CPU if device == "cpu" else _ELSEWHERE
        order = np.argsort(-sizes, kind="stable")
        batches = []
        while len(order):
            count = max(1, budget // max(1, int(sizes[order[0]])))
            batches.append(order[:count])
            order = order[count:]
        return batches

    def select(self, sentences: npt.ArrayLike) -> Subwords:
        """The sentences with these indices, in this order."""
        chosen = np.asarray(sentences, dtype=np.int64).reshape(-1)
        lengths = self.lengths[chosen]
        places = ranges(offsets_of(self.lengths)[chosen], lengths)
        return Subwords(self.ids[places], self.words[places], lengths, self.tokens[chosen])


class SubwordTokenizer:
    """A fast tokenizer for words that are already split.

    Args:
        backend: the tokenizer; truncation and padding that it may have are switched off in it.
        pad: the id to pad with.
        limit: the longest input that the tokenizer is meant for, special tokens included; None if unknown.

    Attributes:
        prefix, suffix: ids of the special tokens around a sentence.
        prefix_types, suffix_types: their type ids.
        space: what is put before each word that does not begin with a space.

    """

    def __init__(self, backend: Tokenizer, *, pad: int = 0, limit: int | None = None) -> None:
        self.backend = backend
        self.pad = pad
        self.limit = limit
        backend.no_truncation()  # many published tokenizers silently cut at 128
        backend.no_padding()
        # A sentence of one word shows which special tokens the tokenizer puts around it.
        encoding = backend.encode(["a"], is_pretokenized=True)
        words = [i for i, word in enumerate(encoding.word_ids) if word is not None]
        first, stop = (words[0], words[-1] + 1) if words else (len(encoding), len(encoding))
        self.prefix, self.suffix = encoding.ids[:first], encoding.ids[stop:]
        self.prefix_types, self.suffix_types = encoding.type_ids[:first], encoding.type_ids[stop:]
        # Byte-level tokenizers tell a word after a space from the inside of one. Others put the mark of a space before
        # each word themselves, and lose it if there is a space already.
        alone, two = (backend.encode(text, add_special_tokens=False).ids for text in ("a", "a a"))
        plain, spaced = (
            backend.encode([word], is_pretokenized=True, add_special_tokens=False).ids for word in ("a", " a")
        )
        self.space = " " if plain != two[len(alone) :] == spaced else ""

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Subwords:
        """The subwords of each sentence, in one call of the library."""
        ready = [self._prepare(number, words) for number, words in enumerate(sentences)]
        with _failing_as(ModelError, "the tokenizer fails on these sentences"):
            encodings = self.backend.encode_batch(ready, is_pretokenized=True, add_special_tokens=False)
        ids: list[int] = []
        words: list[int | None] = []
        for encoding in encodings:
            ids += encoding.ids
            words += encoding.word_ids
        if None in words:
            raise ModelError("the tokenizer gives subwords that belong to no word")
        lengths = np.fromiter((len(encoding) for encoding in encodings), np.int64, len(encodings))
        tokens = np.fromiter(map(len, sentences), np.int64, len(encodings))
        return Subwords(np.array(ids, np.int64), np.array(words, np.int64), lengths, tokens)

    def _prepare(self, number: int, words: Sequence[str]) -> list[str]:
        """The words as the library expects them: with a space if it needs one, and without half surrogate pairs."""
        ready = list(words)
        try:
            "".join(ready).encode()
        except UnicodeEncodeError:
            ready = [word.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for word in ready]
        except TypeError:
            token, word = next((token, word) for token, word in enumerate(ready) if not isinstance(word, str))
            raise DataError(
                f"sentence {number}, token {token}: expected a string, got {type(word).__name__} {word!r}"
            ) from None
        if self.space:
            return [word if not word or word[0].isspace() else self.space + word for word in ready]
        return ready

    def to_json(self) -> str:
        """Everything about the tokenizer as one text."""
        return json.dumps({"pad": self.pad, "limit": self.limit, "backend": parse_json(self.backend.to_str())})

    @classmethod
    def from_json(cls, text: str) -> SubwordTokenizer:
        """Rebuild what `to_json` described."""
        Tokenizer = needed("tokenizers", "neural", "a pretrained encoder").Tokenizer

        with _failing_as(StoreError, "the stored tokenizer cannot be read"):
            fields = Fields(parse_json(text), "the stored tokenizer")
            pad, endless = fields.integer("pad", 0, _LARGEST), fields.value("limit", int, type(None)) is None
            limit = None if endless else fields.integer("limit", 0, _LARGEST)
            return cls(Tokenizer.from_str(json.dumps(fields.value("backend", dict))), pad=pad, limit=limit)


@contextmanager
def _failing_as(kind: type[TrellisError], problem: str) -> Iterator[None]:
    """Turn errors of the library into ours: it raises bare exceptions, and panics that are not exceptions."""
    try:
        yield
    except TrellisError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise kind(f"{problem}: {error}") from error


@dataclass(frozen=True, slots=True)
class Windows:
    """R windows over B sentences, each array ``(R,)``; places count the subwords of the sentence."""

    sentences: IntArray  # whose subwords the window holds
    starts: IntArray  # its first subword
    lengths: IntArray  # how many subwords it holds
    first: IntArray  # the first place it owns
    stop: IntArray  # one past the last place it owns


def check_window(window: int, overlap: int) -> None:
    """Checks that a window has at least one subword, and that its overlap lets the next one advance."""
    if window < 1:
        raise ConfigError(f"window must hold at least one subword, got {window}")
    if not 0 <= overlap < window:
        raise ConfigError(f"overlap must be in 0..{window - 1} for a window of {window} subwords, got {overlap}")


def windows_of(lengths: IntArray, window: int, overlap: int) -> Windows:
    """Windows over sentences with these numbers of subwords; a sentence without subwords has none."""
    check_window(window, overlap)
    stride = window - overlap
    beyond = np.maximum(lengths - window, 0)
    counts = np.where(lengths > 0, -(-beyond // stride) + 1, 0)
    sentences = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(sentences)) - offsets_of(counts)[sentences]  # of the window within its sentence
    starts = np.minimum(number * stride, beyond[sentences])
    first, stop = np.zeros_like(starts), lengths[sentences]
    # Window k owns p <= (middle[k] + middle[k + 1]) / 2, with middle[k] = starts[k] + (W - 1) / 2.
    followed = np.flatnonzero(number[1:] > 0)
    stop[followed] = (starts[followed] + starts[followed + 1] + window - 1) // 2 + 1
    first[followed + 1] = stop[followed]
    return Windows(sentences, starts, np.minimum(lengths[sentences], window), first, stop)


def pad_windows(windows: Windows, subwords: Subwords, tokenizer: SubwordTokenizer) -> dict[str, IntArray]:
    """The windows as padded arrays ``(R, S)`` with special tokens around them.

    ``ids`` and ``attention`` are the encoder's input, ``types`` too if the tokenizer has others than 0;
    ``word_ids`` is the word of each subword that the window owns and -1 elsewhere, ``rows (R,)`` its sentence.
    """
    prefix, suffix = tokenizer.prefix, tokenizer.suffix
    ends = len(prefix) + windows.lengths[:, None]
    columns = np.arange(int(windows.lengths.max(initial=0)) + len(prefix) + len(suffix))
    inside = (columns >= len(prefix)) & (columns < ends)
    places = windows.starts[:, None] + columns - len(prefix)  # within the sentence
    owned = inside & (places >= windows.first[:, None]) & (places < windows.stop[:, None])
    sources = offsets_of(subwords.lengths)[windows.sentences][:, None] + places
    ids = np.full(inside.shape, tokenizer.pad, dtype=np.int64)
    ids[inside] = subwords.ids[sources[inside]]
    _surround(ids, prefix, suffix, ends)
    word_ids = np.full(inside.shape, -1, dtype=np.int64)
    word_ids[owned] = subwords.words[sources[owned]]
    attention = (columns < ends + len(suffix)).astype(np.int64)
    arrays = {"ids": ids, "attention": attention, "word_ids": word_ids, "rows": windows.sentences}
    if any(tokenizer.prefix_types) or any(tokenizer.suffix_types):
        arrays["types"] = np.zeros_like(ids)
        _surround(arrays["types"], tokenizer.prefix_types, tokenizer.suffix_types, ends)
    return arrays


def _surround(padded: IntArray, prefix: Sequence[int], suffix: Sequence[int], ends: IntArray) -> None:
    """Write the values of the special tokens before and after each window."""
    padded[:, : len(prefix)] = prefix
    np.put_along_axis(padded, ends + np.arange(len(suffix)), np.array(suffix, dtype=np.int64)[None, :], axis=1)


How = Literal["mean", "first", "last", "max"]
"""How the subwords of a word become one vector."""


class Segments(NamedTuple):
    """Subwords in the order of their words; one segment per word, and a last one for what is dropped."""

    order: Tensor  # (R * S,) places of the subwords
    counts: Tensor  # (B * T + 1,) subwords of each word

    @property
    def starts(self) -> Tensor:
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
