"""Which sentences are worth labelling: what the measures count, by enumeration, and that no two are of a kind."""

from itertools import product

import numpy as np
import pytest

from tests.cli.conftest import sentences
from trellis import chain
from trellis.errors import ConfigError
from trellis.models import CRF, HMM, Posterior
from trellis.models.selection import MEASURES, expected_errors, ranked, select, uncertainty
from trellis.tags import Scheme, TagSet, spans_from_tags


def random_posterior(scheme: str, labels: tuple[str, ...], lengths: list[int], seed: int = 0) -> Posterior:
    rng = np.random.default_rng(seed)
    tags = TagSet(labels, Scheme.parse(scheme))
    legal = tags.allowed_transitions()
    scores = chain.ChainScores(
        rng.normal(size=(sum(lengths), len(labels))) * 2,
        lengths,
        np.where(legal.transitions, rng.normal(size=(len(labels),) * 2), -np.inf),
        np.where(legal.start, 0.0, -np.inf),
        np.where(legal.end, 0.0, -np.inf),
    )
    return Posterior(scores, tags, inputs=[[str(i) for i in range(n)] for n in lengths])


@pytest.mark.parametrize(
    ("scheme", "labels"),
    [("IOB2", ("O", "B-A", "I-A", "B-B", "I-B")), ("BIOES", ("O", "B-A", "I-A", "E-A", "S-A")), ("plain", ("X", "Y"))],
)
def test_expected_errors_are_those_of_every_labelling(scheme: str, labels: tuple[str, ...]) -> None:
    posterior = random_posterior(scheme, labels, [4, 1, 3])
    for i, expected in enumerate(expected_errors(posterior)):
        one = posterior.part(i)
        found = {own.span for own in one.spans()[0]}
        total = 0.0
        for path in product(labels, repeat=len(one.inputs[0])):
            p = float(one.probabilities([path])[0])
            true = set(
                spans_from_tags(path, Scheme.parse(scheme))
                if scheme != "plain"
                else [(t, t + 1, tag) for t, tag in enumerate(path)]
            )
            total += p * len({tuple(span) for span in true} ^ {tuple(span) for span in found})
        assert expected == pytest.approx(total)


def test_measures_are_zero_if_there_is_nothing_to_be_unsure_of() -> None:
    posterior = random_posterior("IOB2", ("O", "B-A", "I-A"), [8, 0, 2])
    assert uncertainty(posterior, "entropy")[0] == pytest.approx(posterior.entropy()[0] / 8**0.5)
    best = posterior.kbest(2)
    ratio = best[2][1].probability / best[2][0].probability
    assert uncertainty(posterior, "margin")[2] == pytest.approx(ratio / 2)  # as if it had four tokens
    for by in MEASURES:
        assert uncertainty(posterior, by)[1] == 0.0


def test_no_two_of_a_kind_unless_nothing_else_is_left() -> None:
    tokens = [["a", "b", "c"], ["a", "b", "c", "the"], ["x", "y"], ["the"]]
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    assert ranked(scores, tokens, 2) == [0, 2]
    assert ranked(scores, tokens, 2, diverse=False) == [0, 1]
    assert sorted(ranked(scores, tokens, 9)) == [0, 1, 2, 3]
    assert ranked(np.empty(0), [], 3) == []


@pytest.mark.parametrize("by", MEASURES)
def test_a_family_of_any_kind_selects(by: str) -> None:
    pool = [["Anna", "met", "Paul"], ["Quux", "Zork", "frobs"], ["It", "rained", "."]]
    for model in (CRF(features="ner").fit(sentences()), HMM().fit(sentences())):
        assert sorted(select(model, pool, 3, by=by)) == [0, 1, 2]


def test_an_unknown_measure_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown measure 'error'.* did you mean 'errors'"):
        select(HMM().fit(sentences()), [["a"]], 1, by="error")
