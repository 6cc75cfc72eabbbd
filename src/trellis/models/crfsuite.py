"""CRFsuite's model files: what is in one becomes a CRF over given features, and back.

A file has weights of (attribute, label) and (label, next label), and no constraints. Native code reads and checks it; a
file that is damaged is a `StoreError` that says where and how.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np

from trellis import _native
from trellis.arrays import IntArray
from trellis.errors import ModelError, StoreError
from trellis.files import replacing
from trellis.store import Stored

# What a file says nothing of.
_SETTINGS = {"features": "given", "constraints": False, "scheme": "plain", "learn_scheme": "plain", "fold_width": False}
_MANIFEST = {
    "config": _SETTINGS,
    "scheme": "PLAIN",
    "style": "prefix",
    "learn_scheme": "PLAIN",
    "tokenizer": {"name": "whitespace"},
    "templates": None,
}


def is_file_of_crfsuite(path: Path) -> bool:
    """Whether the file begins like one of CRFsuite."""
    if not path.is_file():
        return False
    with suppress(OSError), open(path, "rb") as file:
        return file.read(4) == b"lCRF"
    return False


def read(data: bytes | mmap, where: str) -> Stored:
    """The content of a file, copied, as a stored model of the kind "crf"; `where` is its name in messages."""
    try:
        found = _native.read_crfsuite(np.frombuffer(data, dtype=np.uint8))
        texts, lengths = found[0].tobytes(), found[1].tolist()
        ends = np.cumsum(lengths, dtype=np.int64).tolist()
        labels = [texts[end - size : end].decode() for end, size in zip(ends, lengths, strict=True)]
    except UnicodeDecodeError as error:
        raise StoreError(f"{where} is no CRFsuite model: a label is not UTF-8: {error.object!r}") from None
    except ValueError as error:
        raise StoreError(f"{where} is no CRFsuite model: {error}") from None
    attributes, attribute_lengths, pair_counts, pair_labels, pair_weights, places, weights = found[2:]
    L = len(labels)
    transitions, weighted = np.zeros((L, L)), np.zeros((L, L), dtype=np.uint8)
    transitions.reshape(-1)[places], weighted.reshape(-1)[places] = weights, 1
    arrays = {
        "attributes": attributes,
        "attributes.lengths": attribute_lengths,
        "pair_counts": pair_counts,
        "pair_labels": pair_labels,
        "pair_weights": pair_weights,
        "transitions": transitions,
        "weighted": weighted,
        "start": np.zeros(L),
        "end": np.zeros(L),
    }
    return Stored.of(where, "crf", {**_MANIFEST, "labels": labels}, arrays)


def read_file(path: str | Path) -> Stored:
    """The content of the file with this name, as in `read`; it must not shrink while it is read."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return read(mmap(file.fileno(), 0, access=ACCESS_READ) if size else b"", str(path))


def to_bytes(model: Any, labels: Sequence[str] | None = None) -> bytes:
    """The file for a fitted `trellis.CRF`, with the labels in this order; weights that are zero are left out."""
    p, states = model.parameters_.pruned(), model.states_
    for problem, is_so in (
        ("weights for the steps into tokens (templates that begin with B or *)", p.edges is not None),
        ("a memory of two labels: train with order=1", p.histories is not None),
        ("constraints: train with constraints=False", not all(np.isfinite(x).all() for x in (p.transitions, p.start))),
        ("a lexicon", model.lexicon_ is not None),
    ):
        if is_so:
            raise ModelError(f"CRFsuite's files have no place for what this model has: {problem}")
    names = list(states.names)
    labels = names if labels is None else list(labels)
    rank: IntArray = np.array([labels.index(name) for name in names], dtype=np.int64)  # the new number of each label
    encoded = [label.encode("utf-8", "surrogatepass") for label in labels]
    attributes = p.index.arrays()
    if "values.counts" in attributes:  # keys of templates, from which names are made
        texts = [name.encode("utf-8", "surrogatepass") for name in p.index.names()]
        attributes = {"attributes": _bytes(texts), "attributes.lengths": np.array(list(map(len, texts)))}
    # Labels go up within an attribute, as in the files that CRFsuite writes.
    order = np.lexsort((rank[p.labels], p.owners))
    weights = np.zeros((len(labels), len(labels)))
    weights[np.ix_(rank, rank)] = np.where(p.weighted, p.transitions, 0.0)
    places = np.flatnonzero(weights)
    try:
        return _native.write_crfsuite(
            _bytes(encoded),
            np.array(list(map(len, encoded)), dtype=np.uint32),
            attributes["attributes"],
            attributes["attributes.lengths"].astype(np.uint32),
            np.diff(p.ends, prepend=0).astype(np.uint32),
            rank[p.labels][order].astype(np.uint16),
            p.weights[order].astype(np.float64, copy=False),
            places,
            weights.reshape(-1)[places],
        )
    except ValueError as error:
        raise ModelError(f"this model does not fit into a file of CRFsuite: {error}") from None


def empty() -> bytes:
    """The file for a model without labels, which CRFsuite writes when there is nothing to learn from."""
    texts, sizes = np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.uint32)
    labels, places, weights = np.zeros(0, dtype=np.uint16), np.zeros(0, dtype=np.int64), np.zeros(0)
    return _native.write_crfsuite(texts, sizes, texts, sizes, sizes, labels, weights, places, weights)


def save(model: Any, path: str | Path) -> None:
    data = to_bytes(model)
    with replacing(path) as partial:
        partial.write_bytes(data)


def _bytes(texts: Sequence[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(texts), dtype=np.uint8)
