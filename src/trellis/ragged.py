"""Ragged batches: sequences of unequal lengths laid one after another, and their padded form.

Flat data has one row per token, N in all; ``lengths[B]`` says where each sequence ends. There is no padding, so nothing
is computed on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from trellis.arrays import AnyArray, IntArray, any_array, plain_array
from trellis.errors import ShapeError, shown

__all__ = ["check_lengths", "in_blocks", "later_tokens", "offsets_of", "pad", "ranges", "rows_of", "split"]

T = TypeVar("T")
_FEW = 16
_MOST_TOKENS = 2**48  # more than fits into any memory, and few enough that no product of sizes wraps around


def check_lengths(lengths: npt.ArrayLike, tokens: int | None = None) -> IntArray:
    """Lengths as int64[B]; each must be >= 0, and together they must cover ``tokens`` rows if that is given.

    This is the one place that checks lengths: what it returns may be summed and used as offsets.
    """
    array = any_array(lengths)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ShapeError(f"lengths must be integers (B,), got {array.dtype} of shape {array.shape}")
    whole = plain_array(array, np.uint64 if array.dtype == np.uint64 else np.int64)
    if whole.size > _FEW and int(whole.view(np.uint64).max()) <= _MOST_TOKENS // whole.size:
        negative, total = False, int(whole.sum())  # as unsigned integers, negative numbers would be the largest
    else:  # few, for which Python is quicker than NumPy, or so large that NumPy's sum could wrap around
        values = whole.tolist()
        negative, total = min(values, default=0) < 0, sum(values)
    if negative:
        b = int(np.argmax(whole < 0))
        raise ShapeError(f"lengths must be >= 0, got {whole[b]} for sequence {b}")
    if tokens is not None and total != tokens:
        raise ShapeError(
            f"lengths must add up to the number of tokens N = {tokens}, got {total} from {array.size} sequences"
        )
    if total > _MOST_TOKENS:
        raise ShapeError(f"lengths must add up to at most {_MOST_TOKENS} tokens, got {total}")
    return whole.view(np.int64)


def offsets_of(lengths: IntArray) -> IntArray:
    """``offsets[B + 1]``: sequence b owns the rows ``offsets[b]`` up to ``offsets[b + 1]``."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def rows_of(lengths: IntArray, index: int) -> tuple[int, int, int]:
    """Sequence number `index` of these lengths, counted from the end if it is negative, and its rows: first and stop.

    >>> rows_of(np.array([2, 0, 3]), -1)
    (2, 2, 5)
    """
    if not isinstance(index, int | np.integer):
        raise ShapeError(f"a sequence is asked for by its number, got {shown(index)}")
    if not -len(lengths) <= index < len(lengths):
        raise IndexError(f"there is no sequence {index}: the batch has {len(lengths)}")
    b = index % len(lengths)
    first = int(lengths[:b].sum())
    return b, first, first + int(lengths[b])


def ranges(starts: IntArray | int, lengths: IntArray) -> IntArray:
    """``starts[i], starts[i] + 1, ...``, as many as ``lengths[i]``, one after another.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    rows: IntArray = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    rows += np.arange(len(rows))
    return rows


def later_tokens(lengths: IntArray) -> IntArray:
    """The tokens that have one before them in their sentence.

    >>> later_tokens(np.array([2, 0, 1, 3])).tolist()
    [1, 4, 5]
    """
    first = np.zeros(int(lengths.sum()), dtype=np.bool_)
    first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    return np.flatnonzero(~first)


def split(flat: AnyArray, lengths: npt.ArrayLike) -> list[AnyArray]:
    """The rows of each sequence, as views.

    >>> [part.tolist() for part in split(np.array([4, 5, 6]), [2, 0, 1])]
    [[4, 5], [], [6]]
    """
    offsets = offsets_of(check_lengths(lengths, len(flat)))
    return [flat[a:b] for a, b in pairwise(offsets)]


def pad(flat: AnyArray, lengths: npt.ArrayLike, *, fill: Any = 0) -> AnyArray:
    """Flat rows ``(N, ...)`` as a padded batch ``(B, T, ...)`` with T the greatest length.

    >>> pad(np.array([4, 5, 6]), [2, 0, 1], fill=-1).tolist()
    [[4, 5], [-1, -1], [6, -1]]
    """
    checked = check_lengths(lengths, len(flat))
    longest = int(checked.max(initial=0))
    padded = np.full((len(checked), longest, *flat.shape[1:]), fill, dtype=flat.dtype)
    padded[np.arange(longest) < checked[:, None]] = flat
    return padded


def in_blocks(items: Iterable[T], size: Callable[[T], int], most: int, count: int | None = None) -> Iterator[list[T]]:
    """The items in lists that end when their sizes add up to `most`, or when they have `count` items."""
    block: list[T] = []
    total = 0
    for item in items:
        block.append(item)
        total += size(item)
        if total >= most or len(block) == count:
            yield block
            block, total = [], 0
    if block:
        yield block
