"""Lines, sentences and records of absurd length: refused with their place, or passed over without a trace in memory."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trellis import corpus
from trellis.corpus import CorpusError, jsonl
from trellis.corpus import source as source_module
from trellis.corpus.source import Source
from trellis.errors import DataError

LIMIT = 100


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "LONGEST", LIMIT)
    monkeypatch.setattr(source_module, "_BLOCK", 10)
    monkeypatch.setattr(source_module, "_KEPT_TEXT", 20)
    monkeypatch.setattr(jsonl, "_PIECE", 10)


def write(folder: Path, content: str) -> Path:
    path = folder / "f"
    path.write_text(content)
    return path


LONG = "x" * 300
CASES = {
    "conll, a line": ("conll", f"a\tO\n\nb\tO\n{LONG}\tO\nc\tO\n\nd\tO\n", 4, "100 characters on a line", "ad"),
    "conll, a sentence": (
        "conll",
        "a\tO\n\n\n" + "b\tO\n" * 99 + "\nd\tO\n",
        4,
        "a blank line within 100 characters from here, found none",
        "ad",
    ),
    "conll, the last sentence": ("conll", "a\tO\n\n" + "b\tO\n" * 99, 3, "a blank line within 100 characters", "a"),
    "jsonl, a line": (
        "jsonl",
        f'{{"tokens": ["a"]}}\n{{"tokens": ["{LONG}"]}}\n{{"tokens": ["d"]}}\n',
        2,
        "at most 100 characters on a line, found more",
        "ad",
    ),
    "jsonl, the last line": ("jsonl", f'{{"tokens": ["a"]}}\n{{"tokens": ["{LONG}', 2, "on a line, found more", "a"),
    "an array": (
        "jsonl",
        f'[{{"tokens": ["a"]}},\n{{"tokens": ["{LONG}"]}},\n{{"tokens": ["d"]}}]\n',
        2,
        "records of at most 100 characters, found more",
        "a",
    ),
    "wordtag": ("wordtag", f"a/X\n{LONG}/X\nd/X\n", 2, "on a line, found more", "ad"),
    "segmented": ("segmented", f"a\n{LONG}\nd\n", 2, "on a line, found more", "ad"),
}


@pytest.mark.parametrize(("format", "content", "line", "problem", "left"), CASES.values(), ids=CASES.keys())
def test_what_is_too_long_is_named_or_skipped(
    tmp_path: Path, format: str, content: str, line: int, problem: str, left: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(CorpusError, match=problem) as caught:
        corpus.read(path, format=format)
    assert caught.value.line == line
    read = corpus.read(path, format=format, on_error="skip")
    assert "".join(token for sentence in read for token in sentence.tokens) == left
    assert [error.line for error in read.report.errors] == [line]
    assert (read.report.skipped, read.report.errors[0].problem) == (1, caught.value.problem)


def test_a_line_that_never_ends_is_refused_even_when_skipping(tmp_path: Path) -> None:
    path = write(tmp_path, "a/X\n" + "x" * 18 * LIMIT)
    with pytest.raises(DataError, match=r"f:2: expected a line that ends, found more than 1,600 characters$"):
        corpus.read(path, format="wordtag", on_error="skip")


def test_skipping_keeps_little_of_what_it_skips(tmp_path: Path) -> None:
    path = write(tmp_path, ("x" * 90 + "\n") * 3)
    (error, *_) = corpus.read(path, format="wordtag", on_error="skip").report.errors
    assert len(error.text) == len(error.whole) == 20


LINES = st.lists(st.sampled_from(["", "", " ", "a", "b" * 7, "c" * 19, "d" * 60]), max_size=12)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, limit=st.integers(10, 40), block=st.sampled_from([1, 3, 10, 99]))
def test_sentences_beside_those_that_are_too_long_keep_their_lines(
    tmp_path: Path, lines: list[str], limit: int, block: int
) -> None:
    path = write(tmp_path, "".join(f"{line}\n" for line in lines))
    with mock.patch.object(source_module, "LONGEST", 1 << 20):
        sentences = [list(numbers) for numbers, _ in Source(path).paragraphs()]
    sizes = [sum(len(lines[number - 1]) + 1 for number in numbers) for numbers in sentences]
    with mock.patch.object(source_module, "LONGEST", limit), mock.patch.object(source_module, "_BLOCK", block):
        source = Source(path, on_error="skip")
        found = [list(numbers) for numbers, _ in source.paragraphs()]
    assert [numbers for numbers in sentences if numbers in found] == found
    assert all(numbers in found for numbers, size in zip(sentences, sizes, strict=True) if size < limit - 1)
    assert source.report.skipped == len(sentences) - len(found)
    assert all(size >= limit - block for numbers, size in zip(sentences, sizes, strict=True) if numbers not in found)


RECORDS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.dictionaries(st.text(max_size=3), RECORDS, max_size=2),
    rest=st.lists(RECORDS, max_size=6),
    indent=st.sampled_from([None, 0, 1]),
    piece=st.sampled_from([1, 2, 7, 999]),
)
def test_the_elements_of_an_array_are_those_that_json_finds(
    tmp_path: Path, first: object, rest: list[object], indent: int | None, piece: int
) -> None:
    text = json.dumps([first, *rest], indent=indent)
    with mock.patch.object(source_module, "LONGEST", 1 << 20), mock.patch.object(jsonl, "_PIECE", piece):
        found = list(jsonl.records(Source(write(tmp_path, text))))
    assert [record for _, _, record in found] == [first, *rest]
    assert [json.loads(part) for _, part, _ in found] == [first, *rest]
    lines = text.split("\n")
    assert all(part.split("\n")[0] in lines[number - 1] for number, part, _ in found)
