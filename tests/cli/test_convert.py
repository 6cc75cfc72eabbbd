from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trellis.cli import app


def run(*arguments: str, input: bytes | str | None = None) -> Result:
    return CliRunner().invoke(app, ["convert", *arguments], input=input)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "in.conll"
    path.write_text("Ada\tB-PER\nKing\tI-PER\n\nUlm\tB-LOC\n")
    return path


def test_scheme_and_format_are_converted_and_reported_on_stderr(source: Path) -> None:
    result = run("in.conll", "out.jsonl.gz", "--scheme", "BIOES")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == (
        "in.conll: read as conll, since it has columns separated by tabs\n"
        "out.jsonl.gz: 2 sentences as jsonl, IOB2 to BIOES\n"
    )
    back = run("out.jsonl.gz", "-", "--to", "conll")
    assert back.stdout == "Ada\tB-PER\nKing\tE-PER\n\nUlm\tS-LOC\n\n"


def test_columns_are_chosen(source: Path) -> None:
    source.write_text("Ada NNP B-PER\n")
    result = run("in.conll", "-", "--to", "wordtag", "--columns", "token,pos,ner", "--tags", "pos")
    assert result.stdout == "Ada/NNP\n"
    assert result.stderr.endswith(": 1 sentence as wordtag\n")


def test_spans_shape_and_tokenizer(source: Path) -> None:
    assert run("in.conll", "a.jsonl", "--to", "spans", "--shape", "entities").exit_code == 0
    assert '"entities": [[0, 8, "PER"]]' in Path("a.jsonl").read_text()
    result = run("a.jsonl", "-", "--to", "wordtag", "--tokenizer", "whitespace")
    assert result.stdout == "Ada/B-PER King/I-PER\nUlm/B-LOC\n"


def test_skipped_sentences_are_counted(source: Path) -> None:
    source.write_text("a\tO\n\nb\n")
    result = run("in.conll", "out.conll", "--on-error", "skip")
    assert "1 skipped, the first: in.conll:3: expected 2 columns" in result.stderr


def test_standard_input_to_standard_output(source: Path) -> None:
    result = run("-", "-", "--to", "segmented", input="我/r 好/a\n")
    assert result.stdout == "我 好\n"


def test_formats_are_named(source: Path) -> None:
    source.write_text("Ada/B-PER King/I-PER\n")
    result = run("in.conll", "-", "--from", "wordtag", "--to", "conll")
    assert result.stdout == "Ada\tB-PER\nKing\tI-PER\n\n"


def test_tags_that_are_no_spans_are_pointed_out(source: Path) -> None:
    source.write_text("Ada\tNNP\nruns\tVBZ\n")
    result = run("in.conll", "out.conll", "--scheme", "BIOES")
    assert result.exit_code == 0
    assert "the tags of in.conll are not those of spans: in BIOES, every token is a span of its own" in result.stderr
