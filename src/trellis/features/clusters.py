"""Word clusters as features: each word is a path down a binary tree that splits the vectors of words in two.

    london      1010000011100        paris      1010000011100
    microsoft   1011111010010        aspirin    1111111001101

Words with like vectors have paths that begin alike: ``%cluster4[0,0]`` reads the first 4 steps of a word's path, a
coarse class, and ``%cluster12[0,0]`` the first 12, a fine one. So words that training lacks share weights with words
that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trellis.arrays import Arrays, BoolArray, Float32Array, IntArray
from trellis.lazy import cached
from trellis.store import Stored, pack_strings

UNKNOWN = "?"
"""The path of a word without a vector."""
_DEPTH, _SMALLEST = 14, 12  # steps at most; groups with fewer words are not split
_POWERS, _ROUNDS = 20, 8  # iterations towards the principal axis, and of 2-means from there


class Clusters:
    """The paths of words; a word that has none is looked up in lower case."""

    def __init__(self, codes: Mapping[str, int]) -> None:
        self.codes = codes
        """A path with a 1 before it, as a binary number: the root is 1, the children of node i are 2i and 2i + 1."""

    @classmethod
    def of(cls, rows: Mapping[str, int], array: Float32Array) -> Clusters:
        """The paths of words, given the row of each word in the array of vectors."""
        codes = _split(array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)).tolist()
        return cls({word: codes[row] for word, row in rows.items()})

    @cached
    def _paths(self) -> dict[str, str]:
        return {word: f"{code:b}"[1:] for word, code in self.codes.items()}

    def column(self, tokens: Sequence[str]) -> list[str]:
        """The path of each token."""
        find = self._paths.get
        return [find(token) or find(token.lower()) or UNKNOWN for token in tokens]

    def arrays(self) -> Arrays:
        """Words and codes as arrays, for the file of a model."""
        return {
            **pack_strings("clusters.words", tuple(self.codes)),
            "clusters.codes": np.fromiter(self.codes.values(), dtype=np.uint32, count=len(self.codes)),
        }

    @classmethod
    def from_stored(cls, stored: Stored) -> Clusters | None:
        """The inverse of `arrays`; None where a file has none."""
        if "clusters.codes" not in stored:
            return None
        words = stored.strings("clusters.words")
        codes = stored.array("clusters.codes", np.uint32, (len(words),), 1, 2**31)
        return cls(dict(zip(words, codes.tolist(), strict=True)))


def _split(points: Float32Array) -> IntArray:
    """The leaf of each point ``[N, D]`` in a tree of splits in two."""
    codes = np.ones(len(points), dtype=np.int64)
    groups = [np.arange(len(points))]
    for _ in range(_DEPTH):
        large = [group for group in groups if len(group) >= _SMALLEST]
        groups = []
        for group in large:
            right = _halves(points[group])
            codes[group] = 2 * codes[group] + right
            groups += [group[~right], group[right]]
    return codes


def _halves(points: Float32Array) -> BoolArray:
    """2-means, begun at the halves along the principal axis: which points are in the second."""
    centred = points - points.mean(axis=0)
    right: BoolArray = centred @ _principal_axis(centred) > 0
    for _ in range(_ROUNDS):
        if right.all() or not right.any():
            break
        one, two = centred[~right].mean(axis=0), centred[right].mean(axis=0)
        previous, right = right, centred @ (two - one) > (one + two) @ (two - one) / 2
        if np.array_equal(previous, right):
            break
    return right


def _principal_axis(centred: Float32Array) -> Float32Array:
    """The direction in which the points differ most, by the power method from a fixed start."""
    covariance = centred.T @ centred
    axis: Float32Array = np.ones(centred.shape[1], dtype=np.float32)
    for _ in range(_POWERS):
        axis = (covariance @ axis).astype(np.float32)
        axis = (axis / max(float(np.linalg.norm(axis)), 1e-12)).astype(np.float32)
    return axis
