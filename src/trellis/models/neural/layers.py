"""Layers with fixed weights on the native kernels, arrays in and arrays out: what tagging needs, without torch.

Each is made of the weights of the torch module of the same kind in `trellis.nn`, and gives the same numbers up to
rounding. A row of the result depends on its own row or sequence only: it has the same bits in any batch, on any number
of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trellis import _native
from trellis.arrays import AnyArray, Float32Array, IntArray, plain_array
from trellis.models.neural.inputs import Spelt
from trellis.ragged import offsets_of
from trellis.symbols import PADDING

Weights = Mapping[str, Float32Array]
"""By their names in the network."""
_LARGEST_TABLE = 1 << 22  # numbers of a table that is worth keeping: 16 MB


def _single(values: AnyArray) -> Float32Array:
    """Numbers as kernels expect them."""
    return plain_array(values, np.float32)


class Dense:
    """``x W^T + b`` for many rows at once."""

    def __init__(self, weight: Float32Array, bias: Float32Array | None = None) -> None:
        self._size = len(weight)
        self._native = _native.StoredDense(
            _single(weight), np.zeros(self._size, np.float32) if bias is None else _single(bias)
        )

    def __call__(self, rows: Float32Array, threads: int) -> Float32Array:
        """``(N, K)`` to ``(N, M)``."""
        out = np.empty((len(rows), self._size), np.float32)
        self._native.apply(_single(rows), threads, out)
        return out


class BiLSTM:
    """A bidirectional layer, of the weights that begin with `name`."""

    def __init__(self, weights: Weights, name: str) -> None:
        ways = ("", "_reverse")
        inward = np.concatenate([weights[f"{name}.weight_ih_l0{way}"] for way in ways])
        recurrent = np.stack([weights[f"{name}.weight_hh_l0{way}"] for way in ways])
        bias = np.concatenate([weights[f"{name}.bias_ih_l0{way}"] + weights[f"{name}.bias_hh_l0{way}"] for way in ways])
        self._size = 2 * recurrent.shape[2]
        self._native = _native.StoredLstm(_single(inward), _single(bias), _single(recurrent))

    def __call__(
        self, features: Float32Array, lengths: IntArray, threads: int, index: IntArray | None = None
    ) -> Float32Array:
        """From ``(N, D)``, or from rows that tokens share and ``index[N]``, to ``(N, 2 H)``."""
        states = np.empty((len(features) if index is None else len(index), self._size), np.float32)
        self._native.run(_single(features), index, lengths, threads, states)
        return states


class CharacterCNN:
    """Convolutions over the characters of a word, then the largest value of each filter.

    What each character adds to each filter at each place of its window is looked up in a table, which is made once, or
    for the characters of a batch if all of them would take too much memory.
    """

    def __init__(self, weights: Weights, name: str, widths: Sequence[int]) -> None:
        self._vectors = _single(weights[f"{name}.embedding.weight"])
        self._filters = [weights[f"{name}.filters.{i}.weight"] for i in range(len(widths))]
        self._biases = [weights[f"{name}.filters.{i}.bias"] for i in range(len(widths))]
        self._widths = tuple(widths)
        size = len(self._vectors) * sum(w * len(own) for w, own in zip(self._widths, self._filters, strict=True))
        self._tables = self._tables_of(self._vectors) if size <= _LARGEST_TABLE else None

    def _tables_of(self, vectors: Float32Array) -> list[Float32Array]:
        """``(width, characters, F)`` for each width."""
        tables = []
        for width, weight in zip(self._widths, self._filters, strict=True):
            by_place = weight.reshape(len(weight), width, vectors.shape[1]).transpose(1, 0, 2)
            tables.append(np.stack([Dense(own)(vectors, 1) for own in by_place]))
        return tables

    def __call__(self, words: Spelt, threads: int) -> Float32Array:
        """One row per word, ``(W, output_size)``."""
        tables, characters = self._tables, words.characters
        if tables is None:
            own, places = np.unique(characters, return_inverse=True)
            tables, characters = self._tables_of(self._vectors[own]), places.reshape(-1)
        values = []
        for table, bias in zip(tables, self._biases, strict=True):
            largest = np.empty((len(words.offsets) - 1, table.shape[2]), np.float32)
            known = _native.spell(characters, words.offsets, table, threads, largest)
            assert known
            values.append(np.tanh(largest + bias))
        return values[0] if len(values) == 1 else np.concatenate(values, axis=1)


class CharacterLSTM:
    """The last states of two LSTMs that read the characters of a word, one forward and one backward."""

    def __init__(self, weights: Weights, name: str) -> None:
        self._vectors = weights[f"{name}.embedding.weight"]
        self._lstm = BiLSTM(weights, f"{name}.lstm")

    def __call__(self, words: Spelt, threads: int) -> Float32Array:
        """``(W, output_size)``; a word without characters is read as one place of padding."""
        lengths, characters = np.diff(words.offsets), words.characters
        empty = words.offsets[:-1][lengths == 0]
        if len(empty):
            characters, lengths = np.insert(characters, empty, PADDING), np.maximum(lengths, 1)
        states = self._lstm(self._vectors[characters], lengths, threads)
        offsets, half = offsets_of(lengths), states.shape[1] // 2
        return np.concatenate([states[offsets[1:] - 1, :half], states[offsets[:-1], half:]], axis=1)
