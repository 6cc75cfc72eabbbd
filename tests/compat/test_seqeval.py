"""The same answers as seqeval 1.2.2, on legal tags and on nonsense, in both modes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import seqeval.metrics as theirs
import seqeval.metrics.sequence_labeling as their_labeling
import seqeval.metrics.v1 as their_v1
import seqeval.scheme as their_scheme
from hypothesis import example, given, settings
from hypothesis import strategies as st

import trellis.compat.seqeval.metrics as ours
import trellis.compat.seqeval.metrics.sequence_labeling as our_labeling
import trellis.compat.seqeval.scheme as our_scheme
from trellis.compat.seqeval.metrics import v1 as our_v1
from trellis.errors import ConfigError, DataError, TagError

LETTERS = {"IOB1": "IOB", "IOB2": "IOB", "IOE1": "IOE", "IOE2": "IOE", "IOBES": "IOBES", "BILOU": "BILOU"}
AVERAGES = (None, "micro", "macro", "weighted")
SCORES = ("f1_score", "precision_score", "recall_score")


def corpora(letters, kinds, *, suffix=False, odd=()):
    """Gold and predicted tags: any letters in any order, agreeing often enough to score."""
    typed = [f"{kind}-{letter}" if suffix else f"{letter}-{kind}" for letter in letters for kind in kinds]
    labels = st.sampled_from(["O", "O", *letters, *typed, *odd])

    def predictions(gold):
        guesses = [st.tuples(*(st.one_of(st.just(tag), labels) for tag in tags)).map(list) for tags in gold]
        return st.tuples(st.just(gold), st.tuples(*guesses).map(list))

    return st.lists(st.lists(labels, max_size=7), min_size=1, max_size=4).flatmap(predictions)


def calls(module, name, *args, **options):
    """The result and the categories of the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = getattr(module, name)(*args, **options)
    return result, {warning.category.__name__ for warning in caught}


def their_calls(module, name, *args, **options):
    """What seqeval says; its macro average of no types is NaN, ours is that of all spans, or ``zero_division``."""
    result, said = calls(module, name, *args, **options)
    if "RuntimeWarning" not in said:
        return result, said
    if options.get("output_dict"):
        return {**result, "macro avg": result["micro avg"]}, said
    assert options["average"] == "macro"
    micro = calls(module, name, *args, **{**options, "average": "micro"})[0]
    return micro, said if options.get("zero_division", "warn") == "warn" else said - {"RuntimeWarning"}


@pytest.mark.parametrize("scheme", [None, "IOB2"])
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("tags", [[[]], [[], []], [["O", "O"]]])
def test_the_macro_average_over_no_types_warns_as_seqeval_does(tags, name, scheme):
    for module, schemes in ((theirs, their_scheme), (ours, our_scheme)):
        options = {"mode": "strict", "scheme": getattr(schemes, scheme)} if scheme else {}
        assert calls(module, name, tags, tags, average="macro", **options)[1] == {"RuntimeWarning"}
        assert calls(module, name, tags, tags, average="micro", **options)[1] == {"UndefinedMetricWarning"}
    assert calls(ours, name, tags, tags, average="macro") == (0.0, {"RuntimeWarning"})
    assert calls(ours, name, tags, tags, average="macro", zero_division=1) == (1.0, set())


def assert_same_scores(gold, predicted, options, their_options):
    for name in SCORES:
        for average in AVERAGES:
            for zero_division in ("warn", 0, 1):
                extra = {"average": average, "zero_division": zero_division}
                expected, their_warnings = their_calls(theirs, name, gold, predicted, **their_options, **extra)
                found, our_warnings = calls(ours, name, gold, predicted, **options, **extra)
                np.testing.assert_array_equal(found, expected, err_msg=f"{name} {extra}")
                assert our_warnings == their_warnings, f"{name} {extra}"


def assert_same_reports(gold, predicted, options, their_options):
    expected = their_calls(theirs, "classification_report", gold, predicted, output_dict=True, **their_options)
    found = calls(ours, "classification_report", gold, predicted, output_dict=True, **options)
    assert found[1] == expected[1]
    assert list(found[0]) == list(expected[0])
    for row, figures in expected[0].items():
        assert list(found[0][row]) == list(figures)
        np.testing.assert_array_equal(list(found[0][row].values()), list(figures.values()))
    if len(expected[0]) > 3:  # seqeval fails on the text of a report without types
        for digits in (2, 4, 15):
            text = calls(theirs, "classification_report", gold, predicted, digits=digits, **their_options)[0]
            assert calls(ours, "classification_report", gold, predicted, digits=digits, **options)[0] == text


