from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tags.strategies import SPAN_SCHEMES, any_tags, relaxed, spans
from trellis.errors import TagError
from trellis.tags import (
    Scheme,
    Style,
    Violation,
    detect_style,
    fit_schemes,
    spans_from_tags,
    tags_from_spans,
    validate_tags,
)


def test_schemes_are_found_by_the_names_people_use():
    names = {"bio": "IOB2", "BIO2": "IOB2", "iob1": "IOB1", "IOBES": "BIOES", "bmewo": "BMES", "BMES": "BMES"}
    names |= {"BMESO": "BMES", "biluo": "BILOU", " plain ": "PLAIN"}
    assert {name: Scheme.parse(name).value for name in names} == names


def test_unknown_and_ambiguous_names_say_what_to_write():
    with pytest.raises(TagError, match=r"unknown scheme 'BOIES'.*did you mean 'BIOES'"):
        Scheme.parse("BOIES")
    with pytest.raises(TagError, match=r"'iob' is ambiguous: say 'iob1'.*'iob2'"):
        Scheme.parse("iob")


@pytest.mark.parametrize(
    ("tags", "scheme", "expected"),
    [
        ("O I-A", Scheme.IOB2, [(1, "I-A", "O", "I-A must follow B-A or I-A, not O")]),
        ("I-A", Scheme.IOB2, [(0, "I-A", None, "I-A must follow B-A or I-A, not O")]),
        ("B-A I-B", Scheme.IOB2, [(1, "I-B", "B-A", "I-B must follow B-B or I-B, not B-A")]),
        ("O B-A", Scheme.IOB1, [(1, "B-A", "O", "B-A must follow B-A or I-A, not O")]),
        ("I-A O", Scheme.IOE2, [(1, "O", "I-A", "I-A must be followed by I-A or E-A, but O follows")]),
        ("E-A", Scheme.IOE1, [(0, "E-A", None, "E-A must be followed by I-A or E-A, but the sequence ends")]),
        ("B-A", Scheme.BIOES, [(0, "B-A", None, "B-A must be followed by I-A or E-A, but the sequence ends")]),
        ("O L-A", Scheme.BILOU, [(1, "L-A", "O", "L-A must follow B-A or I-A, not O")]),
        ("B M S", Scheme.BMES, [(2, "S", "M", "M must be followed by M or E, but S follows")]),
    ],
)
def test_each_illegal_step_has_position_and_reason(tags, scheme, expected):
    assert validate_tags(tags.split(), scheme) == [Violation(*item) for item in expected]


def test_all_violations_are_reported_and_an_unreadable_label_is_one():
    found = validate_tags(["I-A", "X-A", "I-A", "O", "I-B"], Scheme.IOB2)
    assert [violation.position for violation in found] == [0, 1, 4]
    assert "lacks the letter 'X'" in found[1].reason


@relaxed
@given(st.sampled_from(SPAN_SCHEMES).flatmap(lambda s: st.tuples(st.just(s), any_tags(s))))
def test_legal_means_written_by_the_scheme(case):
    scheme, tags = case
    written = tags_from_spans(spans_from_tags(tags, scheme), len(tags), scheme)
    assert (validate_tags(tags, scheme) == []) == (written == tags)


@relaxed
@given(st.lists(spans(labels=("A", "B")), min_size=1, max_size=4), st.sampled_from(SPAN_SCHEMES))
def test_the_scheme_that_wrote_a_corpus_fits_it(cases, scheme):
    sequences = [tags_from_spans(*case, scheme) for case in cases]
    fits = {fit.scheme: fit.violations for fit in fit_schemes(sequences)}
    assert fits[scheme] == 0


@pytest.mark.parametrize(
    ("tags", "best"),
    [
        ("B-A I-A O B-A", Scheme.IOB2),
        ("I-A B-A O I-A", Scheme.IOB1),
        ("I-A E-A O E-A", Scheme.IOE2),
        ("I-A I-A O I-B", Scheme.IO),
        ("B-A E-A S-A I-A O", Scheme.BIOES),
        ("B-A L-A U-A O", Scheme.BILOU),
        ("B M E S", Scheme.BMES),
        ("NN VB", Scheme.PLAIN),
    ],
)
def test_the_best_fitting_scheme_comes_first_and_plain_last(tags, best):
    found = [fit.scheme for fit in fit_schemes([tags.split()])]
    assert found[0] is best
    assert found[-1] is Scheme.PLAIN


def test_a_few_mistakes_do_not_hide_the_scheme():
    sequences = [["B-A", "I-A", "O"]] * 5 + [["I-A", "O"]]
    assert fit_schemes(sequences)[0].scheme is Scheme.IOB2
    assert fit_schemes(sequences)[0].violations == 1


def test_suffix_style_is_detected_and_prefix_wins_where_both_could_be():
    assert detect_style(["PER-B", "O"]) is Style.SUFFIX
    assert detect_style(["B-PER", "O"]) is Style.PREFIX
    assert detect_style(["B-I", "O"]) is Style.PREFIX
    assert fit_schemes([["PER-B", "PER-I", "O"]])[0].scheme is Scheme.IOB2


def test_of_schemes_that_fit_equally_badly_iob2_comes_first() -> None:
    iob2, iob1, *_ = fit_schemes([["I-PER", "O"], ["B-PER", "O"]])
    assert (iob2.scheme, iob1.scheme) == (Scheme.IOB2, Scheme.IOB1)
    assert iob2.violations == iob1.violations == 1
