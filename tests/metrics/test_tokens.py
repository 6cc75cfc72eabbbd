from __future__ import annotations

import json

import numpy as np
import pytest

from trellis.errors import DataError
from trellis.metrics import tagging_scores, token_counts, tokens

GOLD = [["DET", "NOUN", "VERB"], ["NOUN", "VERB"]]
GUESS = [["DET", "NOUN", "NOUN"], ["NOUN", "VERB"]]
TOKENS = [["the", "dog", "barks"], ["dogs", "bark"]]


def test_accuracy_overall_known_and_unknown_by_hand():
    scores = tagging_scores(GOLD, GUESS, tokens=TOKENS, vocabulary={"the", "dog", "bark"})
    assert scores.accuracy == 4 / 5
    assert scores.known_accuracy == 3 / 3
    assert scores.unknown_accuracy == 1 / 2
    assert scores.unknown_tokens == 2
    assert scores.sentence_accuracy == 1 / 2
    assert scores.tokens == 5


def test_each_tag_and_the_confusions():
    scores = tagging_scores(GOLD, GUESS)
    assert scores.tags["NOUN"].precision == 2 / 3
    assert scores.tags["NOUN"].recall == 1.0
    assert scores.tags["VERB"].recall == 1 / 2
    assert scores.confusion.labels == ("DET", "NOUN", "VERB")
    assert scores.confusion.counts == ((1, 0, 0), (0, 2, 0), (0, 1, 1))
    assert scores.confusion.worst() == [("VERB", "NOUN", 1)]
    assert scores.known_accuracy is None
    assert "VERB" in scores.confusion.to_markdown()
    assert scores.to_rich().row_count == 3
    json.dumps(scores.to_dict())


def test_the_most_frequent_confusions_come_first():
    confusion = tagging_scores([["A", "A", "B", "B", "C"]], [["B", "C", "C", "C", "C"]]).confusion
    assert confusion.worst() == [("B", "C", 2), ("A", "B", 1), ("A", "C", 1)]
    assert confusion.worst(1) == [("B", "C", 2)]


def test_counts_by_sentence_and_nothing_at_all():
    np.testing.assert_array_equal(token_counts(GOLD, GUESS), [[2, 3], [2, 2]])
    assert tagging_scores([], []).accuracy == 0.0
    assert token_counts([], []).shape == (0, 2)
    assert tagging_scores(GOLD, GOLD, tokens=TOKENS, vocabulary=set()).known_accuracy is None


def test_misalignment_is_named():
    with pytest.raises(DataError, match="sentence 0 has 1 gold tags and 2 predicted"):
        tagging_scores([["A"]], [["A", "B"]])
    with pytest.raises(DataError, match="tokens and gold tags differ in length"):
        tagging_scores([["A"]], [["A"]], tokens=[["a", "b"]], vocabulary=set())


def test_of_many_labels_the_most_frequent_are_compared(monkeypatch):
    monkeypatch.setattr(tokens, "_MOST_LABELS", 2)
    scores = tagging_scores(GOLD, GUESS)
    assert scores.confusion.labels == ("NOUN", "VERB")
    assert scores.confusion.counts == ((2, 0), (1, 1))
    assert scores.tags == tagging_scores(GOLD, GUESS).tags
    assert scores.tags["DET"].recall == 1.0


def test_scores_of_as_many_labels_as_tokens_take_no_table_of_all():
    tags = [f"t{i}" for i in range(100_000)]
    assert tagging_scores([tags], [tags[::-1]]).accuracy == 0.0
