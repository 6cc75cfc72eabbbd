from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tags.strategies import SPAN_SCHEMES, labels_of
from trellis.errors import TagError
from trellis.tags import Scheme, Span, Style, TagSet, spans_from_tags, validate_tags


@pytest.mark.parametrize("scheme", SPAN_SCHEMES, ids=lambda scheme: scheme.value)
def test_the_masks_allow_exactly_the_legal_sequences(scheme):
    tagset = TagSet(tuple(labels_of(scheme, ("A", "B"))), scheme)
    transitions, start, end = tagset.allowed_transitions()
    for length in (1, 2, 3):
        for path in product(range(len(tagset)), repeat=length):
            allowed = start[path[0]] and end[path[-1]] and all(transitions[a, b] for a, b in pairwise(path))
            assert allowed == (not validate_tags(tagset.decode(path), scheme)), tagset.decode(path)


def test_plain_allows_everything():
    masks = TagSet(("NN", "VB")).allowed_transitions()
    assert all(mask.all() for mask in masks)


@pytest.mark.parametrize("scheme", [*SPAN_SCHEMES, Scheme.PLAIN], ids=lambda scheme: scheme.value)
def test_the_ways_of_writing_a_span_hold_exactly_where_it_is_read(scheme):
    labels = ("A", "B") if scheme is Scheme.PLAIN else labels_of(scheme, ("A", "B"))
    tagset = TagSet(tuple(labels), scheme)
    length = 4 if len(tagset) <= 5 else 3
    legal = [
        tags
        for path in product(range(len(tagset)), repeat=length)
        if not validate_tags(tags := tagset.decode(path), scheme)
    ]
    for start, end in [(0, 1), (1, 2), (1, 3), (0, 2), (length - 1, length), (0, length)]:
        if scheme is Scheme.PLAIN and end - start > 1:
            continue
        span = Span(start, end, "A")
        lengths = np.array([length])
        ways = [
            way for way in tagset.ways_of_writing(tagset.table_of_spans([[span]], lengths), lengths) if len(way.rows)
        ]
        for tags in legal:
            held = [_holds(way, tagset.encode(tags), span) for way in ways]
            assert sum(held) == (span in spans_from_tags(tags, scheme)), (tags, span)


@pytest.mark.parametrize("scheme", SPAN_SCHEMES, ids=lambda scheme: scheme.value)
def test_with_illegal_tags_the_ways_hold_exactly_where_lenient_reading_finds_the_span(scheme):
    tagset = TagSet(tuple(labels_of(scheme, ("A", "B"))), scheme)
    length = 4 if len(tagset) <= 5 else 3
    every = [tagset.decode(path) for path in product(range(len(tagset)), repeat=length)]
    lengths = np.array([length])
    for start, end in [(0, 1), (1, 2), (1, 3), (0, 2), (length - 1, length), (0, length)]:
        span = Span(start, end, "A")
        table = tagset.table_of_spans([[span]], lengths)
        ways = [way for way in tagset.ways_of_writing(table, lengths, illegal=True) if len(way.rows)]
        for tags in every:
            held = [_holds(way, tagset.encode(tags), span) for way in ways]
            assert sum(held) == (span in spans_from_tags(tags, scheme)), (tags, span)


def _holds(way, ids, span):
    inside = np.array_equal(ids[span.start : span.end], way.tags)
    before = span.start == 0 or way.before is None or way.before[0, ids[span.start - 1]]
    after = span.end == len(ids) or way.after is None or way.after[0, ids[span.end]]
    return bool(inside and before and after)


def test_labels_and_ids_go_both_ways():
    tagset = TagSet(("O", "B-PER", "I-PER"), Scheme.IOB2)
    ids = tagset.encode(["B-PER", "I-PER", "O"])
    assert ids.dtype == np.int64
    assert ids.tolist() == [1, 2, 0]
    assert tagset.decode(ids) == ["B-PER", "I-PER", "O"]
    assert tagset.id("O") == 0
    assert "B-PER" in tagset
    assert "B-LOC" not in tagset
    assert tagset.encode([]).tolist() == []