@settings(deadline=None, max_examples=60)
@given(st.booleans().flatmap(lambda suffix: st.tuples(st.just(suffix), default_corpora(suffix))))
@example((False, ([["O"], [".", "I"]], [["O"], ["B", "I"]])))  # a span that begins in the sentence before
@example((False, ([["B"], [".", "I"]], [["B"], ["O", "I"]])))
def test_default_mode_equals_seqeval_on_any_tags(case):
    suffix, (gold, predicted) = case
    assert_same_scores(gold, predicted, {"suffix": suffix}, {"suffix": suffix})
    assert_same_reports(gold, predicted, {"suffix": suffix}, {"suffix": suffix})


def default_corpora(suffix):
    odd = [".", "X", "NOUN", "BPER", "B--x", "x--B", "O-A", "A-O", "L-A", "A-U", "I-A-", "B-"]
    return corpora("BIES", ("A", "B-C"), suffix=suffix, odd=odd)


@pytest.mark.parametrize("name", LETTERS)
@settings(deadline=None, max_examples=30)
@given(data=st.data(), suffix=st.booleans())
def test_strict_mode_equals_seqeval_on_any_tags(name, data, suffix):
    odd = ["O-A"] if not suffix else ["A-O"]
    gold, predicted = data.draw(corpora(LETTERS[name], ("A", "-B-", "C-D"), suffix=suffix, odd=odd))
    options = {"mode": "strict", "suffix": suffix}
    mine = options | {"scheme": getattr(our_scheme, name)}
    theirs_ = options | {"scheme": getattr(their_scheme, name)}
    assert_same_scores(gold, predicted, mine, theirs_)
    assert_same_reports(gold, predicted, mine, theirs_)


@pytest.mark.parametrize("name", LETTERS)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_scheme_classes_find_the_same_entities(name, data):
    gold, _ = data.draw(corpora(LETTERS[name], ("A", "B")))
    mine, other = getattr(our_scheme, name), getattr(their_scheme, name)
    found = our_scheme.Entities(gold, mine)
    expected = their_scheme.Entities(gold, other)
    tuples = [[entity.to_tuple() for entity in entities] for entities in expected.entities]
    assert [[entity.to_tuple() for entity in entities] for entities in found.entities] == tuples
    assert found.unique_tags == expected.unique_tags
    assert {e.to_tuple() for e in found.filter("A")} == {e.to_tuple() for e in expected.filter("A")}
    assert repr(found.entities) == repr(expected.entities)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "E-B", "S", ".", "X-A"]), max_size=8))
@example(["B-A", "O", "X-A", "B-A", "O", "X", "E", "O"])  # two starts in a row, and two ends
def test_get_entities_of_flat_and_nested_lists(tags):
    for seq in (tags, [tags, tags]):
        expected, categories = calls(their_labeling, "get_entities", seq)
        assert calls(our_labeling, "get_entities", seq) == (expected, categories)


@settings(deadline=None)
@given(corpora("BI", ("A", "B")))
def test_token_figures(case):
    gold, predicted = case
    assert ours.performance_measure(gold, predicted) == theirs.performance_measure(gold, predicted)
    if any(gold):
        assert ours.accuracy_score(gold, predicted) == theirs.accuracy_score(gold, predicted)
        flat = [tag for tags in gold for tag in tags]
        assert ours.accuracy_score(flat, flat) == 1.0


@settings(deadline=None)
@given(st.sets(st.sampled_from("IOBESLU"), min_size=1))
def test_auto_detect(letters):
    tags = [sorted(letters)]
    try:
        expected = their_scheme.auto_detect(tags).__name__
    except ValueError:
        with pytest.raises(ValueError, match="are not those of"):
            our_scheme.auto_detect(tags)
    else:
        assert our_scheme.auto_detect(tags).__name__ == expected


@settings(deadline=None)
@given(corpora("BI", ("A", "B")), st.sampled_from([0.0, 0.5, 2.0, float("inf")]), st.sampled_from(AVERAGES))
@example(([[]], [[]]), 0.0, "macro")
def test_all_figures_at_once_with_any_beta(case, beta, average):
    options = {"beta": beta, "average": average}
    expected = their_calls(their_labeling, "precision_recall_fscore_support", *case, **options)
    found = calls(our_labeling, "precision_recall_fscore_support", *case, **options)
    assert found[1] == expected[1]
    for ours_, theirs_ in zip(found[0], expected[0], strict=True):
        np.testing.assert_array_equal(ours_, theirs_)
    expected = their_calls(their_v1, "precision_recall_fscore_support", *case, scheme=their_scheme.IOB2, **options)[0]
    found = calls(our_v1, "precision_recall_fscore_support", *case, scheme=our_scheme.IOB2, **options)[0]
    for ours_, theirs_ in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours_, theirs_)


def test_strict_without_a_scheme_is_the_default_mode_except_in_the_report():
    gold, predicted = [["B-A", "I-A", "O"]], [["I-A", "I-A", "O"]]
    assert ours.f1_score(gold, predicted, mode="strict") == theirs.f1_score(gold, predicted, mode="strict") == 1.0
    found = calls(ours, "classification_report", gold, predicted, mode="strict")[0]
    assert found == calls(theirs, "classification_report", gold, predicted, mode="strict")[0]


