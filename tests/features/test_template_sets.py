"""Ready features: lists of strings and the dicts of sklearn-crfsuite, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest

from trellis import _native
from trellis.errors import DataError, StoreError
from trellis.features import AttributeIndex, GivenExtractor
from trellis.store import Stored


def named(token):
    index = AttributeIndex()
    data = GivenExtractor().compile([[token]], index, grow=True)
    return {index.name(number): value for number, value in data.token_attributes(0)}


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (["a", "b"], {"a": 1.0, "b": 1.0}),
        (("a",), {"a": 1.0}),
        ({"a"}, {"a": 1.0}),
        ([], {}),
        ({}, {}),
        ({"a": 1.5, "b": 2, "c": -1}, {"a": 1.5, "b": 2.0, "c": -1.0}),
        ({"a": True, "b": False, "c": 0}, {"a": 1.0}),
        ({"a": "v"}, {"a:v": 1.0}),
        ({"a": {"x": 2, "y": "z", "n": {"q": 1}}}, {"a:x": 2.0, "a:y:z": 1.0, "a:n:q": 1.0}),
        ({"a": ["l", "m"], "b": {"s"}}, {"a:l": 1.0, "a:m": 1.0, "b:s": 1.0}),
        ({"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True)}, {"a": 0.5, "b": 3.0, "c": 1.0}),
        ({"a": Fraction(1, 4)}, {"a": 0.25}),
        ({"é中": "\ud800"}, {"é中:\ud800": 1.0}),
        ({b"a": b"x"}, {"a:x": 1.0}),
    ],
)
def test_every_form_becomes_named_values(token, expected):
    assert named(token) == expected


def test_more_keys_than_are_remembered():
    tokens = [{f"key{i}": "a", f"other{i}": True} for i in range(3000)] * 2
    index = AttributeIndex()
    data = GivenExtractor().compile([tokens], index, grow=True)
    for i in (0, 2999, 3000, 5999):
        assert [index.name(a) for a, _ in data.token_attributes(i)] == [f"key{i % 3000}:a", f"other{i % 3000}"]


def test_a_value_that_reads_other_features_with_the_same_index():
    index = AttributeIndex()

    class Reading:
        def __float__(self):
            GivenExtractor().compile([[{"k": "inner", "new": 1.0}]], index, grow=True)
            return 2.0

    token = {"a": "b", "k": Reading(), "c": "d"}
    data = GivenExtractor().compile([[token]], index, grow=True)
    assert [(index.name(a), v) for a, v in data.token_attributes(0)] == [("a:b", 1.0), ("k", 2.0), ("c:d", 1.0)]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ({"a": math.nan}, "feature 'a' is nan: values must be finite"),
        ({"a": {"b": math.inf}}, "feature 'a:b' is inf: values must be finite"),
        ({"a": None}, "feature 'a' must be a string, a number or a bool, got NoneType"),
        ({"a": object()}, "feature 'a' must be a string, a number or a bool, got object"),
        ({"a": 1j}, "feature 'a' must be a string, a number or a bool, got complex"),
        ({1: 2}, "a feature's name must be a string, got int"),
        (["a", 3], "a feature in a list must be a string, got int"),
        (3, "the features of a token must be a dict, list or set, got int"),
        ("word", "the features of a token must be a dict, list or set, got str"),
    ],
)
def test_what_is_no_feature_is_named_with_its_place(token, message):
    with pytest.raises(DataError, match=f"sentence 1, position 2: {message}"):
        GivenExtractor().compile([[], [["x"], ["y"], token]], AttributeIndex(), grow=True)


def nested(depth, leaf):
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


def test_dicts_may_be_nested_a_hundred_deep():
    assert named(nested(100, 2.5)) == {":".join("a" * 100): 2.5}
    assert named(nested(99, ["x"])) == {":".join("a" * 99 + "x"): 1.0}


def own_value():
    token = {}
    token["a"] = token
    return token


@pytest.mark.parametrize("token", [own_value(), nested(101, 1), nested(100, ["x"]), nested(100_000, 1)])
def test_features_nested_without_end_are_refused_with_the_limit(token):
    with pytest.raises(DataError, match=r"^sentence 0, position 1: features are nested more than 100 deep, at 'a:a:"):
        GivenExtractor().compile([[["x"], token]], AttributeIndex(), grow=True)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("x" * 10**6, "x" * 120 + "..."), ("\ud800", r"\xed\xa0\x80"), (b"\xff", r"\xff"), ("a\0b", "a\0b")],
    ids=["huge", "surrogate", "bytes", "NUL"],
)
def test_a_name_that_is_no_plain_text_is_shown_in_the_message(name, shown):
    with pytest.raises(DataError) as caught:
        named({name: None})
    expected = f"feature '{shown}' must be a string, a number or a bool, got NoneType"
    assert str(caught.value) == f"sentence 0, position 0: {expected}"


def test_an_integer_beyond_floats_is_refused():
    with pytest.raises(DataError, match="feature 'a' is too large: values must be finite"):
        named({"a": 10**400})


class BrokenList(list):
    def __iter__(self):
        raise RuntimeError("no iterator")


class StopsHalfway(list):
    def __iter__(self):
        yield "a"
        raise RuntimeError("no more")


class BrokenNumber:
    def __float__(self):
        raise KeyError("no float")


class BrokenSentence:
    def __len__(self):
        raise RuntimeError("no length")

    def __getitem__(self, i):
        raise RuntimeError("no items")


@pytest.mark.parametrize(
    ("sentence", "error"),
    [
        ([BrokenList(["a"])], RuntimeError),
        ([{"a": BrokenList(["a"])}], RuntimeError),
        ([StopsHalfway(["a"])], RuntimeError),
        ([{"a": BrokenNumber()}], KeyError),
        (BrokenSentence(), RuntimeError),
    ],
)
def test_what_objects_of_the_caller_raise_reaches_the_caller(sentence, error):
    with pytest.raises(error):
        GivenExtractor().compile([sentence], AttributeIndex(), grow=True)


def test_a_number_may_empty_the_dict_and_the_sentence_it_stands_in():
    token, sentence = {}, []

    class Emptying:
        def __float__(self):
            token.clear()
            sentence.clear()
            return 2.0

    token["a"] = Emptying()
    sentence.append(token)
    index = AttributeIndex()
    GivenExtractor().compile([sentence], index, grow=True)
    assert index.names() == ["a"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("", lambda a: a[:-1], "must add up to 1, got 2"),
        (".lengths", lambda a: a[:-1], "must add up to 2, got 1"),
        (".lengths", lambda a: a.astype(np.int64), "must be uint8 or uint16 or uint32, got int64"),
        (".lengths", lambda a: np.full(2, 2**32 - 1, np.uint32), "must add up to 2, got 8589934590"),
        (".lengths", lambda a: a.reshape(1, 2), "must have the shape (any), got (1, 2)"),
    ],
)
def test_lengths_that_do_not_fit_the_names_are_refused(name, change, message):
    index = AttributeIndex()
    GivenExtractor().compile([[["a", "b"]]], index, grow=True)
    name = f"attributes{name}"
    arrays = index.arrays() | {name: change(index.arrays()[name])}
    with pytest.raises(StoreError) as found:
        AttributeIndex.from_stored(Stored.of("file", "test", {}, arrays))
    assert str(found.value) == f"file: the array 'attributes.lengths' {message}"


def test_a_name_that_is_not_utf_8_is_a_clear_error():
    index = AttributeIndex()
    GivenExtractor().compile([[["a", "b"]]], index, grow=True)
    arrays = index.arrays() | {"attributes": np.array([0xFF, 0x62], np.uint8)}
    again = AttributeIndex.from_stored(Stored.of("file", "test", {}, arrays))
    with pytest.raises(StoreError, match="the name of attribute 0 of the saved model is not UTF-8"):
        again.names()


def test_native_code_takes_arrays_as_they_are_or_not_at_all():
    """A conversion would make 65535 of -1, and rows of items."""
    names, ends = AttributeIndex().native.keys()
    for wrong in (ends.astype(np.int64), ends.reshape(0, 2)):
        with pytest.raises(TypeError):
            _native.Attributes(names, wrong)
    with pytest.raises(TypeError):
        _native.Weights(np.array([1]), np.array([-1]), np.ones(1), 3)
