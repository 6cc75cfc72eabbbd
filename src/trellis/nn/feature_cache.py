"""Word features of a frozen encoder, computed once and kept on disk.

    features = FeatureCache(folder).features(encoder, sentences)
    words, mask = encoder(features.batch(indices))

The name of a file is a hash of everything that its content depends on (weights, configuration, tokenizer, pooling,
tokens), so that nothing stale is ever read. What is learned after the encoder (mix of layers, the vector of words
without subwords) is not in the file and stays trainable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trellis import store
from trellis.arrays import Float32Array, IntArray
from trellis.errors import ModelError, StoreError
from trellis.nn.subwords import Subwords
from trellis.nn.transformer import TransformerEncoder
from trellis.nn.weights import hash_of
from trellis.ragged import offsets_of

_KIND = "word features"


@dataclass(frozen=True, slots=True)
class WordFeatures:
    """The features that a frozen encoder gives sentences, one row per word."""

    pooled: Float32Array  # (N, layers, H)
    present: npt.NDArray[np.uint8]  # (N,) 1 for words that have subwords
    tokens: IntArray  # (B,) words of each sentence

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, sentences: npt.ArrayLike | None = None) -> dict[str, Tensor]:
        """Tensors for the encoder's ``forward``, of all sentences or of those with the given indices."""
        chosen = np.arange(len(self)) if sentences is None else np.asarray(sentences, dtype=np.int64).reshape(-1)
        tokens = self.tokens[chosen]
        mask = np.arange(int(tokens.max(initial=0))) < tokens[:, None]
        places = (offsets_of(self.tokens)[chosen][:, None] + np.arange(mask.shape[1]))[mask]
        pooled = np.zeros((*mask.shape, *self.pooled.shape[1:]), dtype=np.float32)
        present = np.zeros(mask.shape, dtype=bool)
        pooled[mask], present[mask] = self.pooled[places], self.present[places]
        arrays = {"pooled": pooled, "present": present, "mask": mask}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


class FeatureCache:
    """A folder of word features."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def features(self, encoder: TransformerEncoder, sentences: Sequence[Sequence[str]]) -> WordFeatures:
        """The features of these sentences: from the folder if they are there, otherwise computed and kept."""
        _check_frozen(encoder)  # also if an equal frozen encoder has left them in the folder
        path = self.path(encoder, sentences)
        try:
            return _stored_features(store.load(path, _KIND), encoder, sentences)
        except StoreError:  # absent or damaged
            features = compute_features(encoder, encoder.encode(sentences))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be made: {error.strerror}") from None
        arrays: dict[str, Any] = {name: getattr(features, name) for name in WordFeatures.__slots__}
        store.save(path, _KIND, {}, arrays)
        return features

    def path(self, encoder: TransformerEncoder, sentences: Sequence[Sequence[str]]) -> Path:
        """Where the features of these sentences are kept."""
        words = (text for words in sentences for text in (str(len(words)), *words))
        return self.folder / f"{hash_of((encoder.fingerprint(), *words), {})}.features"


def _stored_features(stored: store.Stored, encoder: TransformerEncoder, sentences: Sequence[Any]) -> WordFeatures:
    """The features of a file, which must be of these sentences and of the form that this encoder gives."""
    tokens = stored.array("tokens", np.int64, (len(sentences),))
    if tokens.tolist() != list(map(len, sentences)):
        raise stored.refused("tokens", "must be the lengths of the sentences")
    N, layers = int(tokens.sum()), encoder.pooling.layers or 1
    pooled = stored.array("pooled", np.float32, (N, layers, encoder.output_size), -np.inf, np.inf)
    return WordFeatures(pooled, stored.array("present", np.uint8, (N,), 0, 1), tokens)


def compute_features(encoder: TransformerEncoder, subwords: Subwords) -> WordFeatures:
    """Run a frozen encoder over sentences, those of similar length together."""
    _check_frozen(encoder)
    starts = offsets_of(subwords.tokens)
    layers = encoder.pooling.layers or 1
    pooled = np.zeros((int(starts[-1]), layers, encoder.output_size), dtype=np.float32)
    present = np.zeros(len(pooled), dtype=np.uint8)
    device = encoder.pooling.absent.device
    with torch.no_grad():
        for chosen in subwords.by_length(device.type):
            batch = {name: tensor.to(device) for name, tensor in encoder.batch(subwords, chosen).items()}
            values, has_subwords = encoder.pooled(batch)
            mask = batch["mask"]
            places = (torch.from_numpy(starts[chosen])[:, None] + torch.arange(mask.shape[1]))[mask.cpu()].numpy()
            pooled[places] = torch.stack([layer[mask] for layer in values], dim=1).float().cpu().numpy()
            present[places] = has_subwords[mask].cpu().numpy()
    return WordFeatures(pooled, present, subwords.tokens)


def _check_frozen(encoder: TransformerEncoder) -> None:
    if not encoder.frozen:
        raise ModelError(f"only the features of an encoder with freeze='all' can be kept, got {encoder.freeze!r}")