def test_unknown_labels_and_ids_are_named_with_the_nearest():
    tagset = TagSet(("O", "B-PER", "I-PER"), Scheme.IOB2)
    with pytest.raises(TagError, match=r"'B-PRE' at position 1 .* nearest of its 3 labels is 'B-PER'"):
        tagset.encode(["O", "B-PRE"])
    with pytest.raises(TagError, match=r"id 3 at position 1 .*expected 0\.\.2"):
        tagset.decode([0, 3])
    with pytest.raises(TagError, match="does not lie in a sequence of 2"):
        tagset.table_of_spans([[], [Span(1, 3, "PER")]], np.array([9, 2]))
    with pytest.raises(TagError, match=r"label='LOC'.* has a type that no label of the tag set has"):
        tagset.table_of_spans([[Span(0, 1, "LOC")]], np.array([9]))
    for wrong in ([(0, 1, "PER")], [[("a", 1, "PER")]], [[(0, 1)]], [[5]], [[(0.5, 1, "PER")]]):
        with pytest.raises(TagError, match=r"expected \(start, end, label\) for each span of each sequence"):
            tagset.table_of_spans(wrong, np.array([9]))
    with pytest.raises(TagError, match="'O' occurs twice"):
        TagSet(("O", "O"))
    with pytest.raises(TagError, match="lacks the letter 'S'"):
        TagSet(("O", "S-PER"), Scheme.IOB2)


def test_from_sequences_orders_labels_and_detects_the_scheme():
    tagset = TagSet.from_sequences([["I-PER", "O"], ["B-PER", "I-PER", "B-LOC"]], scheme=Scheme.IOB2)
    assert tagset.labels == ("O", "B-LOC", "B-PER", "I-PER")
    assert TagSet.from_sequences([["PER-B", "PER-I", "O"]]) == TagSet(
        ("O", "PER-B", "PER-I"), Scheme.IOB2, Style.SUFFIX
    )
    assert TagSet.from_sequences([["VB", "NN"]]) == TagSet(("NN", "VB"), Scheme.PLAIN)


def test_complete_adds_the_labels_a_type_lacks_but_no_o():
    tagset = TagSet.from_sequences([["B", "E", "S"]], scheme=Scheme.BMES, complete=True)
    assert tagset.labels == ("B", "M", "E", "S")
    assert TagSet.from_sequences([["B-A"]], scheme=Scheme.IOB2, complete=True).labels == ("B-A", "I-A")


@pytest.mark.parametrize("scheme", [*SPAN_SCHEMES, Scheme.PLAIN], ids=lambda scheme: scheme.value)
def test_spans_of_a_batch_of_ids_are_those_of_each_sequence(scheme):
    labels = ("A", "B") if scheme is Scheme.PLAIN else labels_of(scheme, ("A", "B"))
    tagset, random = TagSet(tuple(labels), scheme), np.random.default_rng(0)
    lengths = np.array([3, 0, 5, 1, 40, 0])
    ids = random.integers(len(tagset), size=lengths.sum())
    found = tagset.find_spans(ids, lengths)
    expected = [spans_from_tags(tagset.decode(own), scheme) for own in np.split(ids, np.cumsum(lengths)[:-1])]
    assert found.split(len(lengths)) == expected
    assert found.split(len(lengths)) == tagset.table_of_spans(expected, lengths).split(len(lengths))


def test_a_way_that_needs_a_label_the_set_lacks_cannot_occur():
    tagset, lengths = TagSet(("O", "I-PER"), Scheme.IOB1), np.array([4])
    ways = tagset.ways_of_writing(tagset.table_of_spans([[Span(1, 3, "PER")]], lengths), lengths)
    assert [way.tags.tolist() for way in ways] == [[1, 1], []]
    assert [len(way.rows) for way in ways] == [1, 0]


@given(st.lists(st.lists(st.sampled_from(["NOUN", "O", "B-X", "DET"]), max_size=4), max_size=4))
def test_plain_labels_are_spans_of_one_token(sequences: list[list[str]]) -> None:
    tags = TagSet(("DET", "B-X", "NOUN", "O"))
    ids = np.array([tags.id(label) for own in sequences for label in own], dtype=np.int64)
    found = tags.find_spans(ids, np.array([len(own) for own in sequences], dtype=np.int64)).split(len(sequences))
    assert found == [spans_from_tags(own, scheme=Scheme.PLAIN) for own in sequences]
