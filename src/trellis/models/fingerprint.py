"""Fingerprints of what a training learns from, by which a resumed one knows that it is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.arrays import AnyArray, Arrays
from trellis.models.data import Label, Labelled
from trellis.text import Sentence

if TYPE_CHECKING:
    from trellis.models.tagger import FitOptions


class DataDigest:
    """A fingerprint of tokens, further columns and labels, in their order; it says how many there are, for people."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._sentences = self._tokens = 0

    def add(self, item: Any, labels: Sequence[Any]) -> None:
        """Add the next sentence."""
        self._digest.update(json.dumps([_input(item), list(labels)], default=repr).encode())
        self._sentences += 1
        self._tokens += len(labels)

    def separate(self, text: str) -> None:
        """Mark the end of a file, so that sentences cannot move from one to the next unnoticed."""
        self._digest.update(text.encode())

    def __str__(self) -> str:
        return f"{self._sentences} sentences, {self._tokens} tokens, {_short(self._digest)}"


def of_data(data: Labelled) -> str:
    """The fingerprint of sentences with their labels, in their order."""
    digest = DataDigest()
    for item, labels in zip(data.inputs, data.labels, strict=True):
        digest.add(item, [_label(label) for label in labels] if data.partial else labels)
    return str(digest)


@dataclass(frozen=True, slots=True)
class Sentences:
    """A fingerprint of sentences in any order: those of several parts add up."""

    total: int = 0
    sentences: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, data: Labelled, *, hashed: bool = True) -> Sentences:
        """The fingerprint of these sentences; if they are not `hashed`, only their number."""
        total = 0
        for item, labels in zip(data.inputs, data.labels, strict=True) if hashed else ():
            text = json.dumps([_input(item), list(map(_label, labels))], default=repr)
            total += int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return cls(total, len(data.inputs), int(data.lengths.sum()))

    def __add__(self, other: Sentences) -> Sentences:
        return Sentences(self.total + other.total, self.sentences + other.sentences, self.tokens + other.tokens)

    def __str__(self) -> str:
        return f"{self.sentences} sentences, {self.tokens} tokens, {self.total % 2**64:016x}"


def of_training(
    data: Labelled, dev: Labelled | None, options: FitOptions, start: Arrays | None, *, ordered: bool
) -> dict[str, str | None]:
    """Fingerprints of everything that a training depends on besides settings, by what messages call it.

    `start` are the weights of a model that learns on. If the order of sentences does not matter, they may be those of
    several processes.
    """
    weights, lexicon = options.sentence_weights, options.lexicon
    if options.stream is not None:
        sentences = options.stream.fingerprint
    else:
        parts = [] if ordered else options.group.gather(Sentences.of(data))
        sentences = of_data(data) if ordered else str(sum(parts, Sentences()))
    return {
        "training data": sentences,
        "dev data": None if dev is None else of_data(dev),
        "sentence weights": None if weights is None else _short(hashlib.sha256(weights.tobytes())),
        "lexicon": None if lexicon is None else of_arrays(lexicon.to_stored()[1]),
        "weights of the model to start from": None if start is None else of_arrays(start),
    }


def of_arrays(arrays: Mapping[str, AnyArray]) -> str:
    """The fingerprint of arrays with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return _short(digest)


def _input(item: Any) -> list[Any]:
    return [item.tokens, item.columns] if isinstance(item, Sentence) else list(item)


def _label(label: Label) -> str | Sequence[str] | None:
    return label if label is None or isinstance(label, str) else sorted(label)


def _short(digest: Any) -> str:
    text: str = digest.hexdigest()
    return text[:16]
