"""From file to file: formats and schemes together."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.corpus import convert
from trellis.errors import DataError
from trellis.tags import Scheme

IOB2 = "Ada\tB-PER\nKing\tI-PER\nwrote\tO\n\nUlm\tB-LOC\n\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.conll"
    path.write_text(IOB2)
    return path


def test_another_scheme(source: Path, tmp_path: Path) -> None:
    done = convert(source, tmp_path / "out.conll", to_scheme=Scheme.BIOES)
    assert (tmp_path / "out.conll").read_text() == "Ada\tB-PER\nKing\tE-PER\nwrote\tO\n\nUlm\tS-LOC\n\n"
    assert (done.sentences, done.from_scheme, done.to_scheme) == (2, Scheme.IOB2, Scheme.BIOES)


def test_there_and_back_through_spans(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "a.jsonl", to_format="spans", write_options={"shape": "entities"})
    first = (tmp_path / "a.jsonl").read_text().splitlines()[0]
    assert first == '{"text": "Ada King wrote", "entities": [[0, 8, "PER"]]}'
    convert(tmp_path / "a.jsonl", tmp_path / "back.conll", to_scheme=Scheme.IOB2)
    assert (tmp_path / "back.conll").read_text() == IOB2


def test_suffix_labels_keep_their_style_but_in_spans(tmp_path: Path) -> None:
    path = tmp_path / "in.conll"
    path.write_text("Ada\tPER-B\nKing\tPER-I\n\n")
    convert(path, tmp_path / "out.conll", to_scheme=Scheme.BIOES)
    assert (tmp_path / "out.conll").read_text() == "Ada\tPER-B\nKing\tPER-E\n\n"
    convert(path, tmp_path / "out.jsonl", to_format="spans")
    assert '[[0, 8, "PER"]]' in (tmp_path / "out.jsonl").read_text()


def test_words_with_labels_become_segmented_words(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("我们/r 玩/v\n")
    convert(path, tmp_path / "out.seg")
    assert (tmp_path / "out.seg").read_text() == "我们 玩\n"


def test_characters_with_boundaries_become_segmented_words(tmp_path: Path) -> None:
    path = tmp_path / "in.conll"
    path.write_text("我\tB\n们\tE\n玩\tS\n")
    convert(path, tmp_path / "out.seg")
    assert (tmp_path / "out.seg").read_text() == "我们 玩\n"
    convert(tmp_path / "out.seg", tmp_path / "back.conll")
    assert (tmp_path / "back.conll").read_text() == "我\tB\n们\tE\n玩\tS\n\n"


def test_entities_are_no_words(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the tag 'B-PER' has a type, so the tags do not say where words begin"):
        convert(source, tmp_path / "out.seg")


def test_illegal_tags_are_an_error_with_their_line(source: Path, tmp_path: Path) -> None:
    source.write_text(IOB2 + "x\tO\ny\tI-PER\n")
    with pytest.raises(DataError) as caught:
        convert(source, tmp_path / "out.conll", to_scheme=Scheme.BIOES)
    assert str(caught.value) == (
        f"{source}:8: bad tag 'I-PER': I-PER must follow B-PER or I-PER, not O (IOB2); 1 bad tag in 1 of 3 sentences: "
        '--on-bad-tags repair (in Python on_bad_tags="repair") reads them as seqeval does, drop leaves their sentences '
        "out: 'y I-PER'"
    )
    assert not (tmp_path / "out.conll").exists()


def test_a_given_scheme_overrules_the_best_fit(tmp_path: Path) -> None:
    path = tmp_path / "in.conll"
    path.write_text("a\tI-X\nb\tI-X\n")
    convert(path, tmp_path / "out.conll", from_scheme=Scheme.IOB1, to_scheme=Scheme.IOB2)
    assert (tmp_path / "out.conll").read_text() == "a\tB-X\nb\tI-X\n\n"


def test_sentences_without_tags_pass(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"tokens": ["a"]}\n{"tokens": ["b"], "tags": ["B-X"]}\n')
    convert(path, tmp_path / "out.jsonl", to_format="jsonl", to_scheme=Scheme.BIOES)
    assert (tmp_path / "out.jsonl").read_text() == '{"tokens": ["a"]}\n{"tokens": ["b"], "tags": ["S-X"]}\n'


def test_document_marks_and_comments_of_columns_are_kept(tmp_path: Path) -> None:
    head = "-DOCSTART- -X- O\n\n# id = 1 of 2\n"
    (tmp_path / "in.conll").write_text(f"{head}Ada NNP B-PER\n\nleft VBD O\n\n{head}Ulm NNP B-LOC\n\n")
    convert(tmp_path / "in.conll", tmp_path / "out.conll", to_scheme=Scheme.BIOES)
    kept = "-DOCSTART-\t-X-\tO\n\n# id = 1 of 2\n"
    out = f"{kept}Ada\tNNP\tS-PER\n\nleft\tVBD\tO\n\n{kept}Ulm\tNNP\tS-LOC\n\n"
    assert (tmp_path / "out.conll").read_text() == out
    convert(tmp_path / "out.conll", tmp_path / "again.conll")
    assert (tmp_path / "again.conll").read_text() == out


def test_a_comment_that_would_be_read_as_a_token_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "in.conll").write_text("# two words\na\tO\n\n")
    convert(tmp_path / "in.conll", tmp_path / "out.conll", write_options={"separator": "space"})
    assert (tmp_path / "out.conll").read_text() == "# two words\na O\n\n"
    (tmp_path / "in.conll").write_text("# word\na\tO\n\n")
    convert(tmp_path / "in.conll", tmp_path / "out.conll", write_options={"separator": "space"})
    assert (tmp_path / "out.conll").read_text() == "a O\n\n"


def test_bad_tags_are_refused_where_only_the_format_changes(source: Path, tmp_path: Path) -> None:
    source.write_text(IOB2 * 20 + "x\tO\ny\tI-PER\n\n" * 3 + "z\to\n")
    with pytest.raises(DataError) as caught:
        convert(source, tmp_path / "out.jsonl")
    assert str(caught.value).startswith(
        f"{source}:122: bad tag 'I-PER': I-PER must follow B-PER or I-PER, not O (IOB2); 4 bad tags: --on-bad-tags"
    )
    assert not (tmp_path / "out.jsonl").exists()
    convert(source, tmp_path / "out.jsonl", on_bad_tags="drop")
    assert (tmp_path / "out.jsonl").read_text().count("\n") == 40


@pytest.mark.parametrize("tags", ["NOUN VERB", "b-per i-per", "I-X I-X", "X-1 O", "", "B-X I-X"])
def test_tags_of_any_kind_pass(tmp_path: Path, tags: str) -> None:
    rows = [f"w\t{tag}\n" for tag in tags.split()] or ["w\n"]
    (tmp_path / "in.conll").write_text("".join(rows) + "\n")
    convert(tmp_path / "in.conll", tmp_path / "out.conll", from_format="conll", to_format="conll")
    assert (tmp_path / "out.conll").read_text() == "".join(rows) + "\n"
