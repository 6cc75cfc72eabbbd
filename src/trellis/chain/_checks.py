"""Checks of what is asked of a chain, for both arrays and tensors: counts, tags, spans and what surrounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from trellis.arrays import IntArray, any_array, plain_array
from trellis.errors import ChainError, ShapeError, TagRangeError

MOST_TAGS = 2**27
"""How many tags one answer of `kbest` or `sample` may hold: a gigabyte."""


def check_count(name: str, value: int) -> int:
    """A number of things to find: an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ChainError(f"{name} must be an integer >= 1, got {_shown(value)}")
    return int(value)


def check_kbest(k: int, lengths: IntArray, L: int, *, by_label: bool = False) -> int:
    """``k``, refused if that many paths hold more than `MOST_TAGS` tags.

    With ``by_label``, refused if that many for each label of a padded batch do: this is what ``_scan`` keeps.
    """
    wanted = min(check_count("k", k), MOST_TAGS + 1)
    longest = lengths.max(initial=0)
    tokens = (np.full_like(lengths, longest) if by_label else lengths).astype(np.float64)
    existing = np.exp(np.minimum(tokens * np.log(L), 50.0))  # L ** T, or enough
    numbers = float((np.minimum(wanted, existing) * tokens).sum())
    if numbers * (L if by_label else 1) > MOST_TAGS:
        _refuse("k", k, "best paths", int(lengths.sum()))
    return wanted


def check_sample(n: int, tokens: int) -> int:
    """``n``, refused if that many samples of all tokens hold more than `MOST_TAGS` tags."""
    if check_count("n", n) * max(tokens, 1) > MOST_TAGS:
        _refuse("n", n, "samples", tokens)
    return int(n)


def check_seed(seed: int) -> int:
    """A seed, any integer, as the 64 bits that native code takes."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise ChainError(f"seed must be an integer, got {_shown(seed)}")
    return int(seed) & (2**64 - 1)


def _refuse(name: str, count: int, what: str, tokens: int) -> NoReturn:
    raise ChainError(
        f"{name} = {_shown(count)} {what} of {tokens} tokens are more than one answer may hold, "
        f"which is {MOST_TAGS} tags: ask for fewer, or for fewer sequences at a time"
    )


def _shown(value: object) -> str:
    """A number in an error; Python refuses to write out thousands of digits."""
    return (
        f"an integer of {value.bit_length()} bits" if isinstance(value, int) and abs(value) >= 2**128 else repr(value)
    )


def check_spans(spans: npt.ArrayLike, lengths: IntArray) -> IntArray:
    """Spans as int64[S, 3]; each must lie inside its sequence and hold at least one token."""
    array = any_array(spans)
    if array.size == 0:
        return np.empty((0, 3), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise ShapeError(f"spans must be integers (S, 3) = (sequence, begin, end), got {array.dtype} {array.shape}")
    array = plain_array(array, np.int64)
    sequence, begin, end = array.T
    bad = np.flatnonzero((sequence < 0) | (sequence >= len(lengths)))
    if len(bad):
        raise ShapeError(f"span {bad[0]} names sequence {sequence[bad[0]]}, but there are {len(lengths)}")
    bad = np.flatnonzero((begin < 0) | (begin >= end) | (end > lengths[sequence]))
    if len(bad):
        s = int(bad[0])
        raise ShapeError(
            f"span {s} is {begin[s]}..{end[s]} of sequence {sequence[s]}: "
            f"must be 0 <= begin < end <= its length {lengths[sequence[s]]}"
        )
    return array


def check_span_tags(tags: npt.ArrayLike | Sequence[Sequence[int]], spans: IntArray, L: int) -> IntArray:
    """The labels of all spans, one span after another."""
    if isinstance(tags, Sequence) and tags and isinstance(tags[0], Sequence | np.ndarray):
        lengths = [len(own) for own in tags]  # type: ignore[arg-type]
        if lengths != (spans[:, 2] - spans[:, 1]).tolist():
            raise ShapeError(f"tags must have one label per position of each span, got lengths {lengths}")
        flat = np.concatenate([plain_array(own, np.int64) for own in tags])
    else:
        flat = plain_array(tags, np.int64)
    wanted = int((spans[:, 2] - spans[:, 1]).sum())
    if flat.shape != (wanted,):
        raise ShapeError(f"tags must hold {wanted} labels, the sum of the spans' lengths, got {flat.shape}")
    bad = np.flatnonzero((flat < 0) | (flat >= L))
    if len(bad):
        raise TagRangeError(f"tags[{bad[0]}] is {flat[bad[0]]}: must be in 0..{L - 1} (L = {L})")
    return flat


def check_side(name: str, mask: npt.ArrayLike | None, S: int, L: int) -> npt.NDArray[np.uint8] | int:
    """``before`` or ``after`` as uint8[S, L], 0 if there is none."""
    if mask is None:
        return 0
    array = any_array(mask)
    if array.shape not in ((L,), (S, L)) or array.dtype != np.bool_:
        raise ShapeError(f"{name} must be bool (S, L) = ({S}, {L}) or (L,) = ({L},), got {array.dtype} {array.shape}")
    return np.array(np.broadcast_to(array, (S, L)), order="C").view(np.uint8)


def check_loss(tags: object, allowed: object, weights: object) -> None:
    """Checks what a negative log-likelihood is asked for: tags, which may be weighted, or allowed labels."""
    if (tags is None) == (allowed is None):
        raise ChainError(f"give either tags or allowed, got {'neither' if tags is None else 'both'}")
    if weights is not None and tags is None:
        raise ChainError("weights belong to tags: give tags, not allowed")
