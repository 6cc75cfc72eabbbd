from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tags.strategies import SPAN_SCHEMES, any_tags, relaxed, spans
from trellis.errors import TagError
from trellis.tags import (
    Scheme,
    Span,
    Style,
    convert_tags,
    spans_from_sequences,
    spans_from_tags,
    tags_from_spans,
    validate_tags,
)

SPANS = [Span(0, 1, "PER"), Span(2, 5, "ORG"), Span(5, 6, "ORG"), Span(6, 8, "LOC"), Span(8, 9, "LOC")]
WRITTEN = {
    Scheme.IOB1: "I-PER O I-ORG I-ORG I-ORG B-ORG I-LOC I-LOC B-LOC O",
    Scheme.IOB2: "B-PER O B-ORG I-ORG I-ORG B-ORG B-LOC I-LOC B-LOC O",
    Scheme.IOE1: "I-PER O I-ORG I-ORG E-ORG I-ORG I-LOC E-LOC I-LOC O",
    Scheme.IOE2: "E-PER O I-ORG I-ORG E-ORG E-ORG I-LOC E-LOC E-LOC O",
    Scheme.BIOES: "S-PER O B-ORG I-ORG E-ORG S-ORG B-LOC E-LOC S-LOC O",
    Scheme.BILOU: "U-PER O B-ORG I-ORG L-ORG U-ORG B-LOC L-LOC U-LOC O",
    Scheme.BMES: "S-PER O B-ORG M-ORG E-ORG S-ORG B-LOC E-LOC S-LOC O",
}


@pytest.mark.parametrize("scheme", WRITTEN, ids=lambda scheme: scheme.value)
def test_each_scheme_writes_and_reads_the_same_spans(scheme):
    tags = WRITTEN[scheme].split()
    assert tags_from_spans(SPANS, 10, scheme) == tags
    assert spans_from_tags(tags, scheme) == SPANS
    assert spans_from_tags(tags, scheme, strict=True) == SPANS


def test_io_runs_adjoining_spans_of_one_type_together():
    tags = tags_from_spans(SPANS, 10, Scheme.IO)
    assert tags == ["I-PER", "O", *["I-ORG"] * 4, *["I-LOC"] * 3, "O"]
    assert spans_from_tags(tags, Scheme.IO) == [Span(0, 1, "PER"), Span(2, 6, "ORG"), Span(6, 9, "LOC")]


def test_six_characters_segmented_2_2_1_1_are_tagged_b_e_b_e_s_s():
    words = [Span(0, 2, ""), Span(2, 4, ""), Span(4, 5, ""), Span(5, 6, "")]
    assert tags_from_spans(words, 6, Scheme.BMES) == list("BEBESS")
    assert spans_from_tags(list("BEBESS"), Scheme.BMES) == words


def test_plain_makes_each_token_a_span_even_one_labelled_o():
    assert spans_from_tags(["NN", "O", "B-X"], Scheme.PLAIN) == [Span(0, 1, "NN"), Span(1, 2, "O"), Span(2, 3, "B-X")]


@relaxed
@given(spans(), st.sampled_from(SPAN_SCHEMES), st.sampled_from(Style))
def test_spans_to_tags_and_back(case, scheme, style):
    found, length = case
    if scheme is Scheme.IO and any(a.end == b.start and a.label == b.label for a, b in pairwise(found)):
        return
    tags = tags_from_spans(found, length, scheme, style=style)
    assert validate_tags(tags, scheme, style=style) == []
    for strict in (False, True):
        assert spans_from_tags(tags, scheme, style=style, strict=strict) == found


@pytest.mark.parametrize("source", SPAN_SCHEMES, ids=lambda scheme: scheme.value)
@pytest.mark.parametrize("target", SPAN_SCHEMES, ids=lambda scheme: scheme.value)
@relaxed
@given(case=spans(adjoining=False))
def test_every_pair_of_schemes_round_trips(source, target, case):
    tags = tags_from_spans(*case, source)
    there = convert_tags(tags, source, target)
    assert there == tags_from_spans(*case, target)
    assert convert_tags(there, target, source) == tags


@relaxed
@given(st.lists(st.sampled_from(["NN", "VB", "O", "B-X"]), max_size=6))
def test_plain_round_trips_through_a_span_scheme(tags):
    there = convert_tags(tags, Scheme.PLAIN, Scheme.IOB2)
    assert convert_tags(there, Scheme.IOB2, Scheme.PLAIN) == tags


@relaxed
@given(spans())
def test_style_changes_on_the_way(case):
    tags = tags_from_spans(*case, Scheme.IOB2)
    there = convert_tags(tags, Scheme.IOB2, Scheme.BILOU, target_style=Style.SUFFIX)
    assert there == tags_from_spans(*case, Scheme.BILOU, style=Style.SUFFIX)


