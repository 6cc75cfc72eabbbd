"""What a writer writes, its reader reads back as the same sentences, whatever characters they hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.corpus.strategies import annotated, cells, segmented, sentences
from trellis import corpus
from trellis.corpus import source as source_module
from trellis.text import Sentence

FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

TABLE = st.one_of(cells(" \u3000"), st.text('",;\t|x', min_size=1).map(lambda cell: f"{cell}x".strip()))
BLOCKS = st.sampled_from([1, 2, 3, 7, 64, 1 << 20])


def round_trip(
    folder: Path,
    written: Sequence[Sentence],
    format: str,
    block: int,
    write: dict[str, Any] | None = None,
    read: dict[str, Any] | None = None,
) -> list[Sentence]:
    path = folder / "file"
    assert corpus.write(path, written, format=format, **(write or {})) == len(written)
    with mock.patch.object(source_module, "_BLOCK", block):
        return corpus.read(path, format=format, **(read or {})).sentences


@FILES
@given(st.data(), BLOCKS, st.integers(0, 3))
def test_conll_with_tabs(tmp_path: Path, data: st.DataObject, block: int, extra: int) -> None:
    names = tuple(str(i + 1) for i in range(extra))
    written = data.draw(st.lists(sentences(cells(), cells(), names), max_size=5))
    assert round_trip(tmp_path, written, "conll", block) == written


@FILES
@given(st.lists(sentences(cells(" "), cells(" "), ("1",)), max_size=5), BLOCKS)
def test_conll_with_spaces(tmp_path: Path, written: list[Sentence], block: int) -> None:
    options = {"separator": "space"}
    assert round_trip(tmp_path, written, "conll", block, write=options, read=options) == written


@FILES
@given(st.lists(sentences(cells(" ")), max_size=5), BLOCKS)
def test_conll_of_one_column_has_no_tags(tmp_path: Path, written: list[Sentence], block: int) -> None:
    assert round_trip(tmp_path, written, "conll", block) == written


@FILES
@given(st.lists(sentences(cells(), cells(), ("pos",)), max_size=4), BLOCKS)
def test_conll_columns_by_name(tmp_path: Path, written: list[Sentence], block: int) -> None:
    read = {"columns": ["token", "pos", "tag"], "tokens": "token", "tags": "tag"}
    assert round_trip(tmp_path, written, "conll", block, read=read) == written


@FILES
@given(st.lists(sentences(cells(), cells(), ("lemma", "xpos", "misc")), max_size=4), BLOCKS)
def test_conllu(tmp_path: Path, written: list[Sentence], block: int) -> None:
    written = [one.with_tags([f"X{tag}" for tag in one.tags or ()]) for one in written]  # no labels of spans
    read = {"columns": ["lemma", "xpos", "misc"]}
    assert round_trip(tmp_path, written, "conllu", block, read=read) == written


@FILES
@given(st.lists(sentences(cells(), st.sampled_from(["O", "B-X", "I-X"]), ("misc",)), max_size=4), BLOCKS)
def test_conllu_with_spans(tmp_path: Path, written: list[Sentence], block: int) -> None:
    read = [one.tags for one in round_trip(tmp_path, written, "conllu", block, read={"tags": "misc.NER"})]
    assert read == [one.tags for one in written]


@FILES
@given(st.lists(sentences(TABLE, TABLE, ("pos",)), max_size=5), BLOCKS, st.sampled_from(",;\t|"))
@example([Sentence(["a", ";\tx"], ["X", ";,x"], columns={"pos": ["N", "N"]})], 1, ",")  # no row is a sentence
def test_csv(tmp_path: Path, written: list[Sentence], block: int, delimiter: str) -> None:
    assert round_trip(tmp_path, written, "csv", block, write={"delimiter": delimiter}) == written


@FILES
@given(st.lists(annotated("words").filter(lambda s: len(s) > 0), max_size=4), BLOCKS)
def test_conllu_keeps_text_and_offsets(tmp_path: Path, written: list[Sentence], block: int) -> None:
    written = [
        s.with_tags(["X"] * len(s)) for s in written if s.text is not None and s.text.isprintable() and s.text.isascii()
    ]
    assert round_trip(tmp_path, written, "conllu", block, read={"columns": ()}) == written


@FILES
@given(st.lists(sentences(st.text(), st.text(), ("pos",), min_size=0), max_size=4), BLOCKS)
def test_jsonl_holds_any_string_at_all(tmp_path: Path, written: list[Sentence], block: int) -> None:
    assert round_trip(tmp_path, written, "jsonl", block) == written


@FILES
@given(st.lists(annotated("characters"), max_size=4), BLOCKS)
def test_jsonl_keeps_text_and_offsets(tmp_path: Path, written: list[Sentence], block: int) -> None:
    assert round_trip(tmp_path, written, "jsonl", block) == written


@pytest.mark.parametrize("tokenizer", ["words", "characters", "whitespace"])
@pytest.mark.parametrize("shape", ["label", "entities", "spans", "label_studio"])
@settings(FILES, max_examples=25)
@given(data=st.data(), block=BLOCKS)
def test_spans(tmp_path: Path, shape: str, tokenizer: str, data: st.DataObject, block: int) -> None:
    written = data.draw(st.lists(annotated(tokenizer), max_size=4))
    options = {"write": {"shape": shape}, "read": {"tokenizer": tokenizer}}
    assert round_trip(tmp_path, written, "spans", block, **options) == written


@FILES
@given(st.lists(segmented(), max_size=5), BLOCKS)
def test_segmented_characters(tmp_path: Path, written: list[Sentence], block: int) -> None:
    assert round_trip(tmp_path, written, "segmented", block) == written


@FILES
@given(st.lists(sentences(cells(" \u3000"), min_size=0), max_size=5), BLOCKS)
def test_segmented_words(tmp_path: Path, written: list[Sentence], block: int) -> None:
    assert round_trip(tmp_path, written, "segmented", block, read={"unit": "words"}) == written


@FILES
@given(st.lists(sentences(cells(" \u3000"), cells(" \u3000/"), min_size=0), max_size=5), BLOCKS)
def test_wordtag(tmp_path: Path, written: list[Sentence], block: int) -> None:
    assert round_trip(tmp_path, written, "wordtag", block) == written


@settings(deadline=None)
@given(st.lists(sentences(st.text(), st.sampled_from(["O", "B-X"]), ("pos",), min_size=0), max_size=4), st.booleans())
def test_rows(written: list[Sentence], named: bool) -> None:
    names = ["O", "B-X"] if named else None
    rows = list(corpus.to_rows(written, names=names))
    assert list(corpus.from_rows(rows, names=names)) == written
