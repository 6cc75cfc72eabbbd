"""What is worth labelling next: measures by enumeration, copies left out, sentences of a kind put off."""

import itertools

import numpy as np
import pytest

import trellis
from trellis import chain
from trellis.errors import ConfigError, ModelError
from trellis.models import CRF, HMM, Posterior
from trellis.models.selection import MEASURES, expected_errors, margin
from trellis.tags import Scheme, TagSet, spans_from_tags
from trellis.text import Sentence

TRAIN = [
    Sentence(["Ada", "lives", "in", "Rome"], ["B-PER", "O", "O", "B-LOC"]),
    Sentence(["Bo", "Li", "left", "Oslo"], ["B-PER", "I-PER", "O", "B-LOC"]),
]


def posterior_of(labels: list[str], scheme: Scheme, T: int = 4, seed: int = 0) -> Posterior:
    random, tags = np.random.default_rng(seed), TagSet(tuple(labels), scheme)
    legal, L = tags.allowed_transitions(), len(labels)
    scores = chain.ChainScores(
        random.normal(size=(T, L)),
        [T],
        np.where(legal.transitions, random.normal(size=(L, L)), -np.inf),
        np.where(legal.start, 0.0, -np.inf),
        np.where(legal.end, 0.0, -np.inf),
    )
    return Posterior(scores, tags)


SCHEMES = [
    (["O", "B-X", "I-X", "B-Y", "I-Y"], Scheme.IOB2),
    (["O", "I-X", "E-X"], Scheme.IOE2),
    (["O", "B-X", "I-X", "E-X", "S-X"], Scheme.BIOES),
    (["O", "B-X", "I-X", "L-X", "U-X"], Scheme.BILOU),
    (["B", "M", "E", "S"], Scheme.BMES),
]


@pytest.mark.parametrize(("labels", "scheme"), SCHEMES)
def test_expected_errors_are_those_of_an_enumeration(labels: list[str], scheme: Scheme) -> None:
    posterior = posterior_of(labels, scheme)
    best, expected = set(spans_from_tags(posterior.best()[0], scheme)), 0.0
    for path in itertools.product(labels, repeat=4):
        p = float(posterior.probabilities([path])[0])
        if p:
            expected += p * len(best ^ set(spans_from_tags(path, scheme)))
    np.testing.assert_allclose(expected_errors(posterior), [expected])


def test_without_spans_the_expected_errors_are_wrong_labels() -> None:
    posterior = posterior_of(["A", "B", "C"], Scheme.PLAIN)
    best = posterior.best()[0]
    paths = list(itertools.product("ABC", repeat=4))
    wrong = sum(
        float(posterior.probabilities([p])[0]) * sum(a != b for a, b in zip(best, p, strict=True)) for p in paths
    )
    np.testing.assert_allclose(expected_errors(posterior), [wrong])


def test_the_margin_is_that_of_the_two_best_labellings() -> None:
    posterior = posterior_of(["A", "B"], Scheme.PLAIN)
    first, second = sorted(
        (float(posterior.probabilities([path])[0]) for path in itertools.product("AB", repeat=4)), reverse=True
    )[:2]
    np.testing.assert_allclose(margin(posterior), [1 - (first - second)])
    np.testing.assert_allclose(margin(posterior_of(["A"], Scheme.PLAIN)), [0.0], atol=1e-12)


def test_a_scheme_that_hides_where_spans_begin_is_refused() -> None:
    with pytest.raises(ModelError, match="IOB1 does not: choose entropy or margin"):
        expected_errors(posterior_of(["O", "I-X", "B-X"], Scheme.IOB1))


@pytest.fixture(scope="module")
def tagger() -> CRF:
    return CRF(features="ner").fit(TRAIN)


@pytest.mark.parametrize("by", MEASURES)
def test_the_least_certain_come_first_per_token(tagger: CRF, by: str) -> None:
    pool = ["Ada lives in Rome", "Zed Qux Vor", "Bo Li left Oslo", "Someone somewhere did whatever else"]
    found = trellis.select(tagger, pool, 4, by=by, diversity=0.0)
    values = MEASURES[by](tagger.posterior([text.split() for text in pool])) / [len(text.split()) for text in pool]
    assert [one.index for one in found] == np.argsort(-values, kind="stable").tolist()
    np.testing.assert_allclose([one.value for one in found], np.sort(values)[::-1])


def test_a_copy_is_never_taken_and_one_of_a_kind_is_put_off(tagger: CRF) -> None:
    pool = [s.split() for s in ("Zed Qux Vor", "zed Qux Vor", "Zed Qux Vor", "Someone left", "", "Ada lives in Rome")]
    everything = trellis.select(tagger, pool, 10, by="errors", diversity=1.0)
    assert len(everything) == 4
    assert {one.index for one in everything} == {0, 1, 3, 5}
    assert everything[-1].index == 1
    assert everything[-1].similarity == pytest.approx(1.0)
    assert everything[0].similarity == 0.0


def test_nothing_to_choose_from_gives_nothing(tagger: CRF) -> None:
    assert trellis.select(tagger, [], 3) == []
    assert trellis.select(tagger, [[], []], 3) == []


def test_it_works_for_other_families() -> None:
    assert len(trellis.select(HMM().fit(TRAIN), [["Ada"], ["Rome", "left"]], 1)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be an integer >= 1, got 0"),
        ({"n": True}, "n must be an integer >= 1, got True"),
        ({"by": "luck"}, "by must be one of errors, entropy, margin, got 'luck'"),
        ({"diversity": 2.0}, r"diversity must be in 0..1, got 2.0"),
        ({"diversity": float("nan")}, r"diversity must be in 0..1, got nan"),
    ],
)
def test_impossible_wishes_are_named(tagger: CRF, options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trellis.select(tagger, [["a"]], **{"n": 1} | options)
