"""One place that says what was probably meant."""

import pytest

from tests.test_layers import FILES, ROOT
from trellis.suggest import did_you_mean, nearest

KNOWN = ["crf", "hmm", "bilstm-crf"]


@pytest.mark.parametrize(
    ("name", "always", "found"),
    [
        ("crv", False, "crf"),
        ("bilstm_crf", False, "bilstm-crf"),
        ("tree", False, None),
        ("tree", True, "crf"),
        (7, False, None),
    ],
)
def test_the_most_similar_name_or_none(name: object, always: bool, found: str | None) -> None:
    assert nearest(name, KNOWN, always=always) == found
    assert did_you_mean(name, KNOWN, always=always) == ("" if found is None else f"; did you mean {found!r}?")


def test_where_nothing_is_known_nothing_is_suggested() -> None:
    assert did_you_mean("crf", [], always=True) == ""


def test_the_name_is_written_as_its_owner_writes_it() -> None:
    assert did_you_mean("crv", dict.fromkeys(KNOWN), show="%{}".format) == "; did you mean %crf?"


def test_nobody_else_looks_for_similar_names() -> None:
    assert [file for file in FILES if "difflib" in (ROOT / file).read_text()] == ["suggest.py"]
