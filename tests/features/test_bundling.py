"""Dicts whose keys go together share bundles, and remain the same features."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import _native
from trellis.compat.sklearn_crfsuite import CRF
from trellis.features import AttributeIndex, GivenExtractor

Dicts = list[list[dict[str, Any]]]
TEXTS = st.sampled_from(["a", "b", "c", "a long text", "é"])
TOKENS = st.fixed_dictionaries(
    {}, optional={key: TEXTS if key in "xyz" else st.booleans() for key in "xyzuvw"} | {"x:y": TEXTS, "n": st.just(1)}
)


def described(words: list[str]) -> dict[str, Any]:
    """Features that follow from one word, and some that follow from the next."""
    word, following = words
    own = {"word": word, "end": word[-2:], "short": len(word) < 3, "begin": word[:1]}
    return own | {"+1 word": following, "+1 end": following[-2:], "+1 begin": following[:1]}


def text(tokens: int, words: int, seed: int = 0) -> Dicts:
    """Sentences of ten words."""
    chance = random.Random(seed)
    known = ["".join(chance.choices("abcde", k=chance.randint(1, 8))) for _ in range(words)]
    chosen = chance.choices(known, k=tokens + 1)
    dicts = [described(chosen[i : i + 2]) for i in range(tokens)]
    return [dicts[i : i + 10] for i in range(0, tokens, 10)]


def compiled(sentences: Dicts) -> tuple[_native.Dataset, AttributeIndex]:
    index = AttributeIndex()
    return GivenExtractor().compile(sentences, index, grow=True), index


def attributes(data: _native.Dataset) -> list[list[tuple[int, float]]]:
    return [sorted(data.token_attributes(n)) for n in range(data.tokens)]


def entries(data: _native.Dataset) -> int:
    """How many features the bundles have, and the tokens bundles."""
    _, token_bundles, _, found, *_ = data.arrays()
    return len(token_bundles) + len(found)


@given(st.lists(TOKENS, min_size=1, max_size=4), st.integers(0, 2**32))
def test_tokens_keep_their_features(kinds: list[dict[str, Any]], seed: int) -> None:
    chance = random.Random(seed)
    sentences = [[dict(chance.choice(kinds)) for _ in range(chance.randint(0, 9))] for _ in range(9)]
    data, _ = compiled(sentences)
    before, offsets = attributes(data), data.offsets.copy()
    data.share_bundles()
    assert attributes(data) == before
    np.testing.assert_array_equal(data.offsets, offsets)


def test_words_that_occur_often_are_stored_once() -> None:
    data, _ = compiled(text(5000, words=200))
    before, count = attributes(data), entries(data)
    assert data.share_bundles()
    assert attributes(data) == before
    assert entries(data) < 0.5 * count
    assert not data.share_bundles()  # they are shared already


def test_a_key_that_few_tokens_have_does_not_part_the_others() -> None:
    sentences = text(5000, words=200)
    for sentence in sentences:
        sentence[0] = {"first": True, **sentence[0]}
        sentence[-1] = dict(sorted(sentence[-1].items()), number=sentence[0]["word"])
    data, _ = compiled(sentences)
    before, count = attributes(data), entries(data)
    assert data.share_bundles()
    assert attributes(data) == before
    assert entries(data) < 0.6 * count


@pytest.mark.parametrize(
    "sentences",
    [
        [],
        [[]],
        [[{}]],
        text(300, words=300),
        [[["a", "b"]] * 50],
        [[{"a": 0.5, "b": "c"}] * 50],
        [[{"a": "b", "c": {"d": "e"}}] * 50],
        [[{f"key {i}": "x" for i in range(100)}] * 50],
    ],
    ids=["nothing", "no token", "no feature", "rare words", "lists", "values", "nested", "many keys"],
)
def test_others_stay_as_they_are(sentences: Any) -> None:
    data, _ = compiled(sentences)
    before = [array.tolist() for array in data.arrays()]
    assert not data.share_bundles()
    assert [array.tolist() for array in data.arrays()] == before


def test_a_model_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X = text(3000, words=150, seed=1)
    y = [["long" if len(token["word"]) > 4 else token["begin"] for token in sentence] for sentence in X]
    shared = []
    bundle = _native.Dataset.share_bundles
    found = []
    for share in (lambda data: shared.append(bundle(data)), lambda data: shared.append(False)):
        monkeypatch.setattr(_native.Dataset, "share_bundles", share)
        model = CRF(c1=0.05, c2=0.1, max_iterations=25).fit(X, y)
        found.append((model.predict_marginals(X[:20]), model.training_log_.last_iteration["loss"]))
    assert shared == [True, False]
    (one, loss), (other, same) = found
    assert loss == pytest.approx(same, rel=1e-9)
    for left, right in zip(one, other, strict=True):
        for a, b in zip(left, right, strict=True):
            assert a == pytest.approx(b, abs=1e-6)
