"""Token lists read from JSON without Python strings: what orjson reads, or nothing."""

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.damage import Change, changes, damaged
from trellis import _native
from trellis.text import PackedTokens

CHARACTERS = st.characters(codec="utf-8")
TOKENS = st.lists(st.lists(st.text(CHARACTERS, min_size=1, max_size=6), max_size=4), max_size=4)
SCALARS = st.none() | st.booleans() | st.integers(-5, 10**6) | st.text(CHARACTERS, max_size=5)
VALUES = st.recursive(
    SCALARS, lambda own: st.lists(own, max_size=3) | st.dictionaries(st.text('ab]}"\\', max_size=3), own, max_size=3)
)
OBJECTS = st.dictionaries(
    st.text("tokens{}[],:x", max_size=6).filter(lambda name: name != "tokens"), VALUES, max_size=3
)
PIECES = [
    b'"',
    b"\\",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b" ",
    b"\n",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b"\x80",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe0\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\xf0\x9f\x98\x80",
    b"\\ud83d",
    b"\\ude00",
    b"\\u0000",
    b"\\u00e9",
    b"\\x",
    b"\\/",
    b'"tokens":[["b"]]',
    b'"tokens"',
    b'"\\u0074okens":0',
    b"0",
    b"null",
    b"-",
    b"1e5",
    b'""',
    b"[[]]",
    b"]]",
    b'["a"]',
    b"\xff",
    b"\t",
]


def written(tokens: Any, before: dict[str, Any], after: dict[str, Any], *, ascii: bool, indent: int | None) -> bytes:
    """An object with the field somewhere in it."""
    after = {name: value for name, value in after.items() if name not in before}
    return json.dumps(before | {"tokens": tokens} | after, ensure_ascii=ascii, indent=indent).encode()


BODIES = st.builds(written, TOKENS, OBJECTS, OBJECTS, ascii=st.booleans(), indent=st.sampled_from([None, 0, 2]))


