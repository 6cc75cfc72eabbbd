"""From the native code of a problem to an error that says what is wrong, and where.

The kernels only report which sequence failed and how. Finding the exact place is done here, after the fact, so that
the hot path pays nothing for good messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from trellis.arrays import AnyArray, BoolArray
from trellis.errors import ChainError, NonFiniteError, NoPathError, TagRangeError

NOT_FINITE, NO_PATH, TAG_RANGE, FORBIDDEN_PATH, BAD_CHAIN_SCORE, SUM_TOO_LARGE = 2, 3, 4, 5, 6, 7


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
            place = ", ".join(str(i) for i in bad[0])
            raise NonFiniteError(f"{name}[{place}] is {array[tuple(bad[0])]}: scores must be finite or minus infinity")
    raise AssertionError("the native code reported a bad score, but there is none")


def raise_problem(status: int, one: OneSequence) -> NoReturn:
    """Raise the error for a native report about a sequence."""
    try:
        _raise_about(status, one)
    except ChainError as error:
        error.sequence = one.number
        raise


def _raise_about(status: int, one: OneSequence) -> NoReturn:
    if status == NOT_FINITE:
        _raise_not_finite(one)
    if status == NO_PATH:
        _raise_no_path(one)
    if status == SUM_TOO_LARGE:
        _raise_too_large(one)
    assert one.tags is not None, f"native status {status} without tags"
    if status == TAG_RANGE:
        _raise_tag_range(one.number, one.tags, one.emissions.shape[1])
    assert status == FORBIDDEN_PATH, f"unknown native status {status}"
    _raise_forbidden(one, one.tags)


def _raise_not_finite(one: OneSequence) -> NoReturn:
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
    raise NonFiniteError(f"{what} are {value}: scores must be finite or minus infinity")


def _raise_too_large(one: OneSequence) -> NoReturn:
    """Each score is finite, and a sum of them is not."""
    finite = np.where(np.isfinite(one.emissions), np.abs(one.emissions), 0.0)
    position, label = np.unravel_index(np.argmax(finite), finite.shape)
    raise NonFiniteError(
        f"the scores of sequence {one.number} add up to more than float64 holds; the largest emission by size is "
        f"{one.emissions[position, label]} at position {position}, label {label}"
    )


def _raise_no_path(one: OneSequence) -> NoReturn:
    T = len(one.emissions)
    reachable: BoolArray = np.asarray(one.start > -np.inf)
    for position, emission in enumerate(one.emissions):
        if position:
            reachable = np.any(one.step(position)[reachable] > -np.inf, axis=0)
        reachable = reachable & (emission > -np.inf)
        if not reachable.any():
            raise NoPathError(
                f"sequence {one.number} of length {T} has no valid path: no label can be reached at position {position}"
            )
    if (reachable & (one.end > -np.inf)).any():
        _raise_too_large(one)
    raise NoPathError(
        f"sequence {one.number} of length {T} has no valid path: "
        "every label it can reach at its last position is forbidden to end with"
    )


def _raise_tag_range(sequence: int, tags: AnyArray, L: int) -> NoReturn:
    position = int(np.argmax((tags < 0) | (tags >= L)))
    raise TagRangeError(
        f"tags of sequence {sequence}, position {position} are {tags[position]}: must be in 0..{L - 1} (L = {L})"
    )


def _raise_forbidden(one: OneSequence, tags: AnyArray) -> NoReturn:
    where = f"tags of sequence {one.number} are forbidden, so their likelihood is zero: "
    if one.start[tags[0]] == -np.inf:
        raise NoPathError(f"{where}it may not start with tag {tags[0]} (position 0)")
    for position, tag in enumerate(tags):
        if one.emissions[position, tag] == -np.inf:
            raise NoPathError(f"{where}tag {tag} has emission score -inf at position {position}")
        if position and one.step(position)[tags[position - 1], tag] == -np.inf:
            raise NoPathError(
                f"{where}the transition from tag {tags[position - 1]} to tag {tag} has score -inf (position {position})"
            )
    if one.end[tags[-1]] > -np.inf:
        _raise_too_large(one)
    raise NoPathError(f"{where}it may not end with tag {tags[-1]} (position {len(tags) - 1})")
