"""Bad gold tags: found, repaired as seqeval reads them, or dropped; never in silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from tests.tags.strategies import labels_of, relaxed
from trellis.corpus import mend, mend_tags, repair_tags
from trellis.corpus.bad_tags import refuse_bad_tags
from trellis.errors import DataError, TagError
from trellis.tags import Scheme, Span, detect, spans_from_tags, validate_tags
from trellis.text import Sentence

SEQEVAL = [Scheme.IOB1, Scheme.IOB2, Scheme.IOE1, Scheme.IOE2, Scheme.BIOES]
CLEAN = [["B-A", "I-A", "O"]] * 20


@relaxed
@given(st.sampled_from(SEQEVAL).flatmap(lambda s: st.tuples(st.just(s), st.lists(st.sampled_from(labels_of(s))))))
def test_repaired_tags_are_legal_and_have_the_spans_that_seqeval_reads(case):
    scheme, tags = case
    repaired = repair_tags(tags, scheme)
    assert validate_tags(repaired, scheme) == []
    read = [Span(start, end + 1, kind) for kind, start, end in get_entities(list(tags))]
    assert spans_from_tags(repaired, scheme) == read


def test_legal_tags_are_not_touched():
    mended = mend(CLEAN, detect(CLEAN), "repair")
    assert (mended.tags, mended.bad, mended.changes) == (CLEAN, [], [])


def test_every_bad_tag_is_found_and_every_change_is_listed():
    sequences = [*CLEAN, ["O", "I-A", "I-A"], ["o", "B-A"]]
    mended = mend(sequences, detect(sequences), "repair")
    assert [(item.sequence, item.position, item.tag) for item in mended.bad] == [(20, 1, "I-A"), (21, 0, "o")]
    assert mended.tags[20:] == [["O", "B-A", "I-A"], ["O", "B-A"]]
    assert mended.changes == [(20, 1, "I-A", "B-A"), (21, 0, "o", "O")]


def test_drop_leaves_out_the_sequence_and_error_leaves_it_to_the_caller():
    sequences = [*CLEAN, ["O", "I-A"]]
    dropped, refused = mend(sequences, detect(sequences), "drop"), mend(sequences, detect(sequences), "error")
    assert (dropped.tags[-1], dropped.dropped, len(dropped.bad)) == (None, 1, 1)
    assert (refused.tags[-1], refused.changes, len(refused.bad)) == (["O", "I-A"], [], 1)


def test_a_label_that_spells_nothing_is_outside_or_a_word_of_its_own():
    assert repair_tags(["B-A", "?", "I-A"], Scheme.IOB2) == ["B-A", "O", "B-A"]
    sequences = [["B", "E", "S"]] * 20 + [["B", "E", "x"]]
    assert mend(sequences, detect(sequences), "repair").tags[-1] == ["B", "E", "S"]


def test_another_spelling_is_written_as_the_scheme_writes_it():
    sequences = [["b", "e", "s"], ["s", "b", "m", "e"]]
    assert mend(sequences, detect(sequences), "error").tags == [["B", "E", "S"], ["S", "B", "M", "E"]]


def test_there_are_three_ways():
    with pytest.raises(TagError, match="on_bad_tags must be 'error', 'repair' or 'drop', got 'fix'"):
        mend(CLEAN, detect(CLEAN), "fix")


def test_a_refusal_numbers_the_sentence_as_the_caller_does():
    clean, bad = Sentence(["a", "b"], ["B-A", "I-A"]), Sentence(["c", "d"], ["O", "I-A"])
    with pytest.raises(DataError, match=r"^sentence 21, position 1: bad tag 'I-A'"):
        mend_tags([Sentence(["untagged"]), *[clean] * 20, bad], scheme=Scheme.IOB2)
    with pytest.raises(DataError, match=r"^sentence 20, position 1: bad tag 'I-A'"):
        list(refuse_bad_tags([*[clean] * 20, bad], scheme=Scheme.IOB2))
