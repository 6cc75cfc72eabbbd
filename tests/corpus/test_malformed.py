"""Every way a file can be wrong, each with the exact message it gets."""

from __future__ import annotations

import contextlib
import json
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


FIELDS = st.sampled_from(
    [
        *("tokens", "tags", "text", "offsets", "label", "spans", "entities", "data", "annotations", "result"),
        *("value", "start", "end", "labels", "type", "was_cancelled"),
    ]
)

UD = "1\tDa\tdar\tVERB\tV\t_\t0\troot\t_\t_"

LINES = {
    "ragged, too few": Case(
        "conll",
        "a\tO\nb\n\nc\tO\n",
        "f:2: expected 2 columns separated by tabs, as in line 1, found 1: 'b'",
    ),
    "ragged, too many": Case(
        "conll",
        "a O\n\nb O\nc O O\n",
        "f:4: expected 2 columns separated by spaces, as in line 1, found 3: 'c O O'",
    ),
    "ragged, sums equal": Case(
        "conll",
        "a\tO\n\nb\nc\tO\tO\n",
        "f:3: expected 2 columns separated by tabs, as in line 1, found 1: 'b'",
    ),
    "ragged after CRLF, document mark and comment": Case(
        "conll",
        "-DOCSTART- -X- O\r\n\r\n# text a\r\na X O\r\n \t\r\nb O\r\n",
        "f:6: expected 3 columns separated by spaces, as in line 4, found 2: 'b O'",
    ),
    "a hashtag without a tag is no comment": Case(
        "conll",
        "a\tO\n\n#tag\nb\tO\n",
        "f:3: expected 2 columns separated by tabs, as in line 1, found 1: '#tag'",
    ),
    "a comment inside a sentence": Case(
        "conll",
        "a\tO\n# what\nb\tO\n",
        "f:2: expected 2 columns separated by tabs, as in line 1, found 1: '# what'",
    ),
    "an empty token": Case("conll", "a\tO\n\tO\n", "f:2: expected a token, found an empty column: '\\tO'"),
    "an empty tag": Case("conll", "a\tO\nb\t\n", "f:2: expected a tag, found an empty column: 'b\\t'"),
    "a document mark inside a sentence": Case(
        "conll",
        "a\tO\n-DOCSTART-\tO\n",
        "f:2: expected a blank line before -DOCSTART-, found it inside a sentence: '-DOCSTART-\\tO'",
    ),
    "a long line is shortened": Case(
        "conll",
        f"a\tO\n{'x' * 500}\n",
        f"f:2: expected 2 columns separated by tabs, as in line 1, found 1: '{'x' * 120}…'",
    ),
    "Latin-1 in conll": Case(
        "conll",
        b"a\tO\n\nb\tO\ncaf\xe9\tO\n",
        "f:4: expected text in utf-8, found byte 0xe9 at character 4; it looks like cp1252: --encoding cp1252 "
        "(in Python encoding=\"cp1252\"): 'caf\\\\xe9\\tO'",
    ),
    "Latin-1 in lines": Case(
        "segmented",
        b"a b\ncaf\xe9 b\n",
        "f:2: expected text in utf-8, found byte 0xe9 at character 4; it looks like cp1252: --encoding cp1252 "
        "(in Python encoding=\"cp1252\"): 'caf\\\\xe9 b'",
    ),
    "conllu with nine columns": Case(
        "conllu",
        f"# text = Da\n{UD[:-2]}\n",
        "f:2: expected 10 columns separated by tabs, found 9: '1\\tDa\\tdar\\tVERB\\tV\\t_\\t0\\troot\\t_'",
    ),
    "conllu with a gap in the IDs": Case(
        "conllu",
        f"{UD}\n3{UD[1:]}\n",
        "f:2: expected the word with ID 2, found ID '3': '3\\tDa\\tdar\\tVERB\\tV\\t_\\t0\\troot\\t_\\t_'",
    ),
    "conllu with an ID that is none": Case(
        "conllu",
        f"x{UD[1:]}\n",
        "f:1: expected the word with ID 1, found ID 'x': 'x\\tDa\\tdar\\tVERB\\tV\\t_\\t0\\troot\\t_\\t_'",
    ),
    "conllu with an empty word": Case(
        "conllu",
        "1\t\t_\t_\t_\t_\t_\t_\t_\t_\n",
        "f:1: expected a word, found an empty column: '1\\t\\t_\\t_\\t_\\t_\\t_\\t_\\t_\\t_'",
    ),
    "jsonl that is no JSON": Case(
        "jsonl",
        '{"tokens": []}\n\n{"tokens": [}\n',
        "f:3: expected JSON: Expecting value: line 1 column 13 (char 12): '{\"tokens\": [}'",
    ),
    "jsonl that is no object": Case("jsonl", "3\n", "f:1: expected a JSON object: '3'"),
    "jsonl without tokens": Case(
        "jsonl",
        '{"words": []}\n',
        "f:1: expected a field 'tokens', found 'words'; --tokens and --tags name others: '{\"words\": []}'",
    ),
    "jsonl with tokens that are no list": Case(
        "jsonl", '{"tokens": "ab"}\n', "f:1: expected a list in 'tokens', found 'ab': '{\"tokens\": \"ab\"}'"
    ),
    "jsonl with a token that is no string": Case(
        "jsonl", '{"tokens": [null]}\n', "f:1: expected strings in 'tokens', found None: '{\"tokens\": [null]}'"
    ),
    "jsonl with fewer tags than tokens": Case(
        "jsonl",
        '{"tokens": ["a", "b"], "tags": ["O"]}\n',
        'f:1: expected as many \'tags\' as \'tokens\', found 1 and 2: \'{"tokens": ["a", "b"], "tags": ["O"]}\'',
    ),
    "jsonl with ids without names": Case(
        "jsonl",
        '{"tokens": ["a"], "tags": [0]}\n',
        "f:1: expected strings in 'tags', found the number 0: write its name (in Python pass names=): "
        '\'{"tokens": ["a"], "tags": [0]}\'',
    ),
    "jsonl with an id beyond the names": Case(
        "jsonl",
        '{"tokens": ["a"], "tags": [2]}\n',
        'f:1: expected ids 0 to 1 in \'tags\', found 2: \'{"tokens": ["a"], "tags": [2]}\'',
        {"names": ["O", "B-X"]},
    ),
    "jsonl with wrong offsets": Case(
        "jsonl",
        '{"tokens": ["b"], "text": "a", "offsets": [[0, 1]]}\n',
        'f:1: offsets (0, 1) give \'a\', not the token \'b\': \'{"tokens": ["b"], "text": "a", "offsets": [[0, 1]]}\'',
    ),
    "jsonl with offsets that are none": Case(
        "jsonl",
        '{"tokens": ["a"], "text": "a", "offsets": [0]}\n',
        'f:1: expected a list of [start, end] in \'offsets\': \'{"tokens": ["a"], "text": "a", "offsets": [0]}\'',
    ),
    "a span beyond the text": Case(
        "spans",
        '{"text": "Paris", "label": [[0, 6, "X"]]}\n',
        "f:1: the span [0, 6, 'X'] does not lie in the text of 5 characters: expected 0 <= start < end <= 5"
        ': \'{"text": "Paris", "label": [[0, 6, "X"]]}\'',
    ),
    "a span of white space": Case(
        "spans",
        '{"text": "a  b", "label": [[1, 3, "X"]]}\n',
        'f:1: the span [1, 3, \'X\'] covers no token, only \'  \': \'{"text": "a  b", "label": [[1, 3, "X"]]}\'',
    ),
    "spans that overlap": Case(
        "spans",
        '{"text": "a b", "label": [[0, 3, "X"], [2, 3, "Y"]]}\n',
        "f:1: Span(start=0, end=2, label='X') and Span(start=1, end=2, label='Y') overlap, and a token has one tag "
        'only: \'{"text": "a b", "label": [[0, 3, "X"], [2, 3, "Y"]]}\'',
    ),
    "a span without a label": Case(
        "spans",
        '{"text": "a", "label": [[0, 1]]}\n',
        'f:1: expected a span as [start, end, label], found [0, 1]: \'{"text": "a", "label": [[0, 1]]}\'',
    ),
    "spans that are no list": Case(
        "spans",
        '{"text": "a", "label": "X"}\n',
        'f:1: expected a list of spans in \'label\', found \'X\': \'{"text": "a", "label": "X"}\'',
    ),
    "no text": Case(
        "spans", '{"label": []}\n', "f:1: expected a string in 'text', found the fields 'label': '{\"label\": []}'"
    ),
    "two annotators of one task": Case(
        "spans",
        '{"data": {"text": "a"}, "annotations": [{"result": []}, {"result": []}]}\n',
        "f:1: expected one annotation of the task, found 2 by ?, ?; "
        "choose one with --annotator, or take the --majority: "
        '\'{"data": {"text": "a"}, "annotations": [{"result": []}, {"result": []}]}\'',
    ),
    "annotations that are none": Case(
        "spans",
        '{"data": {"text": "a"}, "annotations": [3]}\n',
        'f:1: expected a list of objects in \'annotations\': \'{"data": {"text": "a"}, "annotations": [3]}\'',
    ),
    "an annotation without a result": Case(
        "spans",
        '{"data": {"text": "a"}, "annotations": [{}]}\n',
        'f:1: expected a list of objects in \'result\': \'{"data": {"text": "a"}, "annotations": [{}]}\'',
    ),
    "a task with two texts": Case(
        "spans",
        '{"data": {"a": "x", "b": "y"}}\n',
        'f:1: expected one text in \'data\': \'{"data": {"a": "x", "b": "y"}}\'',
    ),
    "an array cut off": Case(
        "spans",
        '[{"text": "a"},\n {"text": ',
        "f:2: expected JSON: Expecting value: line 1 column 10 (char 9): '{\"text\": '",
    ),
    "an array with a bad element": Case(
        "jsonl",
        '[{"tokens": ["a"]},\n {"tokens": [}}, {"tokens": []}]',
        "f:2: expected JSON: Expecting value: line 1 column 13 (char 12): '{\"tokens\": [}}'",
    ),
    "an array that does not end": Case(
        "jsonl", '[{"tokens": []},\n', "f:2: expected ']' at the end of the array, found the end of the file: ''"
    ),
    "something behind an array": Case(
        "jsonl", '[{"tokens": []}]\n[{}]\n', "f:2: expected the end of the file after the array: '[{}]'"
    ),
    "an array with a byte that does not decode": Case(
        "jsonl",
        b'[{"tokens": ["a\xff"]}]',
        "f:1: expected text in utf-8, found byte 0xff at character 15; pass the right encoding"
        ': \'{"tokens": ["a\\\\xff"]}\'',
    ),
    "a number of too many digits": Case(
        "jsonl",
        f'{{"tokens": [], "id": {"1" * 5000}}}',
        f'f:1: expected JSON: a number has more than 4300 digits: \'{{"tokens": [], "id": {"1" * 99}…\'',
    ),
    "a number of too many digits in an array": Case(
        "jsonl",
        f'[{{"tokens": [], "id": {"1" * 5000}}}]',
        f'f:1: expected JSON: a number has more than 4300 digits: \'{{"tokens": [], "id": {"1" * 99}…\'',
    ),
    "deep nesting": Case(
        "jsonl",
        '{"tokens":' + "[" * 100_000,
        f"f:1: expected JSON: it is nested too deeply: '{{\"tokens\":{'[' * 110}…'",
    ),
    "deep nesting in an array": Case(
        "jsonl",
        '[{"tokens":' + "[" * 100_000 + "]" * 100_000 + "}]",
        f"f:1: expected JSON: it is nested too deeply: '{{\"tokens\":{'[' * 110}…'",
    ),
    "deep nesting that can be parsed": Case(
        "jsonl",
        '{"tokens": [' + "[" * 400 + "]" * 400 + "]}",
        f"f:1: expected strings in 'tokens', found [[[[[...]]]]]: '{{\"tokens\": [{'[' * 108}…'",
    ),
    "a value of many characters": Case(
        "jsonl",
        f'{{"tokens": "{"x" * 10_000}"}}',
        f"f:1: expected a list in 'tokens', found '{'x' * 57}...{'x' * 58}': '{{\"tokens\": \"{'x' * 108}…'",
    ),
    "many fields": Case(
        "jsonl",
        json.dumps({f"f{i}": 1 for i in range(30)}),
        "f:1: expected a field 'tokens', found 'f0', 'f1', 'f2', 'f3', 'f4', 'f5', 'f6', 'f7', 'f8', 'f9', ...; "
        "--tokens and --tags name others: '" + json.dumps({f"f{i}": 1 for i in range(30)})[:120] + "…'",
    ),
    "offsets that end beyond the text": Case(
        "jsonl",
        '{"tokens": ["a"], "text": "a", "offsets": [[0, 9]]}\n',
        'f:1: offsets (0, 9) give \'a\', not the token \'a\': \'{"tokens": ["a"], "text": "a", "offsets": [[0, 9]]}\'',
    ),
    "offsets that end before they begin": Case(
        "jsonl",
        '{"tokens": ["a"], "text": "ab", "offsets": [[0, -1]]}\n',
        "f:1: offsets (0, -1) give '', not the token 'a': "
        '\'{"tokens": ["a"], "text": "ab", "offsets": [[0, -1]]}\'',
    ),
    "a word without a tag": Case("wordtag", "a/X\nb/X c\n", "f:2: expected word/TAG, found 'c': 'b/X c'"),
    "a tag without a word": Case("wordtag", "/X\n", "f:1: expected word/TAG, found '/X': '/X'"),
    "a word with an empty tag": Case("wordtag", "a/\n", "f:1: expected word/TAG, found 'a/': 'a/'"),
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
        "xml", "", "unknown format 'xml', expected one of conll, conllu, jsonl, spans, segmented, wordtag, spacy"
    ),
    "unknown option": Case("wordtag", "", "reading wordtag knows no option 'tags', only delimiter", {"tags": 1}),
    "unknown encoding": Case("conll", "", "unknown encoding 'utf-9'", {"encoding": "utf-9"}),
    "wrong on_error": Case("conll", "", "on_error must be 'raise' or 'skip', got 'drop'", {"on_error": "drop"}),
}


def message_of(folder: Path, case: Case, monkeypatch: pytest.MonkeyPatch) -> DataError:
    monkeypatch.chdir(folder)
    content = case.content.encode() if isinstance(case.content, str) else case.content
    Path("f").write_bytes(content)
    with pytest.raises(DataError) as caught:
        corpus.read("f", format=case.format, **case.options)
    return caught.value


@pytest.mark.parametrize("case", LINES.values(), ids=LINES.keys())
def test_a_bad_line_is_named(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = message_of(tmp_path, case, monkeypatch)
    assert str(error) == case.message
    assert isinstance(error, CorpusError)
    assert error.path == "f"
    assert case.message.startswith(f"f:{error.line}: {error.problem}: ")


@pytest.mark.parametrize("case", LINES.values(), ids=LINES.keys())
def test_a_bad_line_is_skipped_and_counted_if_asked(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    if format != "spacy" and binary_kind(content) is None:
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
