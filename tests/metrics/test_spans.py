from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import seqeval.metrics as seqeval_metrics
import seqeval.scheme as seqeval_scheme
from hypothesis import given
from hypothesis import strategies as st

from tests.tags.strategies import SPAN_SCHEMES, any_tags, labels_of, relaxed, spans
from trellis.errors import DataError, TagError
from trellis.metrics import entity_counts, entity_scores
from trellis.tags import Scheme, Style, spans_from_sequences, tags_from_spans

# IOE1 is left to trellis.compat.seqeval: seqeval misses legal spans there.
SEQEVAL = {"IOB1": Scheme.IOB1, "IOB2": Scheme.IOB2, "IOE2": Scheme.IOE2, "IOBES": Scheme.BIOES, "BILOU": Scheme.BILOU}


def pairs(scheme):
    """Gold and predicted tags with the letters of a scheme, legal or not."""
    other = st.sampled_from(labels_of(scheme))
    guess = {True: lambda tag: st.just(tag), False: lambda _: other}
    sentence = any_tags(scheme).flatmap(
        lambda tags: st.tuples(
            st.just(tags), st.tuples(*(st.booleans().flatmap(lambda keep, t=t: guess[keep](t)) for t in tags)).map(list)
        )
    )
    return st.lists(sentence, min_size=1, max_size=4).map(lambda rows: tuple(map(list, zip(*rows, strict=True))))


def report(gold, predicted, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return seqeval_metrics.classification_report(gold, predicted, output_dict=True, zero_division=0, **options)


def assert_same(scores, expected):
    rows = {"micro avg": scores.micro, "macro avg": scores.macro, "weighted avg": scores.weighted, **scores.types}
    if not scores.types:
        rows.pop("macro avg")  # seqeval: the mean of nothing, NaN
        expected = {name: row for name, row in expected.items() if name != "macro avg"}
    assert rows.keys() == expected.keys()
    for name, row in expected.items():
        found = rows[name].precision, rows[name].recall, rows[name].f1, rows[name].gold
        assert found == pytest.approx(tuple(row.values()), abs=1e-15), name


@pytest.mark.parametrize("scheme", [Scheme.IOB2, Scheme.IOE2, Scheme.BIOES], ids=lambda scheme: scheme.value)
@relaxed
@given(data=st.data())
def test_lenient_scores_are_seqevals_default(scheme, data):
    gold, predicted = data.draw(pairs(scheme))
    for given_scheme in (scheme, None):
        assert_same(entity_scores(gold, predicted, scheme=given_scheme), report(gold, predicted))
    if any(gold):
        found = entity_scores(gold, predicted).accuracy
        assert found == seqeval_metrics.accuracy_score(gold, predicted)


@pytest.mark.parametrize("name", SEQEVAL)
@relaxed
@given(data=st.data())
def test_strict_scores_are_seqevals_strict(name, data):
    gold, predicted = data.draw(pairs(SEQEVAL[name]))
    expected = report(gold, predicted, mode="strict", scheme=getattr(seqeval_scheme, name))
    assert_same(entity_scores(gold, predicted, scheme=SEQEVAL[name], strict=True), expected)


@relaxed
@given(st.sampled_from(SPAN_SCHEMES).flatmap(lambda s: st.tuples(st.just(s), pairs(s))), st.booleans())
def test_counts_are_those_of_sets_of_spans(case, strict):
    scheme, (gold, predicted) = case
    sides = [spans_from_sequences(side, scheme, strict=strict) for side in (gold, predicted)]
    expected = [(len({*a} & {*b}), len(b), len(a)) for a, b in zip(*sides, strict=True)]
    found = entity_counts(gold, predicted, scheme=scheme, strict=strict)
    np.testing.assert_array_equal(found, expected)
    micro = entity_scores(gold, predicted, scheme=scheme, strict=strict).micro
    assert (micro.correct, micro.predicted, micro.gold) == tuple(np.sum(expected, axis=0))


@relaxed
@given(st.lists(st.tuples(spans(), st.sampled_from(Style)), min_size=1, max_size=1), st.sampled_from(SPAN_SCHEMES))
def test_a_perfect_prediction_scores_one_in_every_scheme_and_style(cases, scheme):
    for case, style in cases:
        tags = [tags_from_spans(*case, scheme, style=style)]
        for strict in (False, True):
            scores = entity_scores(tags, [list(tags[0])], scheme=scheme, style=style, strict=strict)
            assert scores.micro.f1 == (1.0 if scores.micro.gold else 0.0)
            assert {score.f1 for score in scores.types.values()} <= {1.0}


def test_conlleval_counts_by_hand():
    gold = [["B-PER", "I-PER", "O", "B-LOC", "O"], ["B-ORG", "O"]]
    predicted = [["B-PER", "O", "O", "B-LOC", "I-ORG"], ["I-ORG", "O"]]
    scores = entity_scores(gold, predicted)
    # Found: PER(0-0) wrong, LOC(3-3) right, ORG(4-4) wrong, ORG(0-0) right; there were PER, LOC, ORG.
    assert (scores.micro.correct, scores.micro.predicted, scores.micro.gold) == (2, 4, 3)
    assert scores.micro.precision == 0.5
    assert scores.micro.recall == pytest.approx(2 / 3)
    assert scores.micro.f1 == pytest.approx(4 / 7)
    assert scores.types["ORG"].precision == 0.5
    assert scores.macro.f1 == pytest.approx((0 + 1 + 2 / 3) / 3)
    assert scores.accuracy == pytest.approx(4 / 7)
    assert (scores.tokens, scores.sentences) == (7, 2)


def test_one_token_spans_of_ioe1_before_their_like_count_here_and_not_in_seqeval():
    tags = [["E-A", "I-A", "O"]]
    assert entity_scores(tags, tags, scheme=Scheme.IOE1, strict=True).micro.gold == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = seqeval_scheme.Entities(tags, seqeval_scheme.IOE1).entities
    assert len(theirs[0]) == 1


def test_bare_labels_are_listed_as_underscore_and_tables_show_everything():
    scores = entity_scores([["B", "I"]], [["B", "O"]])
    assert list(scores.types) == ["_"]
    assert "| _ " in scores.to_markdown()
    assert scores.to_rich().row_count == 4
    assert json.loads(json.dumps(scores.to_dict()))["micro"]["f1"] == 0.0


def test_nothing_scores_zero():
    for gold in ([], [[]], [["O"]]):
        scores = entity_scores(gold, gold)
        assert (scores.micro.f1, scores.macro.f1, scores.weighted.f1, scores.types) == (0.0, 0.0, 0.0, {})
    assert entity_counts([], []).shape == (0, 3)


def test_misalignment_is_named():
    with pytest.raises(DataError, match="gold has 1 sentence, predicted has 2"):
        entity_scores([["O"]], [["O"], ["O"]])
    with pytest.raises(DataError, match="sentence 1 has 2 gold tags and 1 predicted"):
        entity_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(TagError, match="needs a scheme"):
        entity_scores([["O"]], [["O"]], strict=True)
