"""One mistyped tag does not change the scheme, and a scheme is known however it is spelled."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.tags import Detection, Scheme, Style, TagSet, detect
from trellis.tags.detection import NumberedLabels

BIO = [["B-PER", "I-PER", "O"], ["O", "B-LOC", "O"]]


def test_one_mistyped_tag_in_ten_thousand_keeps_the_scheme_and_is_named():
    found = detect([*(BIO * 1700), ["B-PER", "o"]])
    assert found == Detection(Scheme.IOB2, Style.PREFIX, 0, {"o": 1}, {})
    assert not found.is_clean


@pytest.mark.parametrize("odd", ["o", "0", "B_PER", "PER", "B-", "x", "O-PER"])
def test_whatever_was_mistyped(odd):
    found = detect([*(BIO * 20), ["O", odd, "O"]])
    assert (found.scheme, dict(found.odd), dict(found.spelling)) == (Scheme.IOB2, {odd: 1}, {})


@pytest.mark.parametrize(
    ("tags", "scheme", "spelling"),
    [
        ("b m e s", Scheme.BMES, {"b": "B", "m": "M", "e": "E", "s": "S"}),
        ("b-per i-per o", Scheme.IOB2, {"b-per": "B-per", "i-per": "I-per", "o": "O"}),
        ("B_PER I_PER O O O O O B_LOC", Scheme.IOB2, {"B_PER": "B-PER", "I_PER": "I-PER", "B_LOC": "B-LOC"}),
        ("PER_B PER_I O O O", Scheme.IOB2, {"PER_B": "PER-B", "PER_I": "PER-I"}),
        ("0 B-PER L-PER 0 0 0 0 U-LOC", Scheme.BILOU, {"0": "O"}),
        ("b-PER l-PER o u-LOC", Scheme.BILOU, {"b-PER": "B-PER", "l-PER": "L-PER", "o": "O", "u-LOC": "U-LOC"}),
    ],
)  # fmt: skip
def test_other_spellings_are_recognised(tags, scheme, spelling):
    found = detect([tags.split()])
    assert (found.scheme, dict(found.spelling), dict(found.odd)) == (scheme, spelling, {})


def test_what_is_spelled_so_once_is_a_mistake():
    found = detect([["B-PER", "o", "O"], ["O", "O"]])
    assert (found.scheme, dict(found.odd), dict(found.spelling)) == (Scheme.IOB2, {"o": 1}, {})


@pytest.mark.parametrize("tags", ["NN VB DT NN .", "n v d m b s e n v", "O O O PER O LOC", "S.MASC V.PRES A.X ADV PR"])
def test_plain_tags_stay_plain(tags):
    assert detect([tags.split()]) == Detection(Scheme.PLAIN, Style.PREFIX, 0, {}, {})


def test_a_stray_letter_of_a_larger_scheme_does_not_win():
    found = detect([*(BIO * 20), ["O", "E-PER", "O"]])
    assert (found.scheme, dict(found.odd)) == (Scheme.IOB2, {"E-PER": 1})


def test_a_scheme_that_is_given_is_kept():
    found = detect(BIO, scheme=Scheme.BIOES)
    assert (found.scheme, found.violations > 0, dict(found.odd)) == (Scheme.BIOES, True, {})
    assert detect([["B-PER", "O"]], scheme=Scheme.PLAIN).is_clean


def test_labels_in_another_spelling_are_plain_to_a_tag_set_since_answers_are_given_as_they_were():
    assert TagSet.from_sequences([["b", "e", "s"]]) == TagSet(("b", "e", "s"), Scheme.PLAIN)


@given(st.lists(st.lists(st.sampled_from(["O", "B-A", "I-A", "é", ""]), max_size=6), max_size=6))
def test_pairs_are_counted_in_the_order_in_which_they_occur(sequences):
    expected = Counter(pair for own in sequences for pair in pairwise(["", *own, ""]))
    assert list(NumberedLabels(iter(sequences)).pairs().items()) == list(expected.items())
