"""Fingerprints of what a training learns from, by which a resumed one knows that it is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.arrays import AnyArray, FloatArray
from trellis.models.data import Label, Labelled
from trellis.text import Sentence
from trellis.training.process_group import ProcessGroup


def of_data(data: Labelled | None) -> str | None:
    """Of tokens, further columns and labels, in their order; with how many there are, for people."""
    if data is None:
        return None
    digest = begun()
    for item, labels in zip(data.inputs, data.labels, strict=True):
        add(digest, item, [_label(label) for label in labels] if data.partial else labels)
    return said(len(data.inputs), int(data.lengths.sum()), digest)


def begun() -> Any:
    """The fingerprint of no sentence, for `add`."""
    return hashlib.sha256()


def add(digest: Any, item: Any, labels: Sequence[Any]) -> None:
    """Add a sentence to the fingerprint of its data."""
    digest.update(json.dumps([_input(item), list(labels)], default=repr).encode())


def said(sentences: int, tokens: int, digest: Any) -> str:
    """A fingerprint with how many there are, for people."""
    return f"{sentences} sentences, {tokens} tokens, {_short(digest)}"


@dataclass(frozen=True, slots=True)
class Sentences:
    """A fingerprint of sentences in any order: those of several parts add up."""

    total: int = 0
    sentences: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, data: Labelled, *, hashed: bool = True) -> Sentences:
        """Of these sentences; if they are not `hashed`, only their number."""
        total = 0
        if not hashed:
            return cls(total, len(data.inputs), int(data.lengths.sum()))
        for item, labels in zip(data.inputs, data.labels, strict=True):
            text = json.dumps([_input(item), list(map(_label, labels))], default=repr)
            total += int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return cls(total, len(data.inputs), int(data.lengths.sum()))

    def __add__(self, other: Sentences) -> Sentences:
        return Sentences(self.total + other.total, self.sentences + other.sentences, self.tokens + other.tokens)

    def __str__(self) -> str:
        return f"{self.sentences} sentences, {self.tokens} tokens, {self.total % 2**64:016x}"


def of_sentences(data: Labelled, team: ProcessGroup) -> str:
    """Of the sentences of all processes, in any order."""
    return str(sum(team.gather(Sentences.of(data)), Sentences()))


def of_weights(weights: FloatArray | None) -> str | None:
    """Of the weights of sentences."""
    return None if weights is None else _short(hashlib.sha256(weights.tobytes()))


def of_arrays(arrays: Mapping[str, AnyArray]) -> str:
    """Of arrays with their names, types and shapes."""
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
