"""Ready features by the thousand, which threads read in blocks, against reading one token after another in Python."""

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import chain
from trellis.errors import DataError
from trellis.features import AttributeIndex, GivenExtractor
from trellis.store import Stored


class Word(str):
    """A str of another type, which does not hold its characters where a str does."""


def plain(token, prefix=""):
    """Names and values in order, as documented."""
    if isinstance(token, dict):
        for key, value in token.items():
            name = prefix + text(key)
            if isinstance(value, str | bytes):
                yield f"{name}:{text(value)}", 1.0
            elif isinstance(value, dict | list | set):
                yield from plain(value, f"{name}:")
            else:
                yield name, float(value)
    else:
        for element in token:
            yield prefix + text(element), 1.0


def text(value):
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else str(value)


def expected(sentences, known=None):
    """The names in the order of their numbers, and the features of each token; with `known` names only these."""
    numbers = {} if known is None else dict(known)
    tokens = []
    for token in (token for own in sentences for token in own):
        features = list(plain(token))
        if known is None:
            for name, _ in features:
                numbers.setdefault(name, len(numbers))
        tokens.append([(numbers[name], value) for name, value in features if name in numbers and value != 0.0])
    return list(numbers), tokens


def read(sentences, index, *, grow):
    data = GivenExtractor().compile(sentences, index, grow=grow)
    assert data.offsets.tolist() == np.cumsum([0, *map(len, sentences)]).tolist()
    return [data.token_attributes(n) for n in range(data.tokens)]


def compare(first, second):
    """Read once while the index grows, again with what is remembered, and with what a file has of it."""
    names, tokens = expected(first)
    index = AttributeIndex()
    assert read(first, index, grow=True) == tokens
    assert index.names() == names
    assert read(first, index, grow=True) == tokens
    known = {name: number for number, name in enumerate(names)}
    stored = AttributeIndex.from_stored(Stored.of("x", "test", {}, index.arrays()))
    for own in (stored, index, stored):
        assert read(second, own, grow=False) == expected(second, known)[1]


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = chain.get_num_threads()
    chain.set_num_threads(request.param)
    yield request.param
    chain.set_num_threads(before)


KEYS = st.sampled_from(["w", "a", "word.lower()", "长", "x" * 9, "\ud800", "é"])
TEXTS = st.one_of(
    st.text(max_size=3),
    st.sampled_from(
        ["", "seven77", "eight888", "字", "两个字", "三个字四", "\udc80", "a:b", "long" * 9, "naïveté", "\0"]
    ),
    st.text(min_size=6, max_size=10).map(Word),
    st.binary(max_size=9).filter(lambda b: b.isascii()),
)
NUMBERS = st.one_of(
    st.booleans(),
    st.sampled_from([1.0, 1, 0, 0.0, -0.0, -2.5, 10**17 + 1, 2**70, np.float32(0.5), np.int8(3), np.bool_(True)]),
)
NESTED = st.one_of(st.lists(TEXTS, max_size=2), st.dictionaries(KEYS, st.one_of(TEXTS, NUMBERS), max_size=2))
PLAIN = st.dictionaries(KEYS, st.one_of(TEXTS, NUMBERS), max_size=5)
ODD = st.one_of(st.dictionaries(KEYS, st.one_of(TEXTS, NUMBERS, NESTED), max_size=4), st.lists(TEXTS, max_size=3))
CORPORA = st.lists(st.lists(PLAIN, max_size=6), max_size=6)


@given(CORPORA, CORPORA, st.lists(st.lists(st.one_of(PLAIN, ODD), max_size=3), max_size=3))
def test_any_dicts_are_read_as_one_after_another(first, second, odd):
    compare(first + odd + second, second + odd + first)


@settings(max_examples=20, deadline=None)
@given(CORPORA, CORPORA, st.integers(1, 300), st.integers(0, 40))
def test_blocks_of_them_are(first, second, times, odd_at):
    many = (first + second) * times
    many[odd_at:odd_at] = [[{"odd": {"inner": "x"}}]]
    compare(many[:400], second * 3 + first)


def shared_keys(i):
    return {"bias": 1.0, "w": f"word{i % 700}", "-1:w": f"word{i * 7 % 900}", "up": i % 3 == 0, "tag": "NOUN"}


def fresh_keys(i):
    return {"".join(key): value for key, value in shared_keys(i).items()} | {f"at{i % 2}": True}


def keys_as_features(i):
    return {f"word{i % 3000}": True, f"tag{i % 17}": 1.0}


def with_values(i):
    return {"bias": 1.0, "w": f"w{i % 50}", "size": (i % 5) / 2, "count": i % 4}


@pytest.mark.parametrize("token", [shared_keys, fresh_keys, keys_as_features, with_values])
def test_thousands_of_tokens_by_any_number_of_threads(threads, token):
    sentences = [[token(31 * b + t) for t in range(b % 40)] for b in range(300)]
    compare(sentences, sentences[::-1])
    compare([tuple(own) for own in sentences], [iter_list(own) for own in sentences])


def iter_list(own):
    """A sequence that is neither list nor tuple."""
    array = np.empty(len(own), dtype=object)
    array[:] = own
    return array


def test_the_first_token_that_is_wrong_is_named(threads):
    sentences = [[shared_keys(t) for t in range(30)] for _ in range(60)]
    sentences[40][7], sentences[40][9], sentences[50][0] = {"a": float("nan")}, {"a": None}, 3
    with pytest.raises(DataError, match=r"^sentence 40, position 7: feature 'a' is nan: values must be finite$"):
        read(sentences, AttributeIndex(), grow=True)


def test_a_value_that_changes_later_tokens_is_obeyed(threads):
    """What was read ahead of it does not count."""

    class Changing:
        def __float__(self):
            sentences[5][0]["w"] = "changed"
            del sentences[4][2:], sentences[6:]
            return 2.0

    sentences = [[shared_keys(8 * b + t) for t in range(8)] for b in range(40)]
    sentences[3][3]["count"] = Changing()
    index = AttributeIndex()
    found = GivenExtractor().compile(sentences, index, grow=True)
    assert found.offsets.tolist() == [0, 8, 16, 24, 32, 34, 42]
    changed = [(index.name(a), v) for a, v in found.token_attributes(34)]
    assert ("w:changed", 1.0) in changed


CRFSUITE_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=10)
CRFSUITE = st.recursive(
    st.one_of(CRFSUITE_TEXTS, st.booleans(), st.floats(-9, 9), st.integers(-9, 9)),
    lambda inner: st.one_of(
        st.dictionaries(CRFSUITE_TEXTS, inner, max_size=3),
        st.lists(CRFSUITE_TEXTS, max_size=3),
        st.sets(CRFSUITE_TEXTS),
    ),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(CRFSUITE_TEXTS, CRFSUITE, max_size=5), max_size=5))
def test_names_and_values_are_those_of_crfsuite(sentence):
    index = AttributeIndex()
    data = GivenExtractor().compile([sentence], index, grow=True)
    theirs = pycrfsuite.ItemSequence(sentence).items()
    for n, token in enumerate(theirs):
        own = {}
        for attribute, value in data.token_attributes(n):
            own[index.name(attribute)] = value
        assert own == {name: value for name, value in token.items() if value != 0.0}
