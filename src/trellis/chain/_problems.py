"""From the native code of a problem to an error that says what is wrong, and where.

The kernels only report which sequence failed and how. Finding the exact place is done here, after the fact, so that
the hot path pays nothing for good messages.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from trellis.arrays import AnyArray, BoolArray, IntArray
from trellis.errors import ChainError, NonFiniteError, NoPathError, TagRangeError

NOT_FINITE, NO_PATH, TAG_RANGE, FORBIDDEN_PATH, BAD_CHAIN_SCORE = 2, 3, 4, 5, 6


def raise_problem(
    status: int,
    sequence: int,
    rows: IntArray,
    emissions: AnyArray,
    transitions: AnyArray,
    start: AnyArray,
    end: AnyArray,
    tags: AnyArray | None = None,
) -> NoReturn:
    """Raise the error for a native report about the sequence whose tokens lie in ``rows``."""
    if status == BAD_CHAIN_SCORE:
        _raise_bad_chain_score(transitions, start, end)
    try:
        _raise_about(status, sequence, rows, emissions, transitions, start, end, tags)
    except ChainError as error:
        error.sequence = sequence
        raise


def _raise_about(
    status: int,
    sequence: int,
    rows: IntArray,
    emissions: AnyArray,
    transitions: AnyArray,
    start: AnyArray,
    end: AnyArray,
    tags: AnyArray | None,
) -> NoReturn:
    own = emissions[rows]  # (T, L)
    if status == NOT_FINITE:
        _raise_not_finite(sequence, own)
    if status == NO_PATH:
        _raise_no_path(sequence, own, transitions, start, end)
    assert tags is not None, f"native status {status} without tags"
    if status == TAG_RANGE:
        _raise_tag_range(sequence, tags[rows], emissions.shape[1])
    assert status == FORBIDDEN_PATH, f"unknown native status {status}"
    _raise_forbidden(sequence, tags[rows], own, transitions, start, end)


def _raise_bad_chain_score(transitions: AnyArray, start: AnyArray, end: AnyArray) -> NoReturn:
    for name, array in (("transitions", transitions), ("start", start), ("end", end)):
        bad = np.argwhere(~(array < np.inf))
        if len(bad):
            place = ", ".join(str(i) for i in bad[0])
            raise NonFiniteError(f"{name}[{place}] is {array[tuple(bad[0])]}: scores must be finite or minus infinity")
    raise AssertionError("the native code found a bad score where there is none")


def _raise_not_finite(sequence: int, own: AnyArray) -> NoReturn:
    position, label = np.argwhere(~(own < np.inf))[0]
    raise NonFiniteError(
        f"emissions of sequence {sequence}, position {position}, label {label} are {own[position, label]}: "
        "scores must be finite or minus infinity"
    )


def _raise_no_path(sequence: int, own: AnyArray, transitions: AnyArray, start: AnyArray, end: AnyArray) -> NoReturn:
    reachable: BoolArray = np.asarray(start > -np.inf)
    for position, emission in enumerate(own):
        if position:
            reachable = np.any(transitions[reachable] > -np.inf, axis=0)
        reachable = reachable & (emission > -np.inf)
        if not reachable.any():
            raise NoPathError(
                f"sequence {sequence} of length {len(own)} has no valid path: "
                f"no label can be reached at position {position}"
            )
    assert not (reachable & (end > -np.inf)).any()
    raise NoPathError(
        f"sequence {sequence} of length {len(own)} has no valid path: "
        "every label it can reach at its last position is forbidden to end with"
    )


def _raise_tag_range(sequence: int, tags: AnyArray, L: int) -> NoReturn:
    position = int(np.argmax((tags < 0) | (tags >= L)))
    raise TagRangeError(
        f"tags of sequence {sequence}, position {position} are {tags[position]}: must be in 0..{L - 1} (L = {L})"
    )


def _raise_forbidden(
    sequence: int, tags: AnyArray, own: AnyArray, transitions: AnyArray, start: AnyArray, end: AnyArray
) -> NoReturn:
    where = f"tags of sequence {sequence} are forbidden, so their likelihood is zero: "
    if start[tags[0]] == -np.inf:
        raise NoPathError(f"{where}it may not start with tag {tags[0]} (position 0)")
    for position, tag in enumerate(tags):
        if own[position, tag] == -np.inf:
            raise NoPathError(f"{where}tag {tag} has emission score -inf at position {position}")
        if position and transitions[tags[position - 1], tag] == -np.inf:
            raise NoPathError(
                f"{where}the transition from tag {tags[position - 1]} to tag {tag} has score -inf (position {position})"
            )
    raise NoPathError(f"{where}it may not end with tag {tags[-1]} (position {len(tags) - 1})")
