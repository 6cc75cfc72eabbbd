"""The types of arrays have one home."""

import re

from tests.test_layers import FILES, ROOT


def test_no_other_file_names_a_type_of_arrays_again() -> None:
    again = re.compile(r"^\w+ = (npt\.)?NDArray\[(Any|np\.(bool_|float32|float64|int64))\]", re.MULTILINE)
    assert [file for file in FILES if again.search((ROOT / file).read_text())] == ["arrays.py"]
