"""Scores, tags and weights as the native side expects them: contiguous arrays of one type, in matching shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trellis.arrays import AnyArray, FloatArray, IntArray, any_array, plain_array
from trellis.errors import ShapeError, TagRangeError


def plain_floats(values: npt.ArrayLike) -> AnyArray:
    """Emissions: float32 and float64 unchanged, other floats as float32, integers as float64."""
    array = any_array(values)
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"scores must be numbers, got an array of {array.dtype}")
    if array.dtype.kind == "f":
        dtype: Any = array.dtype if array.dtype in (np.float32, np.float64) else np.float32
    else:
        dtype = np.float64
    return plain_array(array, dtype)


def matching(name: str, values: npt.ArrayLike, letters: str, shape: tuple[int, ...], emissions: AnyArray) -> AnyArray:
    """The other scores of a chain, in the type of the emissions."""
    array = plain_array(values, emissions.dtype)
    if array.shape != shape:
        raise ShapeError(
            f"{name} must be {letters} = {shape} to match emissions (N, L) = {emissions.shape}, got {array.shape}"
        )
    return array


def pairs_of(lengths: IntArray) -> int:
    """How many pairs of neighbouring tokens sequences of these lengths have."""
    return int(lengths.sum() - np.count_nonzero(lengths))


def check_tags(tags: npt.ArrayLike, emissions: AnyArray) -> IntArray:
    """One integer per token; the native side checks that each is a label."""
    array = any_array(tags)
    if array.shape != (len(emissions),) or (array.size and array.dtype.kind not in "iu"):
        raise ShapeError(
            f"tags must be integers (N,) = ({len(emissions)},) to match emissions (N, L) = "
            f"{emissions.shape}, got {array.dtype} {array.shape}"
        )
    return plain_array(array, np.int64)


def check_weights(weights: npt.ArrayLike, tags: IntArray) -> FloatArray:
    """One number >= 0 per token."""
    array = plain_array(weights, np.float64)
    if array.shape != tags.shape or not (array >= 0).all():
        raise ShapeError(f"weights must be numbers >= 0 of shape (N,) = {tags.shape}, got {array.shape}")
    return array


def check_state_labels(labels: npt.ArrayLike | None, states: int) -> tuple[IntArray | int, int]:
    """The labels of the states, 0 if the states are the labels, and how many labels there are."""
    if labels is None:
        return 0, states
    array = any_array(labels)
    if array.shape != (states,) or array.dtype.kind not in "iu":
        raise ShapeError(f"state_labels must be integers (L,) = ({states},), got {array.dtype} {array.shape}")
    wrong = np.flatnonzero((array < 0) | (array >= states))  # there are never more labels than states
    if len(wrong):
        raise TagRangeError(f"state_labels[{wrong[0]}] is {array[wrong[0]]}: must be in 0..{states - 1} (L = {states})")
    return plain_array(array, np.int64), int(array.max()) + 1
