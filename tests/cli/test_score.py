from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from trellis.cli import app
from trellis.errors import ConfigError, DataError

GOLD = "Ada\tB-PER\nLove\tI-PER\nwent\tO\nto\tO\nNew\tB-LOC\nYork\tI-LOC\n\nUlm\tB-LOC\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "gold.conll").write_text(GOLD)
    (tmp_path / "pred.conll").write_text(GOLD.replace("York\tI-LOC", "York\tO"))
    (tmp_path / "gold.txt").write_text("我 喜欢 音乐\n他 也 喜欢\n")
    (tmp_path / "pred.txt").write_text("我 喜 欢 音乐\n他 也 喜欢\n")
    (tmp_path / "gold.pos").write_text("the\tDET\ndog\tNOUN\nruns\tVERB\n")
    (tmp_path / "pred.pos").write_text("the\tDET\ndog\tNOUN\nruns\tNOUN\n")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["score", *arguments])


def run_json(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_entities_are_scored_and_the_scheme_is_detected(files):
    result = run("gold.conll", "pred.conll")
    assert result.exit_code == 0
    for part in ("Read as ner, scheme IOB2", "micro average", "66.67", "token accuracy 85.71"):
        assert part in result.output


def test_json_has_every_part_that_was_asked_for(files):
    found = run_json("gold.conll", "pred.conll", "--errors", "--interval", "--versus", "gold.conll")
    assert (found["task"], found["scheme"], found["strict"]) == ("ner", "IOB2", False)
    assert found["scores"]["types"]["LOC"]["f1"] == 0.5
    assert found["errors"]["counts"]["wrong boundary"] == 1
    assert found["interval"]["low"] <= found["scores"]["micro"]["f1"] <= found["interval"]["high"]
    assert found["versus"]["second"] == 1.0


def test_strict_counts_only_well_formed_spans(files):
    (files / "pred.conll").write_text(GOLD.replace("Ulm\tB-LOC", "Ulm\tI-LOC"))
    assert run_json("gold.conll", "pred.conll")["scores"]["micro"]["f1"] == 1.0
    assert run_json("gold.conll", "pred.conll", "--strict", "--scheme", "bio")["scores"]["micro"]["correct"] == 2


def test_segmented_text_is_recognised_and_scored_with_a_vocabulary(files):
    found = run_json("gold.txt", "pred.txt", "--train", "gold.txt")
    assert found["task"] == "seg"
    assert (found["scores"]["words"]["correct"], found["scores"]["words"]["predicted"]) == (5, 7)
    assert found["scores"]["oov_rate"] == 0.0
    assert found["scores"]["iv_recall"] == 5 / 6
    assert "in vocabulary" in run("gold.txt", "pred.txt", "--train", "gold.txt").output


def test_plain_tags_are_scored_as_parts_of_speech(files):
    found = run_json("gold.pos", "pred.pos", "--format", "conll", "--train", "gold.pos", "--interval")
    assert found["task"] == "pos"
    assert found["scores"]["accuracy"] == found["scores"]["known_accuracy"] == 2 / 3
    assert found["interval"]["value"] == 2 / 3


def test_markdown(files):
    output = run("gold.pos", "pred.pos", "--format", "conll", "--task", "pos", "--markdown").output
    assert "| VERB |" in output
    assert output.startswith("Tags of 3 tokens: accuracy 66.67")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["gold.conll", "gold.pos"], DataError, "gold has 2 sentences, predicted has 1"),
        (["gold.conll", "other.conll"], DataError, "other.conll:1: other tokens than gold.conll:1 has: expected 'Ada"),
        (["gold.pos", "pred.pos", "--task", "ner"], DataError, "fit no span scheme"),
        (["gold.pos", "pred.pos", "--errors"], ConfigError, "--errors names mistakes about spans, and the task is pos"),
        (["gold.txt", "other.txt"], DataError, "sentence 0: gold and predicted words spell different texts"),
    ],
)
def test_what_cannot_be_scored_is_a_trellis_error(files, arguments, error, message):
    (files / "other.conll").write_text(GOLD.replace("Ada", "Eva"))
    (files / "other.txt").write_text("你 喜欢 音乐\n他 也 喜欢\n")
    result = run(*arguments, "--format", "segmented" if "txt" in arguments[0] else "conll")
    assert result.exit_code == 1
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
