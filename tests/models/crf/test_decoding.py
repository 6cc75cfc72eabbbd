"""Labels that are found without a posterior are those of the posterior, and so are the errors."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.models.contract import TRAIN
from trellis import _native, chain
from trellis.errors import DataError, NoPathError
from trellis.models import CRF
from trellis.text import Sentence

ODD = ["é", "😀", "\x00", "", "Ｓｍｉｔｈ", "中文", "\ud800", *("x" * n for n in range(2, 36))]
TEMPLATES = [
    {"features": "ner"},
    {"features": "ner", "precision": "double"},
    {"features": "ner", "constraints": False},
    {"features": "ner", "learn_scheme": "IOBES"},
    {"features": "ner", "order": 2},
    {"features": "pos", "fold_width": False},
    {"features": "seg"},
]


def given(sentence):
    """Ready features of a sentence, of all kinds of values."""
    return [
        {"word": w, "long": w * 3, "bias": 1.0, "title": w.istitle(), "size": len(w) / 7, "not": False}
        for w in sentence.tokens
    ]


@pytest.fixture(params=TEMPLATES, ids=str)
def tagger(request):
    return CRF(**request.param, c2=0.05).fit(TRAIN)


@pytest.fixture(scope="module")
def of_dicts():
    return CRF(features="given", c2=0.05).fit(list(map(given, TRAIN)), [one.tags for one in TRAIN])


def test_they_are_those_of_the_posterior(tagger):
    odd = [[*one.tokens, *ODD] for one in TRAIN]
    inputs = [*TRAIN, *odd, [], tuple(ODD), Sentence(ODD), *([word] for word in ODD)]
    assert tagger.predict(inputs) == tagger.posterior(inputs).best()
    assert tagger.predict(inputs, lexicon=None) == [tagger.predict([one])[0] for one in inputs]
    assert tagger.predict([]) == []


def test_those_of_ready_features_are(of_dicts):
    inputs = [*map(given, TRAIN), [], given(Sentence(ODD[:6]))]
    assert of_dicts.predict(inputs) == of_dicts.posterior(inputs).best()


def test_no_posterior_is_made(monkeypatch, of_dicts):
    tagger = CRF(features="ner", c2=0.05).fit(TRAIN)
    monkeypatch.setattr(CRF, "_scores", None)
    assert tagger.predict(TRAIN) == [list(one.tags) for one in TRAIN]
    assert len(of_dicts.predict(list(map(given, TRAIN)))) == len(TRAIN)


def test_blocks_are_joined(monkeypatch):
    tagger = CRF(features="ner", c2=0.05).fit(TRAIN)
    expected = tagger.predict(TRAIN)
    monkeypatch.setattr("trellis.models.tagger._BLOCK", 2)
    assert tagger.predict(TRAIN) == expected


def test_the_labels_are_of_the_last_training():
    tagger = CRF(features="ner", c2=0.05).fit(TRAIN)
    tagger.predict(TRAIN)
    other = [Sentence(one.tokens, [tag.replace("PER", "MAN") for tag in one.tags]) for one in TRAIN]
    assert tagger.fit(other).predict(other) == [list(one.tags) for one in other]


@pytest.mark.parametrize("features", ["ner", "given"])
def test_what_cannot_be_labelled_is_an_error_that_names_the_sentence(features):
    inputs = TRAIN if features == "ner" else list(map(given, TRAIN))
    tagger = CRF(features=features, c2=0.05).fit(inputs, [one.tags for one in TRAIN])
    p = tagger.parameters_
    tagger.parameters_ = replace(p, end=np.full_like(p.end, -np.inf))
    for ask in (tagger.predict, lambda X: tagger.posterior(X).best()):
        with pytest.raises(NoPathError, match=r"sentence 1\b"):
            ask([[], *inputs[:1]])


def test_what_is_no_token_is_named():
    tagger = CRF(features="ner", c2=0.05).fit(TRAIN)
    for wrong in (3, b"x", None):
        with pytest.raises(DataError, match="sentence 1, position 2: token must be a string, got"):
            tagger.predict([["a"], ["a", "b", wrong]])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_at_once_get_what_one_gets(threads):
    tagger = CRF(features="ner", c2=0.05).fit(TRAIN)
    parts = [[[*one.tokens, *ODD, f"word{i}"] for one in TRAIN] * 4 for i in range(24)]
    expected = [tagger.posterior(part).best() for part in parts]
    before = chain.get_num_threads()
    chain.set_num_threads(threads)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(tagger.predict, parts * 3)) == expected * 3
    finally:
        chain.set_num_threads(before)


def test_a_chain_of_other_labels_is_refused(of_dicts):
    with pytest.raises(ValueError, match="L starts"):
        _native.Labeller(["a", "b"], np.zeros((2, 2)), np.zeros(2), np.zeros(3))
    other = _native.Labeller(["a", "b"], np.zeros((2, 2)), np.zeros(2), np.zeros(2))
    data = of_dicts._extractor().compile([given(TRAIN[0])], of_dicts.parameters_.index, grow=False)
    with pytest.raises(ValueError, match="weights of other labels"):
        other.best(data, of_dicts.parameters_.ready)
    tagger = CRF(features="ner", c2=0.05).fit(TRAIN)
    tagger.predict(TRAIN)
    with pytest.raises(ValueError, match="weights of other labels"):
        tagger._scorer[1].best([[["a"]]], ["token"], other)
