"""`trellis eval`: the figures are those of `trellis score` on what `trellis tag` writes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import SEGMENTED, conll, sentences
from trellis.tags import Scheme, convert_tags


def test_eval_is_tag_and_score(here, shell, hmm_model):
    shell("tag", hmm_model, "dev.conll", "-o", "out.conll")
    scored = json.loads(shell("score", "dev.conll", "out.conll", "--json").out)
    assert json.loads(shell("eval", hmm_model, "dev.conll", "--json").out) == scored
    assert json.loads(shell("eval", f"{hmm_model}/model.safetensors", "dev.conll", "--json").out) == scored


def test_a_table_for_people(here, shell, ner_model):
    done = shell("eval", ner_model, "dev.conll", "--errors", "--interval")
    assert done.code == 0
    for part in ("Read as ner, scheme IOB2.", "micro average", "100.00", "0 mistakes"):
        assert part in done.out


def test_words_of_segmented_text_with_a_vocabulary(here, shell, seg_model):
    found = json.loads(shell("eval", seg_model, "train.seg", "--train", "train.seg", "--json").out)
    assert (found["task"], found["scores"]["words"]["gold"]) == ("seg", len(SEGMENTED.split()))
    assert found["scores"]["oov_words"] == 0


def test_right_tags_in_another_scheme(here, shell, ner_model):
    other = [s.with_tags(convert_tags(s.tags, Scheme.IOB2, Scheme.BIOES)) for s in sentences()]
    Path("other.conll").write_text(conll(other))
    assert json.loads(shell("eval", ner_model, "other.conll", "--json").out)["scores"]["micro"]["f1"] == 1.0


def test_the_columns_of_training_are_remembered(here, shell):
    Path("pos.tsv").write_text("the\tDET\tx\ndog\tNOUN\tx\n\na\tDET\tx\ncat\tNOUN\ty\n")
    shell("train", "-m", "hmm", "--train", "pos.tsv", "--tags", "1", "-o", "model")
    assert json.loads(shell("eval", "model", "pos.tsv", "--json").out)["scores"]["accuracy"] == 1.0


def test_what_cannot_be_scored(here, shell, ner_model):
    Path("bare.conll").write_text("Anna\nslept\n")
    Path("empty.conll").write_text("")
    assert shell("eval", ner_model, "bare.conll", "--format", "conll").err == (
        "trellis: bare.conll:1: the sentence has no tags to score\n"
    )
    assert shell("eval", ner_model, "empty.conll", "-q").err == "trellis: empty.conll: there is no sentence to score\n"


def test_a_file_about_something_else_is_refused(here, shell, ner_model):
    Path("pos.conll").write_text("Anna PROPN\nslept VERB\n")
    ran = shell("eval", ner_model, "pos.conll", "-q")
    assert ran.code == 1
    assert "pos.conll has the labels PROPN (1), VERB (1), and the model gives O, B-LOC" in ran.err
    assert "they have none in common" in ran.err


def test_a_segmenter_says_that_it_does_not_look_at_names(here, shell, seg_model):
    Path("ner.conll").write_text("北京 B-LOC\n好 O\n")
    ran = shell("eval", seg_model, "ner.conll", "--json")
    assert ran.code == 0
    assert "ner.conll: the tokens are the right words, and the labels B-LOC, O count for nothing\n" in ran.err
    Path("pos.conll").write_text("北京 PROPN\n好 ADJ\n")
    assert "for nothing" not in shell("eval", seg_model, "pos.conll").err
