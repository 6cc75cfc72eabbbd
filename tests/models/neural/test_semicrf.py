"""A tagger with a semi-Markov head keeps the contract: legal tags, exact probabilities, the same after saving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trellis
from tests.cli.conftest import sentences
from trellis.errors import ConfigError
from trellis.models import NeuralTagger
from trellis.tags import spans_from_tags, validate_tags
from trellis.text import Sentence

SMALL = {
    "encoder": {"hidden": 16, "words": {"size": 8}, "characters": {"kind": "none"}},
    "training": {"epochs": 40, "batch_size": 2, "learning_rate": 0.02},
}


@pytest.fixture(scope="module")
def tagger() -> NeuralTagger:
    return NeuralTagger(head="semicrf", boundaries=2, **SMALL).fit(sentences(), dev=sentences()[:3])


def test_it_learns_spans_and_answers_as_every_tagger(tagger: NeuralTagger, tmp_path: Path) -> None:
    X = [sentence.tokens for sentence in sentences()]
    assert tagger.evaluate(sentences()).micro.f1 > 0.9
    assert tagger.settings_.longest == 3
    posterior = tagger.posterior([*X, []])
    for own, marginals in zip(posterior.best(), posterior.marginals(), strict=True):
        assert not list(validate_tags(own, tagger.tagset_.scheme))
        np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=1e-9)
    for best in tagger.kbest(X, 3):
        assert len({tuple(one.tags) for one in best}) == len(best)
    drawn = posterior.sample(3, seed=1)[0]
    assert all(not list(validate_tags(path, tagger.tagset_.scheme)) for path in drawn)
    tagger.save(tmp_path / "model.safetensors")
    again = trellis.load(tmp_path / "model.safetensors")
    assert again.predict(X) == tagger.predict(X)
    for one, other in zip(again.marginals(X), tagger.marginals(X), strict=True):
        assert np.array_equal(one, other)
    assert [tagger.predict([x])[0] for x in X] == tagger.predict(X)


def test_known_labels_and_spans_are_exact(tagger: NeuralTagger) -> None:
    tokens = ["Anna", "Smith", "lives"]
    known = [[None, None, "B-LOC"]]
    assert tagger.predict([tokens], known=known)[0][2] == "B-LOC"
    spans = tagger.span_probabilities([tokens])[0]
    every = tagger.kbest([tokens], 10_000)[0]
    assert sum(one.probability for one in every) == pytest.approx(1.0, abs=1e-9)
    for span, probability in spans:
        having = (one for one in every if span in spans_from_tags(one.tags, tagger.tagset_.scheme))
        wanted = sum(one.probability for one in having)
        assert probability == pytest.approx(wanted, abs=1e-9)


def test_partial_labels_are_learned() -> None:
    data = sentences()
    labels = [[tag if i % 3 else None for i, tag in enumerate(s.tags)] for s in data]
    fitted = NeuralTagger(head="semicrf", longest=4, **SMALL).fit([s.tokens for s in data], labels)
    assert fitted.settings_.longest == 4


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"edges": 4}, "edges = 4 needs head = crf"),
        ({"constraints": False}, "needs constraints = true"),
        ({"label_weights": {"O": 0.5}}, "no label_weights"),
        ({"longest": 1000}, "longest must be at most 64"),
        ({"longest": 2}, "longest must be at least 3"),
    ],
)
def test_settings_that_do_not_fit_are_refused(options: dict, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        NeuralTagger(head="semicrf", **options)


def test_labels_that_do_not_tell_segments_are_refused() -> None:
    with pytest.raises(ConfigError, match="learns in bioes"):
        NeuralTagger(head="semicrf", learn_scheme="bio", **SMALL).fit(sentences())
    with pytest.raises(ConfigError, match="depend on its neighbours"):
        NeuralTagger(head="semicrf", scheme="iob1", **SMALL).fit(
            [Sentence(["a", "b", "c"], ["I-A", "B-A", "O"]), Sentence(["a"], ["I-A"])]
        )
