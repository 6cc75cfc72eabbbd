"""What the given segments of a batch must be: a cover of each sequence, by labels that exist."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np
import numpy.typing as npt

from trellis.arrays import FloatArray, IntArray, any_array, plain_array
from trellis.errors import ChainError, NoPathError, ShapeError, TagRangeError, shown
from trellis.ragged import offsets_of

Paths = Sequence[npt.ArrayLike]
"""The segments of each sequence, ``(S, 3)``: where each begins, where it ends (one behind), and its label."""


def raise_forbidden(scores: FloatArray) -> None:
    """Raise the error for given segments whose score is minus infinity."""
    forbidden = np.flatnonzero(np.isneginf(scores))
    if len(forbidden):
        problem = f"the segments of sequence {forbidden[0]} are forbidden: their likelihood is zero"
        raise about(int(forbidden[0]), NoPathError(problem))


def check_paths(paths: Paths, lengths: IntArray, longest: int, num_labels: int) -> tuple[IntArray, IntArray]:
    """How many segments each sequence has, and all of them ``(S, 3)``, each sequence covered from end to end."""
    if not isinstance(paths, Sized) or len(paths) != len(lengths):
        found = len(paths) if isinstance(paths, Sized) else shown(paths)
        raise ShapeError(f"paths must be those of {len(lengths)} sequences, got {found}")
    arrays = [_triples(b, own) for b, own in enumerate(paths)]
    counts = np.array([len(own) for own in arrays], dtype=np.int64)
    flat = np.ascontiguousarray(np.concatenate([np.empty((0, 3), dtype=np.int64), *arrays]))
    owner = np.repeat(np.arange(len(arrays)), counts)
    _check_cover(counts, owner, flat, lengths, longest)
    bad = np.flatnonzero((flat[:, 2] < 0) | (flat[:, 2] >= num_labels))
    if len(bad):
        b = int(owner[bad[0]])
        raise TagRangeError(
            f"segment {bad[0] - offsets_of(counts)[b]} of sequence {b} has the label {flat[bad[0], 2]}: "
            f"must be in 0..{num_labels - 1}"
        )
    return counts, flat


def places_of(counts: IntArray, flat: IntArray, lengths: IntArray) -> dict[str, tuple[tuple[IntArray, ...], IntArray]]:
    """The scores that checked segments use, by the name of their array: where they are, and of which sequence."""
    owner = np.repeat(np.arange(len(counts)), counts)
    begin, end, label = flat.T
    follows = np.flatnonzero(owner[1:] == owner[:-1]) + 1
    bounds = offsets_of(counts)
    first, last = bounds[:-1][counts > 0], bounds[1:][counts > 0] - 1
    return {
        "segments": ((offsets_of(lengths)[owner] + end - 1, end - begin - 1, label), owner),
        "transitions": ((label[follows - 1], label[follows]), owner[follows]),
        "start": ((label[first],), owner[first]),
        "end": ((label[last],), owner[last]),
    }


def _triples(b: int, path: npt.ArrayLike) -> IntArray:
    array = any_array(path)
    array = array.reshape(0, 3) if array.size == 0 else array
    if array.ndim != 2 or array.shape[1] != 3 or (array.size and array.dtype.kind not in "iu"):
        raise ShapeError(
            f"the segments of sequence {b} must be integers (S, 3) = (begin, end, label), "
            f"got {array.dtype} {array.shape}"
        )
    own: IntArray = plain_array(array, np.int64)
    return own


def _check_cover(counts: IntArray, owner: IntArray, flat: IntArray, lengths: IntArray, longest: int) -> None:
    """Each segment begins where the one before it ends, and the last one ends with its sequence."""
    begin, end, _ = flat.T
    first = np.concatenate([[True], owner[1:] != owner[:-1]])[: len(flat)]
    expected = np.where(first, 0, np.concatenate([[0], end[:-1]])[: len(flat)])
    wrong = (begin != expected) | (end <= begin) | (end - begin > longest) | (end > lengths[owner])
    reached = np.zeros(len(counts), dtype=np.int64)
    reached[owner] = end  # the last one written is that of the last segment
    short = np.flatnonzero(reached != lengths)
    if not wrong.any() and not len(short):
        return
    b = int(owner[np.argmax(wrong)]) if wrong.any() else int(short[0])
    place = "they end too early"
    if wrong.any():
        n = int(np.argmax(wrong))
        place = f"segment {n - offsets_of(counts)[b]} is {begin[n]}..{end[n]}"
    raise ShapeError(
        f"the segments of sequence {b} must cover its {lengths[b]} tokens from 0 on without gaps, each of 1 to "
        f"{longest} tokens: {place}"
    )


def about(sequence: int, error: ChainError) -> ChainError:
    """The error, which knows its sequence."""
    error.sequence = sequence
    return error
