"""Exports of annotation tools: what is not gold is left out and counted, and who annotated is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trellis import corpus
from trellis.errors import DataError

TEXT = "Ada met Bob"


def read(folder: Path, *items: dict[str, Any], **options: Any) -> corpus.Corpus:
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in items))
    return corpus.read(path, format="spans", **options)


def marked(*spans: tuple[int, int, str], **fields: Any) -> dict[str, Any]:
    return {"text": TEXT, "spans": [{"start": a, "end": b, "label": c} for a, b, c in spans], **fields}


def task(*annotations: dict[str, Any], text: Any = TEXT) -> dict[str, Any]:
    return {"data": {"text": text}, "annotations": list(annotations)}


def annotation(*spans: tuple[int, int, str], by: Any = 1, **fields: Any) -> dict[str, Any]:
    values = [{"type": "labels", "value": {"start": a, "end": b, "labels": [c]}} for a, b, c in spans]
    return {"completed_by": by, "result": values, **fields}


ADA, BOB = (0, 3, "PER"), (8, 11, "PER")


def test_what_prodigy_rejected_or_ignored_is_not_gold(tmp_path: Path) -> None:
    items = [marked(ADA, answer="accept"), marked(answer="reject"), marked(answer="ignore"), marked(answer="reject")]
    found = read(tmp_path, *items)
    assert [sentence.tags for sentence in found] == [("B-PER", "O", "O")]
    assert found.report.left_out == {
        "records with the answer 'reject' (Prodigy)": 2,
        "records with the answer 'ignore' (Prodigy)": 1,
    }
    assert found.report.notes()[0] == "left out records with the answer 'reject' (Prodigy): 2"


def test_tasks_of_label_studio_that_were_skipped_are_not_gold(tmp_path: Path) -> None:
    found = read(tmp_path, task(annotation(ADA)), task(annotation(was_cancelled=True)), task())
    assert len(found) == 1
    assert found.report.left_out == {"tasks that were cancelled or skipped": 1, "tasks without annotations": 1}


@pytest.mark.parametrize("field", [{"annotation_approver": None}, {"annotations_approved_by": ""}, {"approved": False}])
def test_what_nobody_approved_in_doccano_is_left_out_unless_asked_for(tmp_path: Path, field: dict[str, Any]) -> None:
    items = [marked(ADA), marked(**field)]
    found = read(tmp_path, *items)
    assert (len(found), found.report.left_out) == (1, {"unapproved examples (doccano)": 1})
    assert len(read(tmp_path, *items, unapproved=True)) == 2
    assert len(read(tmp_path, marked(annotation_approver="eve"))) == 1


def test_texts_to_be_tagged_are_all_there(tmp_path: Path) -> None:
    items = [marked(answer="reject"), task(annotation(was_cancelled=True)), task(annotation(), annotation())]
    found = read(tmp_path, *items, gold=False)
    assert [sentence.tags for sentence in found] == [None] * 3
    assert not found.report.left_out


def test_several_annotators_of_a_task_are_chosen_by_any_of_their_names(tmp_path: Path) -> None:
    several = task(annotation(ADA, by=7), annotation(BOB, by={"id": 8, "email": "eve@x.org", "first_name": "Eve"}))
    with pytest.raises(DataError, match=r"found 2 by 7, eve@x.org/8/Eve; choose one with --annotator, or"):
        read(tmp_path, several)
    assert read(tmp_path, several, annotator="7").sentences[0].tags == ("B-PER", "O", "O")
    for name in ("8", "eve@x.org", "Eve"):
        assert read(tmp_path, several, annotator=name).sentences[0].tags == ("O", "O", "B-PER")
    nobody = read(tmp_path, several, annotator="Zoe")
    assert (len(nobody), nobody.report.left_out) == (0, {"tasks of other annotators": 1})


def test_the_majority_of_a_task(tmp_path: Path) -> None:
    three = task(annotation(ADA, BOB), annotation(ADA), annotation((0, 3, "ORG"), BOB))
    assert read(tmp_path, three, majority=True).sentences[0].tags == ("B-PER", "O", "B-PER")
    two = task(annotation(ADA, BOB), annotation(ADA))
    assert read(tmp_path, two, majority=True).sentences[0].tags == ("B-PER", "O", "O")


def test_several_annotators_of_prodigy_are_in_several_records(tmp_path: Path) -> None:
    by = [marked(*spans, _input_hash=5, _session_id=f"ner-{name}") for name, spans in PEOPLE.items()]
    other = {"text": "Eve", "spans": [], "_input_hash": 6, "_session_id": "ner-bo"}
    with pytest.raises(DataError, match=r":2: 'ner-al' annotated the same text at line 1, and 'ner-bo' here; choose"):
        read(tmp_path, *by, other)
    (chosen,) = read(tmp_path, *by, annotator="cy")
    assert chosen.tags == ("O", "O", "B-PER")
    first, second = read(tmp_path, by[0], other, *by[1:], majority=True)
    assert (first.tags, first.lines, second.tokens) == (("B-PER", "O", "B-PER"), (1,), ("Eve",))
    with pytest.raises(DataError, match="expected the name of an annotator, found none"):
        read(tmp_path, marked(ADA), annotator="cy")


PEOPLE = {"al": [ADA, BOB], "bo": [ADA], "cy": [BOB]}


def test_prodigys_tokens_are_no_tokens_of_ours(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(json.dumps(marked(ADA, tokens=[{"text": "Ada", "id": 0}])))
    assert corpus.read(tmp_path / "b.jsonl").format == "spans"


def test_hypertext_by_global_offsets_and_by_xpath(tmp_path: Path) -> None:
    html = "<div><p>One &amp; two<br>three</p><p>Ada <b>met</b> Bob</p></div>"
    place = {"start": "/div[1]/p[2]/text()[2]", "startOffset": 1, "end": "/div[1]/p[2]/text()[2]", "endOffset": 4}
    for extra in ({}, {"globalOffsets": {"start": 22, "end": 25}}):
        value = {**place, **extra, "text": "Bob", "hypertextlabels": ["PER"]}
        item = task({"result": [{"type": "hypertextlabels", "value": value}]}, text=html)
        (sentence,) = read(tmp_path, item)
        assert sentence.text == "One & twothreeAda met Bob"
        assert sentence.tags[-1] == "B-PER"
    wrong = {**value, "text": "Eve"}
    with pytest.raises(DataError, match=r"expected 'Eve', the text of the span, at \[22, 25, 'PER'\], found 'Bob'"):
        read(tmp_path, task({"result": [{"type": "hypertextlabels", "value": wrong}]}, text=html))


def test_paragraphs_are_sentences_of_their_own(tmp_path: Path) -> None:
    talk = [{"author": "a", "text": "Hi Bob"}, {"author": "b", "text": "Hi Ada"}]
    value = {"start": "1", "end": "1", "startOffset": 3, "endOffset": 6, "paragraphlabels": ["PER"]}
    first, second = read(tmp_path, task({"result": [{"type": "paragraphlabels", "value": value}]}, text=talk))
    assert (first.tags, second.tags) == (("O", "O"), ("O", "B-PER"))
    across = {**value, "start": "0"}
    with pytest.raises(DataError, match="expected a span within one of 2 paragraphs, found one from 0 to 1"):
        read(tmp_path, task({"result": [{"type": "paragraphlabels", "value": across}]}, text=talk))


CUT = {"text": "the Paris-based firm", "label": [[6, 9, "X"]]}


@pytest.mark.parametrize(
    ("align", "tokens", "tags", "kind"),
    [
        ("split", "the Pa ris - based firm", "O O B-X O O O", "tokens split where a span cuts them"),
        ("expand", "the Paris - based firm", "O B-X O O O", "spans expanded to whole tokens"),
    ],
)
def test_a_span_that_cuts_a_token(tmp_path: Path, align: str, tokens: str, tags: str, kind: str) -> None:
    found = read(tmp_path, CUT, align=align)
    (sentence,) = found
    assert (" ".join(sentence.tokens), " ".join(sentence.tags or ())) == (tokens, tags)
    assert all(sentence.text[a:b] == t for (a, b), t in zip(sentence.offsets, sentence.tokens, strict=True))
    listed = found.report.changed[kind]
    assert (listed.count, len(listed.first)) == (1, 1)
    assert listed.first[0].startswith(f"{tmp_path / 'a.jsonl'}:1: ")


def test_or_the_sentence_is_skipped_or_refused(tmp_path: Path) -> None:
    skipped = read(tmp_path, CUT, align="skip")
    assert (len(skipped), skipped.report.left_out) == (0, {"sentences with a span that cuts a token": 1})
    with pytest.raises(DataError, match=r"cuts the token 'Paris' at \[4, 9\]; expected .*: align 'split' splits"):
        read(tmp_path, CUT, align="error")
    with pytest.raises(DataError, match="align must be 'split', 'expand', 'skip' or 'error', got 'cut'"):
        read(tmp_path, CUT, align="cut")


def test_the_first_ten_changes_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    notes = read(tmp_path, *[CUT] * 13).report.notes()
    assert notes[0] == "tokens split where a span cuts them: 13"
    assert (len(notes), notes[-1]) == (12, "  and 3 more")


EMOJI = "Hi 😀😀 Maria Smith met IBM"
"""In UTF-16, Maria Smith is at 8 to 19; in characters, at 6 to 17."""


def quoting(*spans: tuple[int, int, str], text: str = EMOJI) -> dict[str, Any]:
    return {"text": text, "spans": [{"start": a, "end": b, "label": "X", "text": own} for a, b, own in spans]}


@pytest.mark.parametrize("tool", ["prodigy", "label studio"])
def test_offsets_in_utf16_are_told_by_the_texts_of_spans(tmp_path: Path, tool: str) -> None:
    record = quoting((8, 19, "Maria Smith"), (24, 27, "IBM"))
    if tool == "label studio":
        values = [{**span, "labels": [span["label"]]} for span in record["spans"]]
        record = task({"result": [{"type": "labels", "value": value} for value in values]}, text=EMOJI)
    data = read(tmp_path, record)
    assert data.sentences[0].tags == ("O", "O", "O", "B-X", "I-X", "O", "B-X")
    assert data.report.notes()[0] == "texts whose spans count UTF-16 code units, read so: 1"


@pytest.mark.parametrize("own", ["Maria Smith", " Maria Smith", "Maria Smith\n"])
def test_the_text_of_a_span_may_be_trimmed(tmp_path: Path, own: str) -> None:
    data = read(tmp_path, quoting((6, 17, own)), quoting((5, 18, own)))
    assert [sentence.tags[3:5] for sentence in data] == [("B-X", "I-X")] * 2
    assert data.report.notes() == []


def test_label_studio_escapes_the_ends_of_lines_in_the_text_of_a_span(tmp_path: Path) -> None:
    (sentence,) = read(tmp_path, quoting((0, 8, r"Ada\nKing"), text="Ada\nKing slept"))
    assert sentence.tags == ("B-X", "I-X", "O")


@pytest.mark.parametrize(
    ("spans", "place"),
    [
        ([(8, 19, "Maria Smith"), (22, 25, "IBM")], "at [8, 19, 'X'], found 'ria Smith m'"),  # one counts otherwise
        ([(7, 18, "Maria Smith")], "at [7, 18, 'X'], found 'aria Smith '"),
        ([(4, 19, "Maria Smith")], "at [4, 19, 'X'], found '😀 Maria Smith m'"),  # within an emoji
        ([(8, 99, "Maria Smith")], "at [8, 99, 'X'], found 'ria Smith met IBM'"),
        ([(-3, 11, "Maria Smith")], "at [-3, 11, 'X'], found ''"),
    ],
)
def test_a_span_whose_text_stands_elsewhere_is_refused(
    tmp_path: Path, spans: list[tuple[int, int, str]], place: str
) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, quoting((6, 17, "Maria Smith")), quoting(*spans))
    assert f"a.jsonl:2: expected 'Maria Smith', the text of the span, {place}" in str(caught.value)