def loaded(text: bytes) -> Any:
    """What orjson reads, or its refusal."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return ValueError


def agrees(body: bytes) -> bool:
    """Whether something was read; it must be what orjson reads, with the rest as it is."""
    found = PackedTokens.read(body, "tokens")
    if found is None:
        return False
    packed, rest = found
    expected, others = loaded(body), loaded(rest)
    if others is ValueError:
        assert expected is ValueError
        return True
    assert others["tokens"] == 0
    assert expected == others | {"tokens": list(packed)}
    lengths = [len(own) for own in expected["tokens"]]
    assert packed.lengths.tolist() == lengths
    counted = [length or 1 for length in lengths]
    assert packed.extent == (sum(counted), max(counted, default=0))
    return True


@given(BODIES)
def test_reads_what_orjson_reads(body: bytes) -> None:
    assert agrees(body)


@settings(max_examples=1000)
@given(BODIES, changes(PIECES, min_size=1))
def test_damaged_bodies_are_not_misread(body: bytes, changed: list[Change]) -> None:
    agrees(damaged(body, changed))


@given(BODIES, st.integers(0, 10**6))
def test_cut_bodies_are_not_read(body: bytes, place: int) -> None:
    assert not agrees(body.rstrip()[: place % len(body.rstrip())])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"tokens"',
        b'{"tokens":',
        b'{"tokens":[["a"]]',
        b'{"tokens":[["a"]],}',
        b'{,"tokens":[["a"]]}',
        b'{"tokens":[["a",]]}',
        b'{"tokens":[["a"],]}',
        b'{"tokens":[["a"]]} x',
        b'{"tokens":[["a"]],"tokens":[["b"]]}',
        b'{"\\u0074okens":[["b"]],"tokens":[["a"]]}',
        b'{"tokens":[["a"]],"\\u0074okens":0}',
        b'{"tokens":[[""]]}',
        b'{"tokens":["a"]}',
        b'{"tokens":[[1]]}',
        b'{"tokens":null}',
        b'{"tokens":[["\\ud83d"]]}',
        b'{"tokens":[["\\ude00"]]}',
        b'{"tokens":[["\\ud83dx"]]}',
        b'{"tokens":[["\\ud83d\\u0041"]]}',
        b'{"tokens":[["\\u12g4"]]}',
        b'{"tokens":[["a\x01"]]}',
        b'{"tokens":[["\xed\xa0\x80"]]}',
        b'{"tokens":[["\xc0\xaf"]]}',
        b'{"tokens":[["\xf4\x90\x80\x80"]]}',
        b'{"tokens":[["\xe2\x82"]]}',
        b'{"texts":["tokens"]}',
        b'{"a":"\\"',
        b'{"a":[[[[[[',
        "﻿{}".encode(),
    ],
)
def test_what_is_left_to_others(body: bytes) -> None:
    assert PackedTokens.read(body, "tokens") is None


def test_escapes_and_wide_characters() -> None:
    body = (
        rb'{"tokens": [["\u00e9\ud83d\ude00\n\/\"\\\b\f\r\t\u0000"], [], ["' + "é😀中".encode() + rb'"]], "a": "\"]}"}'
    )
    packed, rest = PackedTokens.read(body, "tokens") or pytest.fail("it is what it should be")
    assert list(packed) == orjson.loads(body)["tokens"]
    assert rest == b'{"tokens": 0, "a": "\\"]}"}'


@given(TOKENS, st.integers(0, 5), st.integers(0, 5))
def test_parts_and_joined_parts(tokens: list[list[str]], first: int, last: int) -> None:
    packed, _ = PackedTokens.read(orjson.dumps({"tokens": tokens}), "tokens") or pytest.fail("it is what it should be")
    assert list(packed[first:last]) == tokens[first:last]
    assert packed[first:last].lengths.tolist() == [len(own) for own in tokens[first:last]]
    middle = len(tokens) // 2
    assert (
        list(PackedTokens.joined([packed[:middle], packed[middle:], packed[first:last]])) == tokens + tokens[first:last]
    )
    assert len(PackedTokens.joined([])) == 0


def test_indices_as_those_of_a_list() -> None:
    packed, _ = PackedTokens.read(b'{"tokens":[["a"],["b","c"]]}', "tokens") or pytest.fail("it is what it should be")
    assert packed[-1] == packed[1] == ["b", "c"]
    for index in (2, -3):
        with pytest.raises(IndexError):
            packed[index]
    with pytest.raises(ValueError, match="step"):
        packed[::-1]
    with pytest.raises(IndexError):
        packed.native.part(1, 3)


@given(st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=5), st.integers(0, 5))
def test_written_labels_are_those_of_orjson(ids: list[list[int]], first: int) -> None:
    names, first = ["O", 'B-"é"', "I-\\"], min(first, len(ids))
    flat = np.array([one for own in ids for one in own], dtype=np.int64)
    lengths = np.array([len(own) for own in ids], dtype=np.int64)
    found = _native.write_names(
        [orjson.dumps(name) for name in names], flat, lengths, [first, len(ids) - first], b'{"tags":[', b"]}"
    )
    results = [{"tags": [names[one] for one in own]} for own in ids]
    assert found == [orjson.dumps(results[:first])[1:-1], orjson.dumps(results[first:])[1:-1]]


@pytest.mark.parametrize(
    ("ids", "lengths", "counts", "error"),
    [
        ([3], [1], [1], IndexError),
        ([-1], [1], [1], IndexError),
        ([0], [2], [1], ValueError),
        ([0], [-1], [1], ValueError),
        ([0], [1], [2], ValueError),
        ([0], [1], [-1], ValueError),
    ],
)
def test_labels_that_cannot_be_written(
    ids: list[int], lengths: list[int], counts: list[int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        _native.write_names([b"0"] * 3, np.array(ids), np.array(lengths), counts, b"[", b"]")