def test_the_names_that_programs_import_are_here():
    inner = {"Prefix", "Tag", "Tokens"}
    inner |= {"start_of_chunk", "end_of_chunk", "unique_labels", "check_consistent_length"}
    for module, mirror in ((their_labeling, our_labeling), (their_v1, our_v1), (their_scheme, our_scheme)):
        public = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        }
        assert {name for name in public - inner if not hasattr(mirror, name)} == set()
    assert {name for name in ours.__all__ if not hasattr(theirs, name) and name != "UndefinedMetricWarning"} == set()


def test_a_report_without_entities_is_a_report():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = ours.classification_report([["O"]], [["O"]])
    assert text.splitlines()[0].split() == ["precision", "recall", "f1-score", "support"]


def test_what_is_wrong_is_named():
    with pytest.raises(DataError, match="sentence 1 has 1 gold tags and 2 predicted"):
        ours.f1_score([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(TypeError, match="list of lists"):
        ours.f1_score(["O"], ["O"])
    with pytest.raises(TagError, match="'M-A' has the prefix 'M'"):
        ours.f1_score([["M-A"]], [["O"]], mode="strict", scheme=our_scheme.IOB2)
    with pytest.raises(TagError, match="'S-A': IOB2 has only the prefixes O B I"):
        ours.f1_score([["S-A"]], [["O"]], mode="strict", scheme=our_scheme.IOB2)
    with pytest.raises(ConfigError, match="average must be one of"):
        ours.f1_score([["O"]], [["O"]], average="samples")
    with pytest.raises(ConfigError, match="beta must not be negative"):
        our_labeling.precision_recall_fscore_support([["O"]], [["O"]], beta=-1)
    with pytest.raises(ConfigError, match="needs a scheme"):
        our_v1.precision_recall_fscore_support([["O"]], [["O"]])


class Own(our_scheme.Token):
    """A scheme of the user's own."""


@pytest.mark.parametrize("chosen", ["IOB2", int, Own, our_scheme.Token])
def test_a_scheme_that_is_none_of_the_classes_is_refused(chosen):
    gold = [["B-A", "O"]]
    for ask in (
        lambda: ours.f1_score(gold, gold, mode="strict", scheme=chosen),
        lambda: our_scheme.Entities(gold, chosen),
    ):
        with pytest.raises(ConfigError, match="scheme must be one of the classes IOB1, IOB2"):
            ask()


def test_arguments_of_other_types_are_named():
    gold = [["B-A", "O"]]
    for bad in (None, ["B-A"], "B", np.array(gold), iter(gold), [None]):
        with pytest.raises(TypeError, match="y_pred must be a list of lists of tags, got"):
            ours.f1_score(gold, bad)
    for digits in ("2", -1, 2.5, 10**9):
        with pytest.raises(ConfigError, match="digits must be an integer from 0 to 100"):
            ours.classification_report(gold, gold, digits=digits)
    with pytest.raises(DataError, match="accuracy needs at least one tag"):
        ours.accuracy_score([[]], [[]])
    for tag in (None, 1):
        with pytest.raises(TypeError, match="a tag must be a string, got"):
            our_scheme.auto_detect([[tag]])
    with pytest.raises(TagError, match="the delimiter of tags must be a string, got 3"):
        our_scheme.Entities([["B-A"]], our_scheme.IOB2, delimiter=3)
    with pytest.raises(TagError, match="expected a list of lists of tags, got None"):
        our_scheme.Entities(None, our_scheme.IOB2)


def test_a_tag_unlike_an_entity_is_warned_of_once():
    with pytest.warns(UserWarning, match="NOUN does not look like an entity tag") as caught:
        our_labeling.get_entities(["NOUN"] * 5)
    assert len(caught) == 1


def test_tags_that_are_none_raise_what_seqeval_raises():
    for bad in (b"I-ORG", "T", "x-PER"):
        with pytest.raises(KeyError) as raised:
            our_scheme.auto_detect([[bad]])
        assert isinstance(raised.value, TagError)
        assert str(raised.value).startswith("tag ")
    with pytest.raises(IndexError, match="tag '' is empty"):
        our_scheme.auto_detect([[""]])
    with pytest.raises(ValueError, match="IOB2 has only the prefixes O B I"):
        our_scheme.Entities([["B-PER", "E-PER"]], our_scheme.IOB2)


@pytest.mark.parametrize(("zero_division", "value"), [(0, 0.0), (1, 1.0)])
def test_the_macro_average_of_no_types_is_a_number(zero_division, value):
    nothing = [["O", "O"]]
    assert ours.f1_score(nothing, nothing, average="macro", zero_division=zero_division) == value
    report = ours.classification_report(nothing, nothing, zero_division=zero_division, output_dict=True)
    assert report["macro avg"] == report["micro avg"]
    assert report["macro avg"]["f1-score"] == value
