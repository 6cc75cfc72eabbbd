"""Numbers that a table gives labels are checked, not taken modulo 2^32."""

from typing import Any

import pytest

from trellis import _native


@pytest.mark.parametrize("number", [-1, 2**32, 2**70, 1.5, "1", None])
def test_numbers_that_do_not_fit_are_refused(number: Any) -> None:
    with pytest.raises(ValueError, match="the numbers of labels must be integers from 0 to 4294967295"):
        _native.number_strings([["a", "b"]], {"a": 1, "b": number})


def test_numbers_that_fit_are_taken() -> None:
    assert _native.number_strings([["a", "b"]], {"a": 2**32 - 1, "b": True}).tolist() == [2**32 - 1, 1, 0]