@relaxed
@given(st.sampled_from(SPAN_SCHEMES).flatmap(lambda s: st.tuples(st.just(s), st.lists(any_tags(s), max_size=4))))
def test_many_sequences_at_once_give_what_single_ones_give(case):
    scheme, sequences = case
    for strict in (False, True):
        expected = [spans_from_tags(tags, scheme, strict=strict) for tags in sequences]
        assert spans_from_sequences(sequences, scheme, strict=strict) == expected


@relaxed
@given(st.sampled_from(SPAN_SCHEMES).flatmap(lambda s: st.tuples(st.just(s), any_tags(s))))
def test_readings_agree_exactly_on_legal_tags_and_give_spans_that_do_not_overlap(case):
    scheme, tags = case
    lenient, strict = (spans_from_tags(tags, scheme, strict=strict) for strict in (False, True))
    for found in (lenient, strict):
        tags_from_spans(found, len(tags), scheme)
    if not validate_tags(tags, scheme):
        assert lenient == strict
        assert scheme is Scheme.IO or tags_from_spans(strict, len(tags), scheme) == tags


def test_lenient_reading_follows_conlleval_on_illegal_tags():
    assert spans_from_tags(["I-PER", "I-LOC", "O", "I-LOC"], Scheme.IOB2) == [
        Span(0, 1, "PER"),
        Span(1, 2, "LOC"),
        Span(3, 4, "LOC"),
    ]
    assert spans_from_tags(["I-PER", "O", "B-LOC", "I-PER"], Scheme.IOB2, strict=True) == [Span(2, 3, "LOC")]


def test_bmewo_letters_are_read():
    assert spans_from_tags(["W-PER", "O", "B-LOC", "M-LOC", "E-LOC"], Scheme.BMES) == [
        Span(0, 1, "PER"),
        Span(2, 5, "LOC"),
    ]


def test_repair_reads_what_conversion_refuses():
    tags = ["O", "I-PER", "I-PER"]
    with pytest.raises(TagError, match=r"not legal IOB2 at position 1: I-PER must follow B-PER or I-PER, not O"):
        convert_tags(tags, Scheme.IOB2, Scheme.BIOES)
    assert convert_tags(tags, Scheme.IOB2, Scheme.BIOES, repair=True) == ["O", "B-PER", "E-PER"]


@pytest.mark.parametrize(
    ("spans_", "length", "scheme", "message"),
    [
        ([Span(0, 2, "A"), Span(1, 3, "B")], 4, Scheme.IOB2, r"Span\(start=0.*Span\(start=1.* overlap"),
        ([Span(2, 5, "A")], 4, Scheme.IOB2, r"Span\(start=2, end=5, label='A'\) does not lie in .* 4 tokens"),
        ([Span(-1, 1, "A")], 4, Scheme.IOB2, "does not lie in"),
        ([Span(1, 1, "A")], 4, Scheme.IOB2, "0 <= start < end <= 4"),
        ([Span(0, 2, "A")], 2, Scheme.PLAIN, "has 2 tokens, and PLAIN can write only spans of one"),
        ([Span(0, 1, "A")], 2, Scheme.PLAIN, "token 1 of 2 has none"),
    ],
)
def test_spans_that_tags_cannot_hold_are_named(spans_, length, scheme, message):
    with pytest.raises(TagError, match=message):
        tags_from_spans(spans_, length, scheme)


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("PER", "'PER' is not of the prefix style"),
        ("X-PER", "'X-PER': IOB2 lacks the letter 'X', expected one of O B I"),
        ("O-PER", "puts a type on O"),
        ("B-", "'B-' is not of the prefix style"),
        ("", "non-empty string, got ''"),
        (3, "non-empty string, got 3"),
    ],
)
def test_labels_the_scheme_cannot_read_are_named(tag, message):
    with pytest.raises(TagError, match=message):
        spans_from_tags(["O", tag], Scheme.IOB2)


def test_strict_reading_without_a_scheme_is_refused():
    with pytest.raises(TagError, match="strict reading needs a scheme"):
        spans_from_sequences([["O"]], None, strict=True)
    assert spans_from_sequences([["U-A", "M-A", "W-A"]], None) == [[Span(0, 1, "A"), Span(1, 2, "A"), Span(2, 3, "A")]]


def test_empty_sequences_have_no_spans():
    assert spans_from_sequences([], Scheme.IOB2) == []
    assert spans_from_sequences([[], ["B-A"], []], Scheme.IOB2, strict=True) == [[], [Span(0, 1, "A")], []]


def test_more_labels_than_one_byte_or_the_surrogates_start_hold():
    many = [f"B-{number}" for number in range(60_000)]
    found = spans_from_tags(many, Scheme.IOB2)
    assert [span.label for span in found] == [str(number) for number in range(60_000)]
