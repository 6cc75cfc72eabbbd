"""What is asked of a file's arrays, and what is said where they are something else."""

import numpy as np
import pytest

from trellis.errors import StoreError
from trellis.store import Stored, pack_strings


def stored(**arrays) -> Stored:
    return Stored.of("file", "test", {}, arrays)


def refusal(ask) -> str:
    with pytest.raises(StoreError) as found:
        ask()
    return str(found.value)


def test_an_array_that_is_as_expected_is_given_as_it_is():
    held = stored(a=np.arange(6, dtype=np.uint16).reshape(2, 3))
    assert held.array("a", np.uint16, (2, None), 0, 5) is held.arrays["a"]
    assert "a" in held
    assert "b" not in held


@pytest.mark.parametrize(
    ("array", "dtype", "shape", "problem"),
    [
        (np.zeros(3, np.int64), np.uint16, (3,), "must be uint16, got int64"),
        (np.zeros(3, ">i8"), np.int64, (3,), "must be int64, got >i8"),
        (np.zeros(3), np.float64, (4,), "must have the shape (4), got (3)"),
        (np.zeros(3), np.float64, (None, 3), "must have the shape (any, 3), got (3)"),
        (np.zeros((3, 1)), np.float64, (3,), "must have the shape (3), got (3, 1)"),
        (np.zeros(()), np.float64, (None,), "must have the shape (any), got ()"),
        (np.array([1.0, np.nan]), np.float64, (2,), "must be finite, got nan at [1]"),
        (np.array([[1.0], [np.inf]]), np.float64, (2, 1), "must be finite, got inf at [1, 0]"),
    ],
)
def test_type_shape_and_finiteness_are_exact(array, dtype, shape, problem):
    assert refusal(lambda: stored(a=array).array("a", dtype, shape)) == f"file: the array 'a' {problem}"


def test_a_missing_array_is_named():
    wanted = "file: the array 'a' is missing: expected float32 of shape (3, any)"
    assert refusal(lambda: stored().array("a", np.float32, (3, None))) == wanted


@pytest.mark.parametrize(
    ("values", "low", "high", "problem"),
    [
        ([0, 9], 0, 8, "must lie in 0..8, got 9 at [1]"),
        ([-1, 9], 0, 9, "must lie in 0..9, got -1 at [0]"),
        ([-1, 9], 0, None, "must be at least 0, got -1 at [0]"),
        ([-1, 9], None, 8, "must be at most 8, got 9 at [1]"),
        ([0.0, np.nan], 0, 1, "must lie in 0..1, got nan at [1]"),
        ([0.0, np.inf], -np.inf, None, "must be finite or -inf, got inf at [1]"),
        ([np.nan, 0.0], -np.inf, np.inf, "must lie in -inf..inf, got nan at [0]"),
    ],
)
def test_numbers_outside_their_limits_are_shown_with_their_place(values, low, high, problem):
    array = np.array(values)
    found = refusal(lambda: stored(a=array).array("a", array.dtype, (2,), low, high))
    assert found == f"file: the array 'a' {problem}"


def test_what_lies_within_the_limits_passes():
    assert len(stored(a=np.array([-np.inf, 0.0])).array("a", np.float64, (2,), -np.inf)) == 2
    assert len(stored(a=np.array([2**64 - 1], np.uint64)).array("a", np.uint64, (1,))) == 1
    assert len(stored(a=np.empty(0)).array("a", np.float64, (0,), 0, 1)) == 0
    assert stored(a=np.array([3.5])).array("a", np.float64, ()).shape == ()


def test_ends_never_fall_and_reach_the_total():
    assert stored(e=np.array([0, 2, 2, 5])).ends("e", np.int64, 5).tolist() == [0, 2, 2, 5]
    assert stored(e=np.empty(0, np.uint64)).ends("e", np.uint64, 0).tolist() == []


@pytest.mark.parametrize(
    ("ends", "total", "problem"),
    [
        ([2, 1, 5], 5, "must never decrease, but does so after [0]"),
        ([2, 4], 5, "must end with 5, got 4"),
        ([], 5, "must end with 5, got 0"),
        ([2, 6], 5, "must lie in 0..5, got 6 at [1]"),
        ([-1, 5], 5, "must lie in 0..5, got -1 at [0]"),
        # Their differences wrap around to small numbers.
        ([-(2**62), 2**63 - 1], 2**63 - 1, f"must lie in 0..{2**63 - 1}, got {-(2**62)} at [0]"),
    ],
)
def test_other_ends_are_refused(ends, total, problem):
    held = stored(e=np.array(ends, np.int64))
    assert refusal(lambda: held.ends("e", np.int64, total)) == f"file: the array 'e' {problem}"


def test_unsigned_ends_are_compared_and_not_subtracted():
    held = stored(e=np.array([2**64 - 1, 3], np.uint64))
    assert refusal(lambda: held.ends("e", np.uint64, 3)).startswith("file: the array 'e' must lie in 0..3")


@pytest.mark.parametrize("strings", [(), ("",), ("a", "", "é中", "\ud800")])
def test_strings_come_back(strings):
    assert Stored.of("file", "test", {}, pack_strings("names", strings)).strings("names") == strings


def test_strings_that_are_none_are_refused():
    packed = pack_strings("names", ["ab", "é"])
    for change, problem in [
        ({"names.bytes": packed["names.bytes"].astype(np.int64)}, "the array 'names.bytes' must be uint8, got int64"),
        ({"names.ends": np.array([1, 3])}, "the array 'names.ends' must end with 4, got 3"),
        ({"names.ends": np.array([3, 4])}, "the array 'names.bytes' must be UTF-8 between the ends"),
        ({"names.bytes": np.full(4, 255, np.uint8)}, "the array 'names.bytes' must be UTF-8 between the ends"),
    ]:
        held = Stored.of("file", "test", {}, packed | change)
        assert refusal(lambda held=held: held.strings("names")).startswith(f"file: {problem}")
