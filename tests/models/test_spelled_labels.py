"""Labels in another spelling of a scheme (``b``, ``b-per``): recognised, said, and rewritten if that is asked for."""

import pytest

from trellis import CRF
from trellis.errors import DataWarning
from trellis.tags import Scheme

WORDS = [["a", "b", "c"], ["d", "e", "a"]]
LOWER = [["b", "e", "s"], ["b", "m", "e"]]


def test_lower_case_letters_are_learned_as_they_are_and_a_warning_names_the_scheme_they_spell():
    with pytest.warns(DataWarning, match=r"look like BMES in another spelling \(b as B, e as E, s as S, m as M\)"):
        tagger = CRF().fit(WORDS, LOWER)
    assert tagger.tagset_.scheme is Scheme.PLAIN
    assert tagger.predict(WORDS) == LOWER


def test_a_warning_about_spelling_points_at_the_call_of_fit():
    with pytest.warns(DataWarning) as caught:
        CRF().fit(WORDS, LOWER)
    assert caught[0].filename == __file__


def test_repair_writes_the_labels_as_the_scheme_does_and_says_so():
    with pytest.warns(DataWarning, match="the tags are BMES in another spelling; read b as B"):
        tagger = CRF().fit(WORDS, LOWER, dev=(WORDS, LOWER), on_bad_tags="repair")
    assert tagger.tagset_.scheme is Scheme.BMES
    assert tagger.predict(WORDS) == [["B", "E", "S"], ["B", "M", "E"]]


def test_labels_that_are_said_to_be_plain_need_no_warning():
    assert CRF(scheme="plain").fit(WORDS, LOWER).predict(WORDS) == LOWER  # warnings are errors here
