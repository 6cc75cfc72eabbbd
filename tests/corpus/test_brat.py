"""Folders of brat: texts with annotations beside them, read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trellis import corpus
from trellis.corpus import Corpus
from trellis.errors import DataError, DataWarning
from trellis.text import Sentence

NOTE = "Ada slept in London. Bob ate.\r\nNew\r\nYork is big.\n"
ANNOTATIONS = (
    "T1\tPER 0 3\tAda\nT2\tLOC 13 19\tLondon\nR1\tsleeps_in Arg1:T1 Arg2:T2\nT3\tPER 21 24\tBob\n"
    "T4\tLOC 31 34;36 40\tNew York\n#1\tAnnotatorNotes T1\tsure\n"
)


def folder(path: Path, **documents: tuple[str, str]) -> Path:
    path.mkdir(exist_ok=True)
    for name, (text, lines) in documents.items():
        (path / f"{name}.txt").write_bytes(text.encode())
        (path / f"{name}.ann").write_text(lines)
    return path


def spans(found: Corpus) -> list[Any]:
    return [(" ".join(one.tokens), " ".join(one.tags or ())) for one in found]


def test_a_folder_is_read_sentence_by_sentence_and_what_is_no_span_is_counted(tmp_path: Path) -> None:
    path = folder(tmp_path / "data", note=(NOTE, ANNOTATIONS))
    (path / "alone.txt").write_text("nobody annotated this")
    found = corpus.read(path)
    assert spans(found) == [
        ("Ada slept in London .", "B-PER O O B-LOC O"),
        ("Bob ate .", "B-PER O O"),
        ("New York is big .", "B-LOC I-LOC O O O"),  # no span is cut
    ]
    assert found.sentences[2].where == f"{path}/note.txt:2"
    assert found.report.notes() == [
        "left out texts without annotations (.ann): 1",
        "relations (R) of brat, which are not read: 1",
        f"  {path}/note.ann:3",
        "notes (#) of brat, which are not read: 1",
        f"  {path}/note.ann:6",
    ]
    assert spans(corpus.read(path / "note.ann")) == spans(found)


def test_documents_that_are_written_again_have_the_same_text_and_spans(tmp_path: Path) -> None:
    path = folder(tmp_path / "data", note=(NOTE, ANNOTATIONS), other=("Ada 😀 Bob", "T9\tPER 6 9\tBob\n"))
    (path / "below").mkdir()
    folder(path / "below", note=("Oslo", "T1\tLOC 0 4\tOslo"))
    done = corpus.convert(path, tmp_path / "out", to_format="brat")
    assert done.sentences == 5
    for name in ("note.txt", "other.txt", "below/note.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (path / name).read_bytes()
    only_spans = [line for line in ANNOTATIONS.splitlines() if line.startswith("T")]
    assert (tmp_path / "out" / "note.ann").read_text().splitlines() == only_spans
    assert (tmp_path / "out" / "other.ann").read_text() == "T1\tPER 6 9\tBob\n"
    assert spans(corpus.read(tmp_path / "out")) == spans(corpus.read(path))


def test_sentences_of_other_formats_become_documents_of_a_hundred_lines(tmp_path: Path) -> None:
    sentences = [Sentence(["Ada", "slept"], ["B-PER", "O"])] * 101
    corpus.write(tmp_path / "out", sentences, format="brat")
    assert sorted(path.name for path in (tmp_path / "out").glob("*.txt")) == ["text-001.txt", "text-002.txt"]
    assert (tmp_path / "out" / "text-002.txt").read_text() == "Ada slept\n"
    assert (tmp_path / "out" / "text-001.ann").read_text().splitlines()[1] == "T2\tPER 10 13\tAda"
    assert spans(corpus.read(tmp_path / "out")) == [("Ada slept", "B-PER O")] * 101


def test_documents_that_were_there_before_are_told(tmp_path: Path) -> None:
    sentences = [Sentence(["Ada"], ["B-PER"], path="a.conll")] * 150
    assert corpus.write(tmp_path, sentences, format="brat") == 150
    assert corpus.write(tmp_path, sentences, format="brat") == 150  # the same again
    with pytest.warns(DataWarning, match=r"has 1 other document, that it had before: a-002\.ann"):
        corpus.write(tmp_path, sentences[:1], format="brat")


def test_lines_that_are_wrapped_are_joined(tmp_path: Path) -> None:
    wrapped = "Ada slept in\nlondon. Bob\nate."
    assert [one for one, _ in spans(corpus.read(folder(tmp_path / "a", a=(wrapped, ""))))] == [
        "Ada slept in london .",
        "Bob ate .",
    ]


def test_offsets_may_count_utf16(tmp_path: Path) -> None:
    found = corpus.read(folder(tmp_path / "a", a=("😀 Ada", "T1\tPER 3 6\tAda\n")))
    assert spans(found) == [("😀 Ada", "O B-PER")]
    assert found.report.notes()[0] == "spans that count UTF-16 code units, read so: 1"


PARTS = ("left and right lung", "T1\tORG 0 4;15 19\tleft lung\nT2\tORG 9 19\tright lung\n")


@pytest.mark.parametrize(
    ("overlaps", "tags", "note"),
    [
        ("longest", "B-ORG I-ORG I-ORG I-ORG", "[9, 19, 'ORG'] 'right lung' overlaps the span [0, 19, 'ORG']"),
        ("first", "B-ORG I-ORG I-ORG I-ORG", "[9, 19, 'ORG'] 'right lung' overlaps the span [0, 19, 'ORG']"),
        ("error", None, r"a\.txt:1: the span \[9, 19, 'ORG'\] 'right lung' and .* overlap, .*--overlaps longest"),
    ],
)
def test_spans_in_parts_and_overlaps_are_shown(tmp_path: Path, overlaps: Any, tags: str | None, note: str) -> None:
    path = folder(tmp_path / "a", a=PARTS)
    if tags is None:
        with pytest.raises(DataError, match=note):
            corpus.read(path, overlaps=overlaps)
        return
    found = corpus.read(path, overlaps=overlaps)
    assert spans(found) == [("left and right lung", tags)]
    notes = found.report.notes()
    assert notes[0] == "spans in several parts, read as one from the first to the last: 1"
    assert "'left lung' became 'left and right lung'" in notes[1]
    assert notes[2] == "overlapping spans left out: 1"
    assert note in notes[3]


@pytest.mark.parametrize(("overlaps", "tags"), [("longest", "O B-B I-B O"), ("first", "B-A I-A B-C I-C")])
def test_the_longest_or_the_first_span_stays(tmp_path: Path, overlaps: Any, tags: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "aa bb cccccc d", "label": [[0, 5, "A"], [3, 12, "B"], [3, 12, "B"], [6, 14, "C"]]}\n')
    (sentence,) = corpus.read(path, overlaps=overlaps)
    assert " ".join(sentence.tags or ()) == tags


def test_a_span_that_is_marked_twice_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "aa bb", "label": [[0, 2, "A"], [0, 2, "A"]]}\n')
    found = corpus.read(path)
    assert spans(found) == [("aa bb", "B-A O")]
    assert found.report.notes() == []


@pytest.mark.parametrize(
    ("text", "annotations", "problem"),
    [
        ("Ada", "T1\tPER 0 3\tBob\n", r"a\.ann:1: expected the text 'Bob' at 0 3, found 'Ada' in a text of 3"),
        ("Ada", "T1\tPER 0 9\tAda\n", r"a\.ann:1: expected the text 'Ada' at 0 9"),
        ("Ada", "T1 PER 0 3 Ada\n", r"a\.ann:1: expected a span as T1<tab>LABEL START END<tab>text"),
        ("Ada", "T1\tPER 3 0\tAda\n", r"a\.ann:1: expected the text"),
    ],
)
def test_annotations_that_do_not_fit_are_named(tmp_path: Path, text: str, annotations: str, problem: str) -> None:
    path = folder(tmp_path / "a", a=(text, annotations))
    with pytest.raises(DataError, match=problem):
        corpus.read(path)
    assert corpus.read(path, on_error="skip").report.skipped == 1


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path / "a", a=("Ada", ""))
    (path / "a.txt").unlink()
    with pytest.raises(DataError, match=r"a\.txt: No such file"):
        corpus.read(path)
    (path / "a.txt").write_bytes("Müller".encode("cp1252"))
    with pytest.raises(DataError, match=r"a\.txt: expected text in utf-8, .*byte 1"):
        corpus.read(path)
    with pytest.raises(DataError, match="expected conll, found a folder"):
        corpus.read(path, format="conll")
    with pytest.raises(DataError, match="cannot be the label of a span in brat"):
        corpus.write(tmp_path / "out", [Sentence(["a"], ["B-X Y"])], format="brat", scheme="IOB2")
