"""What can be wrong with scores and with what is asked of them, as errors that say what and where.

Requests are checked here before any work. Scores are not: the kernels only report which sequence failed and how, and
the exact place is found afterwards, so that the hot path pays nothing for good messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from trellis.arrays import AnyArray, BoolArray, IntArray, any_array, plain_array
from trellis.errors import ChainError, NonFiniteError, NoPathError, ShapeError, TagRangeError, shown

NOT_FINITE, NO_PATH, TAG_RANGE, FORBIDDEN_PATH, BAD_CHAIN_SCORE, SUM_TOO_LARGE = 2, 3, 4, 5, 6, 7
MOST_TAGS = 2**27
"""How many tags one answer of `kbest` or `sample` may hold: a gigabyte."""


@dataclass(frozen=True, slots=True, eq=False)
class OneSequence:
    """The scores of the one sequence that an error is about, and its tags."""

    number: int
    emissions: AnyArray  # (T, L)
    transitions: AnyArray  # (L, L)
    start: AnyArray  # (L,)
    end: AnyArray  # (L,)
    edges: AnyArray | None = None  # (T - 1, L, L)
    tags: AnyArray | None = None  # (T,)

    def step(self, position: int) -> AnyArray:
        """The scores of transitions into a position, ``(L, L)``."""
        return self.transitions if self.edges is None else self.transitions + self.edges[position - 1]


def raise_bad_chain_score(transitions: AnyArray, start: AnyArray, end: AnyArray) -> NoReturn:
    """Raise the error for a native report about scores that all sequences share."""
    for name, array in (("transitions", transitions), ("start", start), ("end", end)):
        bad = np.argwhere(~(array < np.inf))
        if len(bad):
            index = ", ".join(str(i) for i in bad[0])
            raise NonFiniteError(f"{name}[{index}] is {array[tuple(bad[0])]}: scores must be finite or minus infinity")
    raise AssertionError("the native code reported a bad score, but there is none")


def about(sequence: int, error: ChainError) -> ChainError:
    """The error, with the number of the sequence that it is about."""
    error.sequence = sequence
    return error


def raise_problem(status: int, one: OneSequence) -> NoReturn:
    """Raise the error for a native report about a sequence."""
    if status == NOT_FINITE:
        error = _not_finite(one)
    elif status == NO_PATH:
        error = _no_path(one)
    elif status == SUM_TOO_LARGE:
        error = _too_large(one)
    else:
        assert one.tags is not None, f"native status {status} without tags"
        assert status in (TAG_RANGE, FORBIDDEN_PATH), f"unknown native status {status}"
        error = _tag_range(one, one.tags) if status == TAG_RANGE else _forbidden(one, one.tags)
    raise about(one.number, error)


def _not_finite(one: OneSequence) -> ChainError:
    bad = np.argwhere(~(one.emissions < np.inf))
    if len(bad):
        position, label = bad[0]
        what = f"emissions of sequence {one.number}, position {position}, label {label}"
        value = one.emissions[position, label]
    else:
        assert one.edges is not None
        pair, label, follower = np.argwhere(~(one.edges < np.inf))[0]
        what = f"edges of sequence {one.number}, position {pair + 1}, from label {label} to label {follower}"
        value = one.edges[pair, label, follower]
    return NonFiniteError(f"{what} are {value}: scores must be finite or minus infinity")


def _too_large(one: OneSequence) -> ChainError:
    """Each score is finite, and a sum of them is not."""
    finite = np.where(np.isfinite(one.emissions), np.abs(one.emissions), 0.0)
    position, label = np.unravel_index(np.argmax(finite), finite.shape)
    return NonFiniteError(
        f"the scores of sequence {one.number} add up to more than float64 holds; the largest emission by size is "
        f"{one.emissions[position, label]} at position {position}, label {label}"
    )


def _no_path(one: OneSequence) -> ChainError:
    where = f"sequence {one.number} of length {len(one.emissions)} has no valid path: "
    reachable: BoolArray = np.asarray(one.start > -np.inf)
    for position, emission in enumerate(one.emissions):
        if position:
            reachable = np.any(one.step(position)[reachable] > -np.inf, axis=0)
        reachable = reachable & (emission > -np.inf)
        if not reachable.any():
            return NoPathError(f"{where}no label can be reached at position {position}")
    if (reachable & (one.end > -np.inf)).any():
        return _too_large(one)
    return NoPathError(f"{where}every label it can reach at its last position is forbidden to end with")


def _tag_range(one: OneSequence, tags: AnyArray) -> ChainError:
    L = one.emissions.shape[1]
    position = int(np.argmax((tags < 0) | (tags >= L)))
    return TagRangeError(
        f"tags of sequence {one.number}, position {position} are {tags[position]}: must be in 0..{L - 1} (L = {L})"
    )


def _forbidden(one: OneSequence, tags: AnyArray) -> ChainError:
    where = f"tags of sequence {one.number} are forbidden, so their likelihood is zero: "
    if one.start[tags[0]] == -np.inf:
        return NoPathError(f"{where}it may not start with tag {tags[0]} (position 0)")
    for position, tag in enumerate(tags):
        if one.emissions[position, tag] == -np.inf:
            return NoPathError(f"{where}tag {tag} has emission score -inf at position {position}")
        if position and one.step(position)[tags[position - 1], tag] == -np.inf:
            return NoPathError(
                f"{where}the transition from tag {tags[position - 1]} to tag {tag} has score -inf (position {position})"
            )
    if one.end[tags[-1]] > -np.inf:
        return _too_large(one)
    return NoPathError(f"{where}it may not end with tag {tags[-1]} (position {len(tags) - 1})")


def check_count(name: str, value: int) -> int:
    """A number of things to find: an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ChainError(f"{name} must be an integer >= 1, got {shown(value)}")
    return int(value)


def check_kbest(k: int, lengths: IntArray, L: int) -> int:
    """``k``, refused if that many paths hold more than `MOST_TAGS` tags."""
    wanted = min(check_count("k", k), MOST_TAGS + 1)
    tokens = lengths.astype(np.float64)
    existing = np.exp(np.minimum(tokens * np.log(L), 50.0))  # L ** T, or enough
    if float((np.minimum(wanted, existing) * tokens).sum()) > MOST_TAGS:
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
        raise ChainError(f"seed must be an integer, got {shown(seed)}")
    return int(seed) & (2**64 - 1)


def _refuse(name: str, count: int, what: str, tokens: int) -> NoReturn:
    raise ChainError(
        f"{name} = {shown(count)} {what} of {tokens} tokens are more than one answer may hold, "
        f"which is {MOST_TAGS} tags: ask for fewer, or for fewer sequences at a time"
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
        lengths = [len(labels) for labels in tags]  # type: ignore[arg-type]
        if lengths != (spans[:, 2] - spans[:, 1]).tolist():
            raise ShapeError(f"tags must have one label per position of each span, got lengths {lengths}")
        flat = np.concatenate([plain_array(labels, np.int64) for labels in tags])
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


def check_weights(weights: Any, tags: Any) -> None:
    """Refuses weights of tokens, NumPy arrays or torch tensors, that are not one finite number >= 0 per tag."""
    if weights.shape != tags.shape:
        raise ShapeError(f"weights must be {tuple(tags.shape)} to match tags, got {tuple(weights.shape)}")
    wrong = weights[~((weights >= 0) & (weights < np.inf))]
    if len(wrong):
        raise ChainError(f"weights must be finite numbers >= 0, got {float(wrong[0])}")
