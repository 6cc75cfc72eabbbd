from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trellis.cli import app


def run(*arguments: str, input: bytes | str | None = None) -> Result:
    return CliRunner().invoke(app, ["check", *arguments], input=input)


CLEAN = "Ada\tB-PER\nwrote\tO\n\nUlm\tB-LOC\n"


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    path = tmp_path / "train.conll"
    path.write_text(CLEAN)
    return path


def test_a_clean_file_gives_tables_and_exit_code_0(train: Path) -> None:
    result = run("train.conll")
    assert result.exit_code == 0
    for part in ("Files", "Spans by type", "PER", "1 (50.0%)", "checked against IOB2", "errors: 0, warnings: 0"):
        assert part in result.output
    assert "train.conll was read as conll, since it has columns separated by tabs" in result.output


def test_errors_are_listed_with_their_lines_and_give_exit_code_1(train: Path) -> None:
    train.write_text(CLEAN + "\nx\tI-PER\n\ny\n")
    result = run("train.conll")
    assert result.exit_code == 1
    assert "train.conll:6: I-PER must follow B-PER or I-PER, not O (token 'x', IOB2)" in result.output
    assert "train.conll:8: expected 2 columns separated by tabs" in result.output
    assert "errors: 2, warnings: 0" in result.output


def test_warnings_alone_give_exit_code_0(train: Path) -> None:
    Path("test.conll").write_text("Ada\tB-PER\nwrote\tO\n\nx\tB-ORG\n")
    result = run("train.conll", "test.conll")
    assert result.exit_code == 0
    assert "test.conll:1: 1 of 2 sentences (50.0%) are also in train.conll, this one at line 1" in result.output
    assert "test.conll:4: the label 'B-ORG', here 1 time, does not occur in train.conll" in result.output


def test_long_lists_are_cut_on_the_screen_and_whole_in_json(train: Path) -> None:
    train.write_text(CLEAN + "\nx\tI-PER\n" * 30)
    result = run("train.conll", "--scheme", "IOB2")
    assert "and 10 more; --json lists all" in result.output
    found = json.loads(run("train.conll", "--scheme", "IOB2", "--json").output)["findings"]
    assert sum(finding["kind"] == "illegal tag" for finding in found) == 30


def test_columns_format_and_scheme_can_be_told(train: Path) -> None:
    train.write_text("1 Ada NNP S-PER\n")
    options = ["--format", "conll", "--columns", "id,token,pos,ner", "--tokens", "token", "--tags", "-1"]
    result = run("train.conll", *options, "--scheme", "BIOES", "--json")
    assert json.loads(result.output)["scheme"] == "BIOES"
    assert json.loads(result.output)["files"][0]["tags"] == {"S-PER": 1}


def test_standard_input(train: Path) -> None:
    result = run("-", "--json", input=CLEAN)
    assert json.loads(result.output)["files"][0]["sentences"] == 2


def test_brackets_in_data_are_no_markup(train: Path) -> None:
    train.write_text("a\tB-[red]\nb\tI-[x]\n")
    assert "I-[x] must follow B-[x] or I-[x], not B-[red]" in run("train.conll", "--scheme", "IOB2").output


def test_what_reading_left_out_or_changed_is_told(train: Path) -> None:
    span = '"spans": [{"start": 0, "end": 5, "label": "LOC"}]'
    cut = f'{{"text": "Parisbased Acme", {span}}}\n'
    Path("data.jsonl").write_text(f'{cut}{{"text": "Paris", {span}, "answer": "reject"}}\n')
    result = run("data.jsonl")
    assert "data.jsonl: left out records with the answer 'reject' (Prodigy): 1\n" in result.output
    assert "data.jsonl: tokens split where a span cuts them: 1\n  data.jsonl:1: 'Parisbased' became" in result.output
    notes = json.loads(run("data.jsonl", "--json").output)["files"][0]["notes"]
    assert len(notes) == 3
