"""Scores of words with tags: against sets of spans, the scores of entities, and the scores of words."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from trellis.corpus import to_characters
from trellis.errors import DataError
from trellis.metrics import entity_scores, joint_counts, joint_scores, segmentation_scores
from trellis.text import Sentence

TEXT = "ababbaab"


@st.composite
def tagged_words(draw: st.DrawFn) -> list[tuple[str, str]]:
    places = sorted({0, *draw(st.sets(st.integers(1, len(TEXT) - 1))), len(TEXT)})
    words = [TEXT[a:b] for a, b in pairwise(places)]
    return [(word, draw(st.sampled_from("NV"))) for word in words]


pairs = st.lists(st.tuples(tagged_words(), tagged_words()), min_size=1, max_size=3)


@given(pairs)
def test_joint_scores_are_those_of_entities_over_characters(both: list) -> None:
    gold, guess = zip(*both, strict=True)
    scores = joint_scores(gold, guess)
    spelled = [[to_characters(Sentence(*zip(*own, strict=True))).tags for own in side] for side in (gold, guess)]
    wanted = entity_scores(*spelled)
    assert scores.tagged == wanted.micro
    assert scores.tags == wanted.types
    assert scores.tagged.correct <= scores.words.words.correct
    words = ([[word for word, _ in own] for own in side] for side in (gold, guess))
    assert scores.words == segmentation_scores(*words)
    assert joint_counts(gold, guess).sum(axis=0).tolist() == [
        scores.tagged.correct,
        scores.tagged.predicted,
        scores.tagged.gold,
    ]


def test_the_table_has_words_both_together_and_each_tag() -> None:
    gold, guess = [[("我们", "PRON"), ("爱", "VERB")]], [[("我们", "PRON"), ("爱", "NOUN")]]
    report = joint_scores(gold, guess, vocabulary={"爱"})
    rows = {row[0]: row[1:4] for row in report.grid().rows}
    assert rows["segmentation"] == ("100.00", "100.00", "100.00")
    assert rows["joint"] == ("50.00", "50.00", "50.00")
    assert list(rows) == ["segmentation", "in vocabulary", "out of vocabulary", "joint", "NOUN", "PRON", "VERB"]
    assert report.to_dict()["tagged"]["f1"] == 0.5


def test_other_texts_are_refused() -> None:
    for compare in (joint_scores, joint_counts):
        with pytest.raises(DataError, match="sentence 0: gold and predicted words spell different texts"):
            compare([[("a", "N")]], [[("b", "N")]])
        with pytest.raises(DataError, match="expected the same number"):
            compare([[("a", "N")]], [])
    assert joint_scores([], []).tagged.f1 == 0.0
