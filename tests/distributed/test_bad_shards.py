"""Shards with nothing but bad records, columns of wrong types, and names that are taken."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trellis.distributed import FolderReport, tag_folder
from trellis.errors import ConfigError, DataError


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def tagged_table(model: Path, place: Path, table: pa.Table, **settings: Any) -> FolderReport:
    """What comes of a folder with one Parquet shard, tagged into ``out`` next to it."""
    (place / "in").mkdir()
    pq.write_table(table, place / "in" / "a.parquet")
    return tag_folder(model, [place / "in"], place / "out", **settings)


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_a_shard_of_bad_lines_alone_becomes_an_empty_one(ner_model, tmp_path, inline, to):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("broken\nbroken\n")
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to=to)
    assert (report.rows, report.bad, report.failed) == (0, 2, {})
    path = tmp_path / "out" / f"a.{to}"
    assert (pq.read_table(path).to_pylist() if to == "parquet" else lines_of(path)) == []


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_a_batch_of_bad_rows_alone_is_left_out(ner_model, tmp_path, inline, to, monkeypatch):
    monkeypatch.setattr("trellis.corpus.rows._ROWS", 4)
    texts = ["Anna left"] * 4 + [None] * 4 + ["Bob"] * 4
    report = tagged_table(ner_model, tmp_path, pa.table({"text": pa.array(texts, pa.string())}), to=to)
    assert (report.rows, report.bad, report.failed) == (8, 4, {})
    path = tmp_path / "out" / f"a.{to}"
    rows = pq.read_table(path).to_pylist() if to == "parquet" else lines_of(path)
    assert [row["text"] for row in rows] == ["Anna left"] * 4 + ["Bob"] * 4


ALL_BAD = {
    "null": {"text": pa.nulls(3)},
    "null strings": {"text": pa.array([None] * 3, pa.string())},
    "null in tokens": {"tokens": [["Anna", None, "Oslo"]] * 3},
    "null tokens": {"tokens": pa.nulls(3)},
}


@pytest.mark.parametrize("name", ALL_BAD)
def test_a_parquet_shard_of_bad_rows_alone(ner_model, tmp_path, inline, name):
    report = tagged_table(ner_model, tmp_path, pa.table(ALL_BAD[name]))
    assert (report.rows, report.bad, report.failed) == (0, 3, {})
    assert len(pq.read_table(tmp_path / "out" / "a.parquet")) == 0


FIT = [
    {"text": pa.array(["Anna", "Bob"], pa.large_string())},
    {"text": pa.array(["Anna", "Bob"]).dictionary_encode()},
    {"tokens": pa.array([["Anna"], ["Bob"]], pa.large_list(pa.string()))},
    {"tokens": pa.array([["Anna"], ["Bob"]], pa.list_(pa.string(), 1))},
]


@pytest.mark.parametrize("columns", FIT)
def test_every_type_that_holds_strings_is_tagged(ner_model, tmp_path, inline, columns):
    assert tagged_table(ner_model, tmp_path, pa.table(columns)).rows == 2


WRONG = {
    "int64": {"text": [1, 2]},
    "binary": {"text": [b"a", b"b"]},
    "list<element: string>": {"text": [["a"], ["b"]]},
    "timestamp[ms]": {"text": pa.array([1, 2], pa.timestamp("ms"))},
    "string": {"tokens": ["Anna slept", "Bob"]},
    "list<element: int64>": {"tokens": [[1], [2]]},
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_column_of_a_wrong_type_is_one_error(ner_model, tmp_path, inline, kind):
    report = tagged_table(ner_model, tmp_path, pa.table(WRONG[kind]))
    name = next(iter(WRONG[kind]))
    expected = "strings" if name == "text" else "lists of strings"
    shard = str(tmp_path / "in" / "a.parquet")
    assert report.failed == {shard: f"{shard}: expected {expected} in the column {name!r}, found {kind}"}


def test_two_columns_of_one_name_are_an_error(ner_model, tmp_path, inline):
    for number, names in enumerate((["text", "text"], ["text", "id", "id"])):
        place = tmp_path / str(number)
        place.mkdir()
        report = tagged_table(ner_model, place, pa.Table.from_arrays([pa.array(["Anna"])] * len(names), names))
        (said,) = report.failed.values()
        assert said == f"{place}/in/a.parquet: expected columns of different names, found {names[-1]!r} 2 times"


TAKEN = {
    "spans": ({"text": "Anna slept.", "spans": []}, {}),
    "tags": ({"tokens": ["Anna"], "tags": ["O"]}, {}),
    "ner_tags": ({"tokens": ["Anna"], "ner_tags": ["O"]}, {"prefix": "ner_"}),
    "tokens": ({"body": "Anna.", "tokens": [1]}, {"text": "body"}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_record_with_a_field_of_that_name_stops_the_run(ner_model, tmp_path, inline, name):
    record, settings = TAKEN[name]
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.jsonl").write_text("\n" + json.dumps(record) + "\n")
    with pytest.raises(DataError) as caught:
        tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to="jsonl", **settings)
    said = f"the record has a field {name!r} already: give --prefix (in Python prefix=) for the names of new fields"
    assert str(caught.value) == f"{tmp_path}/in/0.jsonl:2: {said}"
    assert inline.asked == ["0"]
    other = settings | {"prefix": "my_"}
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to="jsonl", resume=True, **other)
    assert (report.rows, report.bad) == (3, 0)
    assert lines_of(tmp_path / "out" / "0.jsonl")[0] | record == lines_of(tmp_path / "out" / "0.jsonl")[0]


def test_one_record_with_a_field_of_that_name_is_a_bad_one(ner_model, tmp_path, inline):
    (tmp_path / "in").mkdir()
    taken = '{"text": "Bob.", "tags": ["mine"]}'
    (tmp_path / "in" / "0.jsonl").write_text('{"text": "Anna."}\n' + taken + '\n{"text": "Rome."}\n')
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to="jsonl")
    assert (report.rows, report.bad, report.failed) == (2, 1, {})
    (bad,) = lines_of(tmp_path / "out" / "_trellis" / "bad" / "0.jsonl")
    said = "the record has a field 'tags' already: give --prefix (in Python prefix=) for the names of new fields"
    assert (bad["line"], bad["reason"], bad["record"]) == (2, said, taken)
    with pytest.raises(DataError, match=r"0\.jsonl:2: the record has a field 'tags' already"):
        tag_folder(ner_model, [tmp_path / "in"], tmp_path / "strict", to="jsonl", strict=True)


def test_a_shard_of_such_records_fails_alone_once_another_is_done(ner_model, tmp_path, inline):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "0.jsonl").write_text('{"text": "Anna slept in Rome, and Bob did, too."}\n')
    (tmp_path / "in" / "1.jsonl").write_text('{"text": "", "tags": ""}\n')
    (tmp_path / "in" / "2.jsonl").write_text('{"text": ""}\n')
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to="jsonl")
    (said,) = report.failed.values()
    assert "1.jsonl:1: the record has a field 'tags' already" in said
    assert report.rows == 2
    with pytest.raises(ConfigError, match=r"was begun with prefix = '', now 'my_': .*; choose another folder"):
        tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to="jsonl", prefix="my_", resume=True)


def test_a_column_of_that_name_stops_the_run(ner_model, tmp_path):
    table = pa.table({"text": ["Anna."], "tags": ["mine"]})
    with pytest.raises(DataError) as caught:
        tagged_table(ner_model, tmp_path, table, workers=1)
    said = "the table has a column 'tags' already: give --prefix (in Python prefix=) for the names of new columns"
    assert str(caught.value) == f"{tmp_path}/in/a.parquet: {said}"


def test_a_bad_row_is_listed_by_its_number_and_as_json(ner_model, tmp_path, inline, monkeypatch):
    monkeypatch.setattr("trellis.corpus.rows._ROWS", 2)
    broken = pa.StringArray.from_buffers(1, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff"))
    columns = {
        "text": pa.chunked_array([["Anna.", "Bob.", None], broken]),
        "when": pa.array([1, 2, 3, 4], pa.timestamp("ns")),
        "data": pa.array([b"", b"", b"\xfe", None]),
        "score": [1.0, 2.0, float("nan"), 0.5],
    }
    report = tagged_table(ner_model, tmp_path, pa.table(columns), outputs=["tags"])
    bad = lines_of(tmp_path / "out" / "_trellis" / "bad" / "a.jsonl")
    assert (report.rows, report.bad) == (2, 2)
    assert [one["row"] for one in bad] == [3, 4]
    nano = "1970-01-01 00:00:00.00000000"
    assert [json.loads(one["record"]) for one in bad] == [
        {"text": None, "when": f"{nano}3", "data": "\\xfe", "score": "nan"},
        {"text": "a\\xff", "when": f"{nano}4", "data": None, "score": 0.5},
    ]


TEXT = "Rome,Anna flew to  Paris"
TOKENS = ["Rome", ",", "Anna", "flew", "to", "Paris"]
STRAY = [["Anna", "Rome"], ["Anna", "Anna"], ["anna"]]
"""Tokens that are not in the text, or not in that order."""


def rows_of(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist() if path.suffix == ".parquet" else lines_of(path)


def check_spans(rows: list[dict[str, Any]], text: str) -> None:
    """The names of the text, at their places in it."""
    found = [(span["start"], span["end"]) for row in rows for span in row["spans"]]
    assert [text[a:b] for a, b in found] == [span["text"] for row in rows for span in row["spans"]]
    assert (5, 9) in found
    assert (19, 24) in found


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet", "offsets.jsonl"])
def test_spans_are_in_characters_of_the_text(ner_model, tmp_path, inline, name, to):
    (tmp_path / "in").mkdir()
    record: dict[str, Any] = {"text": TEXT, "tokens": TOKENS}
    if name.startswith("offsets"):
        record["offsets"] = [[0, 4], [4, 5], [5, 9], [10, 14], [15, 17], [19, 24]]
    path = tmp_path / "in" / name
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([record]), path)
    else:
        path.write_text(TEXT if path.suffix == ".txt" else json.dumps(record))
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to=to)
    assert (report.rows, report.bad, report.failed) == (1, 0, {})
    rows = rows_of(tmp_path / "out" / f"{path.stem}.{to}")
    assert [row["text"] for row in rows] == [TEXT]
    check_spans(rows, TEXT)


@pytest.mark.parametrize("outputs", [["tags"], ["tags", "spans"]])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_tokens_that_are_not_in_their_text_are_a_bad_record(ner_model, tmp_path, inline, suffix, outputs):
    (tmp_path / "in").mkdir()
    records = [{"text": TEXT, "tokens": tokens} for tokens in [*STRAY, TOKENS]]
    path = tmp_path / "in" / f"a.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        path.write_text("\n".join(map(json.dumps, records)))
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to="jsonl", outputs=outputs)
    assert (report.rows, report.bad, report.failed) == (1, 3, {})
    reasons = [line["reason"] for line in lines_of(tmp_path / "out" / "_trellis" / "bad" / "a.jsonl")]
    assert "expected the tokens in the text, one behind another" in reasons[0]
    assert "found no 'Rome' (token 1) behind character 9 of" in reasons[0]
    assert "found no 'anna' (token 0) behind character 0 of" in reasons[2]


@pytest.mark.parametrize("text", [{}, {"text": None}])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_spans_of_tokens_alone_are_in_characters_of_these_joined(ner_model, tmp_path, inline, suffix, text):
    (tmp_path / "in").mkdir()
    record = {**text, "tokens": ["It", "Anna", "left"]}
    path = tmp_path / "in" / f"a.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist([record]), path)
    else:
        path.write_text(json.dumps(record))
    tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to="jsonl")
    (row,) = lines_of(tmp_path / "out" / "a.jsonl")
    assert [(span["start"], span["end"]) for span in row["spans"]] == [(3, 7)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, names of files are Unicode")
@pytest.mark.parametrize("to", ["parquet", "jsonl"])
@pytest.mark.parametrize("suffix", ["txt", "jsonl", "parquet"])
def test_names_of_shards_may_be_of_any_bytes(ner_model, tmp_path, inline, suffix, to):
    (tmp_path / "in").mkdir()
    (tmp_path / "plain").write_text('{"text": "Anna left"}\n3\n' if suffix == "jsonl" else "Anna left\n")
    if suffix == "parquet":
        pq.write_table(pa.table({"text": ["Anna left"]}), tmp_path / "plain")
    (tmp_path / "plain").rename(os.fsdecode(os.fsencode(tmp_path / "in") + b"/b\xffd." + suffix.encode()))
    for resume in (False, True):
        report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out", to=to, resume=resume)
        assert (report.rows, report.bad, report.failed) == (1, int(suffix == "jsonl"), {})
    assert (tmp_path / "out" / os.fsdecode(b"b\xffd." + to.encode())).stat().st_size


def test_a_text_that_no_utf8_has_is_a_bad_record(ner_model, tmp_path, inline):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "Anna \\ud800", "tokens": ["Anna"]}\n')
    report = tag_folder(ner_model, [tmp_path / "in"], tmp_path / "out")
    assert (report.rows, report.bad, report.failed) == (0, 1, {})
