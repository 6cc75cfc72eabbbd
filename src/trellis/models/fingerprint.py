"""Fingerprints of what a training learns from, by which a resumed one knows that it is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trellis.arrays import AnyArray, FloatArray
from trellis.models.data import Label, Labelled
from trellis.text import Sentence
from trellis.training.processes import Team


def of_data(data: Labelled | None) -> str | None:
    """Of tokens, further columns and labels, in their order; with how many there are, for people."""
    if data is None:
        return None
    digest = hashlib.sha256()
    for item, labels in zip(data.inputs, data.labels, strict=True):
        plain = [_label(label) for label in labels] if data.partial else list(labels)
        digest.update(json.dumps([_input(item), plain], default=repr).encode())
    return f"{len(data.inputs)} sentences, {int(data.lengths.sum())} tokens, {_short(digest)}"


def of_sentences(data: Labelled, team: Team) -> str:
    """The same for sentences of all processes, in any order."""
    total = 0
    for item, labels in zip(data.inputs, data.labels, strict=True):
        digest = hashlib.sha256(json.dumps([_input(item), list(map(_label, labels))], default=repr).encode()).digest()
        total += int.from_bytes(digest[:8], "big")
    own = total, len(data.inputs), int(data.lengths.sum())
    total, sentences, tokens = (sum(values) for values in zip(*team.gather(own), strict=True))
    return f"{sentences} sentences, {tokens} tokens, {total % 2**64:016x}"


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
