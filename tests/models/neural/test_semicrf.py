"""What a semi-Markov head has of its own; that it keeps the contract is shown with those of the other heads."""

from __future__ import annotations

import pytest

from tests.cli.conftest import sentences
from trellis.errors import ConfigError
from trellis.models import NeuralTagger
from trellis.tags import validate_tags
from trellis.text import Sentence

SMALL = {
    "encoder": {"hidden": 16, "words": {"size": 8}, "characters": {"kind": "none"}},
    "training": {"epochs": 40, "batch_size": 2, "learning_rate": 0.02},
}


def test_the_longest_span_is_learned_and_drawn_labels_are_legal() -> None:
    tagger = NeuralTagger(head="semicrf", boundaries=2, **SMALL).fit(sentences(), dev=sentences()[:3])
    assert tagger.evaluate(sentences()).micro.f1 > 0.9
    assert tagger.settings_.longest == 3
    drawn = tagger.posterior([sentence.tokens for sentence in sentences()]).sample(3, seed=1)[0]
    assert all(not list(validate_tags(path, tagger.tagset_.scheme)) for path in drawn)


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
