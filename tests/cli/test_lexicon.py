"""`trellis tag --lexicon` and `trellis train --lexicon`: what is known, what came of it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trellis
from tests.cli.conftest import conll, sentences
from trellis import Lexicon

TEXT = "Karl Marx met Paul in Rome.\nIt rained in Oslo.\n"


@pytest.fixture
def text(here):
    Path("text.txt").write_text(TEXT)
    Path("names.tsv").write_text("Karl Marx\tPER\nOslo\tLOC\tmust\nmet\tLOC\t-3\nParis\tLOC\n")
    return here


def test_entries_fire_as_their_strength_says(text, shell, ner_model):
    done = shell("tag", ner_model, "text.txt", "--lexicon", "names.tsv", "--strength", "must", "--to", "inline")
    assert done.out == "[Karl Marx](PER) met [Paul](PER) in [Rome](LOC).\nIt rained in [Oslo](LOC).\n"
    assert "names.tsv: 4 entries, tsv since its name has .tsv\n" in done.err
    assert shell("tag", ner_model, "text.txt", "--lexicon", "names.tsv", "-q").err == ""


@pytest.mark.filterwarnings("default::trellis.errors.DataWarning")
@pytest.mark.parametrize("strength", ["prefer=2", "must"])
def test_entries_with_labels_that_the_model_lacks_are_counted(text, shell, ner_model, strength):
    Path("names.tsv").write_text(f"Karl\tPERS\t{strength}\nPaul\tPERS\t{strength}\nOslo\tLOC\n")
    done = shell("tag", ner_model, "text.txt", "--lexicon", "names.tsv")
    said = "trellis: entries of the lexicon with labels that the model lacks, which are ignored: 2, with PERS; "
    assert (done.code, done.err.count(said)) == (0, 1)


def test_several_lexicons_are_joined_and_saved_ones_read(text, shell, ner_model):
    Lexicon([("Karl", "LOC", "must"), ("rained", "PER", -5.0)]).save("more.safetensors")
    done = shell(
        "tag", ner_model, "text.txt", "--lexicon", "names.tsv", "--lexicon", "more.safetensors", "--to", "inline"
    )
    assert "[Karl](LOC)" in done.out
    assert "[Oslo](LOC)" in done.out
    forced = shell(
        "tag", ner_model, "text.txt", "--lexicon", "more.safetensors", "--strength", "must", "--to", "inline"
    )
    assert "[rained](PER)" in forced.out


def test_case_may_be_ignored_and_a_format_given(text, shell, ner_model):
    Path("words").write_text("karl MARX\tPER\tmust\n")
    plain = shell("tag", ner_model, "text.txt", "--lexicon", "words", "--lexicon-format", "tsv", "--to", "inline")
    assert "[Karl Marx](PER)" not in plain.out or plain.out == shell("tag", ner_model, "text.txt", "--to", "inline").out
    folded = shell("tag", ner_model, "text.txt", "--lexicon", "words", "--lexicon-ignore-case", "--to", "inline")
    assert "[Karl Marx](PER)" in folded.out


def test_a_saved_lexicon_keeps_its_folding(text, shell, ner_model):
    Lexicon([("karl MARX", "LOC", "must")], fold_case=True).save("folded.safetensors")
    done = shell("tag", ner_model, "text.txt", "--lexicon", "folded.safetensors", "--to", "inline")
    assert "[Karl Marx](LOC)" in done.out


def test_the_report_lists_every_occurrence_or_sums_them_up(text, shell, ner_model):
    options = ("tag", ner_model, "text.txt", "text.txt", "--lexicon", "names.tsv", "--lexicon-report")
    assert shell(*options, "report.jsonl").code == 0
    rows = [json.loads(line) for line in Path("report.jsonl").read_text().splitlines()]
    assert [(row["sentence"], row["surface"]) for row in rows if row["surface"] == "Oslo"] == [(1, "Oslo"), (3, "Oslo")]
    oslo = next(row for row in rows if row["surface"] == "Oslo")
    assert oslo["fired"]
    assert oslo["probability"] == pytest.approx(1.0)
    assert oslo["where"] == "text.txt:2"
    met = next(row for row in rows if row["surface"] == "met")
    assert not met["fired"]
    assert met["probability"] < met["alone"]
    assert shell(*options, "report.txt").code == 0
    table = Path("report.txt").read_text()
    assert "Lexicon:" in table
    assert "| Oslo" in table
    assert "\nLost:\ntext.txt:1, tokens 2-3: met" in table


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--strength", "must"], "--strength is that of a lexicon"),
        (["--lexicon", "names.tsv", "--no-lexicon"], "give one of them"),
        (["--lexicon", "names.tsv", "--strength", "perhaps"], "--strength: a strength must be must, feature, prefer"),
        (["--lexicon", "missing.txt"], "missing.txt: No such file"),
        (["--lexicon", "names.tsv", "--lexicon-format", "tvs"], "did you mean 'tsv'"),
        (["--lexicon", "bad.tsv"], "bad.tsv:2: a strength must be"),
        (["--no-lexicon", "--lexicon-report", "r.txt"], "--lexicon-report is about"),
    ],
)
def test_what_is_refused(text, shell, ner_model, options, problem):
    Path("bad.tsv").write_text("a\tX\nb\tX\tmaybe\n")
    done = shell("tag", ner_model, "text.txt", *options)
    assert done.code == 2 or done.code == 1
    assert problem in done.err


def test_a_must_against_a_constraint_names_both_and_may_be_passed_on(text, shell, ner_model):
    Path("in.conll").write_text("Karl\tO\nMarx\t_\n\nIt\t_\nrained\t_\n")
    Path("must.tsv").write_text("Karl Marx\tPER\tmust\n")
    options = ("tag", ner_model, "in.conll", "--constrain", "in.conll", "--lexicon", "must.tsv", "--to", "conll")
    done = shell(*options)
    assert done.code != 0
    assert "must be one span of type PER, and known labels say that token 0 is O" in done.err
    Path("in.conll").write_text(Path("in.conll").read_text() + "\nKarl\t_\nMarx\t_\n")
    assert shell(*options, "--on-error", "pass", "--lexicon-report", "r.jsonl").code == 0
    rows = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    assert [row["sentence"] for row in rows] == [2]


def test_a_model_learns_from_a_lexicon_and_keeps_it(text, shell):
    Path("train.conll").write_text(conll(sentences()))
    Path("places.txt").write_text("Oslo\nRome\nParis\n")
    done = shell("train", "-m", "crf", "--train", "train.conll", "-o", "model", "--lexicon", "places.txt", "-q")
    assert done.code == 0
    model = trellis.load("model")
    assert [entry.strength for entry in model.lexicon_] == ["feature"] * 3
    assert model.lexical_ == (None,)
    on, off = (shell("tag", "model", "text.txt", "--to", "jsonl", *more).out for more in ((), ("--no-lexicon",)))
    assert on != off
    assert "lexicon of 3 entries, matches are features\n" in shell("inspect", "model").out
    assert json.loads(shell("inspect", "model", "--json").out)["lexicon"] == 3


def test_a_chain_of_models_takes_words_where_words_are_made(text, shell):
    Path("train.seg").write_text("我 喜欢 音乐\n他 也 喜欢 北京\n我们 在 北京 学习\n音乐 很 好\n", encoding="utf-8")
    Path("train.tag").write_text("我/PN 喜欢/V 音乐/N\n我们/PN 在/P 北京/N 学习/V\n", encoding="utf-8")
    for task, model in (("seg", "seg"), ("pos", "pos")):
        form = "wordtag" if task == "pos" else "segmented"
        source = "train.tag" if task == "pos" else "train.seg"
        shell("train", "-m", "crf", "--task", task, "--format", form, "--train", source, "-o", model, "-q")
    Path("zh.txt").write_text("我喜欢北京音乐\n", encoding="utf-8")
    Path("words.txt").write_text("北京音乐\n", encoding="utf-8")
    options = ("tag", "--pipe", "seg", "pos", "zh.txt", "--to", "wordtag", "-q")
    assert "北京音乐" in shell(*options, "--lexicon", "words.txt", "--strength", "must").out
    assert "北京音乐" not in shell(*options, "--no-lexicon").out
    assert "leave out" in shell(*options, "--lexicon", "words.txt", "--lexicon-report", "r.txt").err
