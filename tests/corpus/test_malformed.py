"""Every way a file can be wrong, each with the exact message it gets."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trellis import corpus
from trellis.corpus import CorpusError
from trellis.corpus.sniff import binary_kind
from trellis.errors import DataError


class Case(NamedTuple):
    format: str
    content: str | bytes
    message: str
    options: dict[str, Any] = {}  # noqa: RUF012 - a constant of the table


class Line(NamedTuple):
    """A file, the number of its bad line, and the problem; the message ends with the text, by default that line."""

    format: str
    content: str | bytes
    number: int
    problem: str
    options: dict[str, Any] = {}  # noqa: RUF012 - a constant of the table
    text: str | None = None

    @property
    def message(self) -> str:
        whole = self.content.decode(errors="backslashreplace") if isinstance(self.content, bytes) else self.content
        text = re.split("\r?\n", whole)[self.number - 1] if self.text is None else self.text
        shown = text if len(text) <= 120 else f"{text[:120]}…"
        return f"f:{self.number}: {self.problem}: {shown!r}"


FIELDS = st.sampled_from(
    [
        *("tokens", "tags", "text", "offsets", "label", "spans", "entities", "data", "annotations", "result"),
        *("value", "start", "end", "labels", "type", "was_cancelled"),
    ]
)

CP1252 = 'it looks like cp1252: --encoding cp1252 (in Python encoding="cp1252")'
UD = "1\tDa\tdar\tVERB\tV\t_\t0\troot\t_\t_"

LINES = {
    "ragged, too few": Line(
        "conll", "a\tO\nb\n\nc\tO\n", 2, "expected 2 columns separated by tabs, as in line 1, found 1"
    ),
    "ragged, too many": Line(
        "conll", "a O\n\nb O\nc O O\n", 4, "expected 2 columns separated by spaces, as in line 1, found 3"
    ),
    "ragged, sums equal": Line(
        "conll", "a\tO\n\nb\nc\tO\tO\n", 3, "expected 2 columns separated by tabs, as in line 1, found 1"
    ),
    "ragged after CRLF, document mark and comment": Line(
        "conll",
        "-DOCSTART- -X- O\r\n\r\n# text a\r\na X O\r\n \t\r\nb O\r\n",
        6,
        "expected 3 columns separated by spaces, as in line 4, found 2",
    ),
    "a hashtag without a tag is no comment": Line(
        "conll", "a\tO\n\n#tag\nb\tO\n", 3, "expected 2 columns separated by tabs, as in line 1, found 1"
    ),
    "a comment inside a sentence": Line(
        "conll", "a\tO\n# what\nb\tO\n", 2, "expected 2 columns separated by tabs, as in line 1, found 1"
    ),
    "an empty token": Line("conll", "a\tO\n\tO\n", 2, "expected a token, found an empty column"),
    "an empty tag": Line("conll", "a\tO\nb\t\n", 2, "expected a tag, found an empty column"),
    "a document mark inside a sentence": Line(
        "conll", "a\tO\n-DOCSTART-\tO\n", 2, "expected a blank line before -DOCSTART-, found it inside a sentence"
    ),
    "a long line is shortened": Line(
        "conll", f"a\tO\n{'x' * 500}\n", 2, "expected 2 columns separated by tabs, as in line 1, found 1"
    ),
    "Latin-1 in conll": Line(
        "conll", b"a\tO\n\nb\tO\ncaf\xe9\tO\n", 4, f"expected text in utf-8, found byte 0xe9 at character 4; {CP1252}"
    ),
    "Latin-1 in lines": Line(
        "segmented", b"a b\ncaf\xe9 b\n", 2, f"expected text in utf-8, found byte 0xe9 at character 4; {CP1252}"
    ),
    "conllu with nine columns": Line(
        "conllu", f"# text = Da\n{UD[:-2]}\n", 2, "expected 10 columns separated by tabs, found 9"
    ),
    "conllu with a gap in the IDs": Line(
        "conllu", f"{UD}\n3{UD[1:]}\n", 2, "expected the word with ID 2, found ID '3'"
    ),
    "conllu with an ID that is none": Line("conllu", f"x{UD[1:]}\n", 1, "expected the word with ID 1, found ID 'x'"),
    "conllu with an empty word": Line(
        "conllu", "1\t\t_\t_\t_\t_\t_\t_\t_\t_\n", 1, "expected a word, found an empty column"
    ),
    "jsonl that is no JSON": Line(
        "jsonl", '{"tokens": []}\n\n{"tokens": [}\n', 3, "expected JSON: Expecting value: line 1 column 13 (char 12)"
    ),
    "jsonl that is no object": Line("jsonl", "3\n", 1, "expected a JSON object"),
    "jsonl without tokens": Line(
        "jsonl", '{"words": []}\n', 1, "expected a field 'tokens', found 'words'; --tokens and --tags name others"
    ),
    "jsonl with tokens that are no list": Line(
        "jsonl", '{"tokens": "ab"}\n', 1, "expected a list in 'tokens', found 'ab'"
    ),
    "jsonl with a token that is no string": Line(
        "jsonl", '{"tokens": [null]}\n', 1, "expected strings in 'tokens', found None"
    ),
    "jsonl with fewer tags than tokens": Line(
        "jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}\n', 1, "expected as many 'tags' as 'tokens', found 1 and 2"
    ),
    "jsonl with ids without names": Line(
        "jsonl",
        '{"tokens": ["a"], "tags": [0]}\n',
        1,
        "expected strings in 'tags', found the number 0: write its name, or give the names of all "
        "numbers, --names O,B-PER (in Python names=[...])",
    ),
    "jsonl with an id beyond the names": Line(
        "jsonl",
        '{"tokens": ["a"], "tags": [2]}\n',
        1,
        "expected ids 0 to 1 in 'tags', found 2",
        {"names": ["O", "B-X"]},
    ),
    "jsonl with wrong offsets": Line(
        "jsonl",
        '{"tokens": ["b"], "text": "a", "offsets": [[0, 1]]}\n',
        1,
        "offsets (0, 1) give 'a', not the token 'b'",
    ),
    "jsonl with offsets that are none": Line(
        "jsonl", '{"tokens": ["a"], "text": "a", "offsets": [0]}\n', 1, "expected a list of [start, end] in 'offsets'"
    ),
    "a span beyond the text": Line(
        "spans",
        '{"text": "Paris", "label": [[0, 6, "X"]]}\n',
        1,
        "the span [0, 6, 'X'] does not lie in the text of 5 characters: expected 0 <= start < end <= 5",
    ),
    "a span of white space": Line(
        "spans", '{"text": "a  b", "label": [[1, 3, "X"]]}\n', 1, "the span [1, 3, 'X'] covers no token, only '  '"
    ),
    "spans that overlap": Line(
        "spans",
        '{"text": "a b", "label": [[0, 3, "X"], [2, 3, "Y"]]}\n',
        1,
        "the span [2, 3, 'Y'] 'b' and the span [0, 3, 'X'] 'a b' overlap, and a token has one tag; --overlaps longest "
        "or first (in Python overlaps=) takes one of them",
    ),
    "a span without a label": Line(
        "spans", '{"text": "a", "label": [[0, 1]]}\n', 1, "expected a span as [start, end, label], found [0, 1]"
    ),
    "spans that are no list": Line(
        "spans", '{"text": "a", "label": "X"}\n', 1, "expected a list of spans in 'label', found 'X'"
    ),
    "no text": Line("spans", '{"label": []}\n', 1, "expected a string in 'text', found the fields 'label'"),
    "two annotators of one task": Line(
        "spans",
        '{"data": {"text": "a"}, "annotations": [{"result": []}, {"result": []}]}\n',
        1,
        "expected one annotation of the task, found 2 by ?, ?; choose one with --annotator, or take the --majority",
    ),
    "annotations that are none": Line(
        "spans", '{"data": {"text": "a"}, "annotations": [3]}\n', 1, "expected a list of objects in 'annotations'"
    ),
    "an annotation without a result": Line(
        "spans", '{"data": {"text": "a"}, "annotations": [{}]}\n', 1, "expected a list of objects in 'result'"
    ),
    "a task with two texts": Line("spans", '{"data": {"a": "x", "b": "y"}}\n', 1, "expected one text in 'data'"),
    "an array cut off": Line(
        "spans",
        '[{"text": "a"},\n {"text": ',
        2,
        "expected JSON: Expecting value: line 1 column 10 (char 9)",
        text='{"text": ',
    ),
    "an array with a bad element": Line(
        "jsonl",
        '[{"tokens": ["a"]},\n {"tokens": [}}, {"tokens": []}]',
        2,
        "expected JSON: Expecting value: line 1 column 13 (char 12)",
        text='{"tokens": [}}',
    ),
    "an array that does not end": Line(
        "jsonl", '[{"tokens": []},\n', 2, "expected ']' at the end of the array, found the end of the file"
    ),
    "something behind an array": Line(
        "jsonl", '[{"tokens": []}]\n[{}]\n', 2, "expected the end of the file after the array"
    ),
    "an array with a byte that does not decode": Line(
        "jsonl",
        b'[{"tokens": ["a\xff"]}]',
        1,
        "expected text in utf-8, found byte 0xff at character 15; pass the right encoding",
        text='{"tokens": ["a\\xff"]}',
    ),
    "a number of too many digits": Line(
        "jsonl", f'{{"tokens": [], "id": {"1" * 5000}}}', 1, "expected JSON: a number has more than 4300 digits"
    ),
    "a number of too many digits in an array": Line(
        "jsonl",
        f'[{{"tokens": [], "id": {"1" * 5000}}}]',
        1,
        "expected JSON: a number has more than 4300 digits",
        text=f'{{"tokens": [], "id": {"1" * 5000}}}',
    ),
    "deep nesting": Line("jsonl", '{"tokens":' + "[" * 100_000, 1, "expected JSON: it is nested too deeply"),
    "deep nesting in an array": Line(
        "jsonl",
        '[{"tokens":' + "[" * 100_000 + "]" * 100_000 + "}]",
        1,
        "expected JSON: it is nested too deeply",
        text='{"tokens":' + "[" * 1000,
    ),
    "deep nesting that can be parsed": Line(
        "jsonl", '{"tokens": [' + "[" * 400 + "]" * 400 + "]}", 1, "expected strings in 'tokens', found [[[[[...]]]]]"
    ),
    "a value of many characters": Line(
        "jsonl", f'{{"tokens": "{"x" * 10_000}"}}', 1, f"expected a list in 'tokens', found '{'x' * 57}...{'x' * 58}'"
    ),
    "many fields": Line(
        "jsonl",
        json.dumps({f"f{i}": 1 for i in range(30)}),
        1,
        "expected a field 'tokens', found 'f0', 'f1', 'f2', 'f3', 'f4', 'f5', 'f6', 'f7', 'f8', 'f9', ...; "
        "--tokens and --tags name others",
    ),
    "offsets that end beyond the text": Line(
        "jsonl",
        '{"tokens": ["a"], "text": "a", "offsets": [[0, 9]]}\n',
        1,
        "offsets (0, 9) give 'a', not the token 'a'",
    ),
    "offsets that end before they begin": Line(
        "jsonl",
        '{"tokens": ["a"], "text": "ab", "offsets": [[0, -1]]}\n',
        1,
        "offsets (0, -1) give '', not the token 'a'",
    ),
    "a word without a tag": Line("wordtag", "a/X\nb/X c\n", 2, "expected word/TAG, found 'c'"),
    "a tag without a word": Line("wordtag", "/X\n", 1, "expected word/TAG, found '/X'"),
    "a word with an empty tag": Line("wordtag", "a/\n", 1, "expected word/TAG, found 'a/'"),
}

WHOLE_FILES = {
    "unknown column by name": Case(
        "conll",
        "\na X O\n",
        "f:2: unknown column 'ner', expected one of token, pos, tag: 'a X O'",
        {"columns": ["token", "pos", "tag"], "tags": "ner"},
    ),
    "unknown column by index": Case(
        "conll", "a O\n", "f:1: unknown column 2, expected one of 0, 1: 'a O'", {"tags": 2}
    ),
    "wrong number of names": Case(
        "conll", "a O\n", "f:1: expected the 3 columns x, y, z, found 2: 'a O'", {"columns": ["x", "y", "z"]}
    ),
    "unknown separator": Case("conll", "a O\n", "separator must be 'tab' or 'space', got ','", {"separator": ","}),
    "unknown column of conllu": Case(
        "conllu",
        "",
        "unknown column 'ner', expected one of id, form, lemma, upos, xpos, feats, head, deprel, deps, misc",
        {"tags": "ner"},
    ),
    "unknown unit": Case("segmented", "", "unit must be 'characters' or 'words', got 'bytes'", {"unit": "bytes"}),
    "unknown format": Case(
        "xml",
        "",
        "unknown format 'xml', expected one of conll, conllu, jsonl, spans, segmented, wordtag, csv, excel, brat, "
        "spacy",
    ),
    "unknown option": Case("wordtag", "", "reading wordtag knows no option 'tags', only delimiter", {"tags": 1}),
    "unknown encoding": Case("conll", "", "unknown encoding 'utf-9'", {"encoding": "utf-9"}),
    "wrong on_error": Case("conll", "", "on_error must be 'raise' or 'skip', got 'drop'", {"on_error": "drop"}),
}


def message_of(folder: Path, case: Case | Line, monkeypatch: pytest.MonkeyPatch) -> DataError:
    monkeypatch.chdir(folder)
    content = case.content.encode() if isinstance(case.content, str) else case.content
    Path("f").write_bytes(content)
    with pytest.raises(DataError) as caught:
        corpus.read("f", format=case.format, **case.options)
    return caught.value


@pytest.mark.parametrize("case", LINES.values(), ids=LINES.keys())
def test_a_bad_line_is_named(case: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = message_of(tmp_path, case, monkeypatch)
    assert str(error) == case.message
    assert isinstance(error, CorpusError)
    assert error.path == "f"
    assert case.message.startswith(f"f:{error.line}: {error.problem}: ")


@pytest.mark.parametrize("case", LINES.values(), ids=LINES.keys())
def test_a_bad_line_is_skipped_and_counted_if_asked(
    case: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = message_of(tmp_path, case, monkeypatch)
    report = corpus.read("f", format=case.format, on_error="skip", **case.options).report
    assert report.skipped == 1
    assert [str(error) for error in report.errors] == [str(expected)]


@pytest.mark.parametrize("case", WHOLE_FILES.values(), ids=WHOLE_FILES.keys())
def test_a_wrong_request_is_explained(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(message_of(tmp_path, case, monkeypatch)) == case.message


def test_skipping_leaves_the_other_sentences(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a\tO\n\nb\n\nc\tO\n\ncaf\xe9\tO\n\nd\tO\n")
    read = corpus.read(path, format="conll", on_error="skip")
    assert [sentence.tokens for sentence in read] == [("a",), ("c",), ("d",)]
    assert [error.line for error in read.report.errors] == [3, 7]


def test_only_the_first_hundred_errors_are_kept_and_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a/X\n" + "b\n" * 250)
    report = corpus.read(path, format="wordtag", on_error="skip").report
    assert (report.skipped, len(report.errors)) == (250, 100)


ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 5), st.floats(allow_nan=False), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(FIELDS, inner, max_size=4)),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(format=st.sampled_from([None, "jsonl", "spans"]), record=ANY_JSON)
def test_any_json_is_read_or_refused(tmp_path: Path, format: str | None, record: object) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps(record))
    with contextlib.suppress(DataError):
        corpus.read(path, format=format)


@pytest.mark.filterwarnings("ignore:.*words of a segmentation")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    format=st.sampled_from([None, *corpus.FORMATS]),
    content=st.one_of(st.binary(max_size=60), st.text('a/\t\n\r #1-.[]{}":,', max_size=60).map(str.encode)),
)
def test_any_bytes_are_read_or_refused(tmp_path: Path, format: str | None, content: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        corpus.read(path, format=format)
    if format not in ("spacy", "csv", "excel", "brat") and binary_kind(content) is None:
        assert corpus.read(path, format=format or "conll", on_error="skip").report.skipped >= 0


def test_a_bad_element_of_an_array_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    elements = [
        b'{"tokens": ["a"]}',
        b'{"tokens": ["b\xff"]}',
        b'{"tokens": ["c" "d"]}',
        b'{"tokens": [1e999, NaN, "]"]}',
        b'{"tokens": ["\\""], "id": ' + b"9" * 5000 + b"}",
        b"nul",
        b'"text"',
        b"17",
        b'{"tokens": ["z"]}',
    ]
    path.write_bytes(b"[" + b",\n".join(elements) + b"]")
    read = corpus.read(path, on_error="skip")
    assert [sentence.tokens for sentence in read] == [("a",), ("z",)]
    assert [error.line for error in read.report.errors] == [2, 3, 4, 5, 6, 7, 8]
    assert read.report.skipped == 7


def test_an_array_is_told_by_its_first_element_however_long(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for record, expected in [
        ({"text": "a" * 2_000_000, "label": []}, "spans"),
        ({"tokens": ["a" * 2_000_000]}, "jsonl"),
        ({"data": {"text": "a " * 1_000_000}}, "spans"),
    ]:
        path.write_text(json.dumps([record]))
        assert corpus.iterate(path).format == expected
