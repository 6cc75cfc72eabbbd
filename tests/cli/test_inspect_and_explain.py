"""`trellis inspect` and `trellis explain`: what is inside a model, and why it says what it says."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import trellis
from trellis.plots import HeatMap

MODELS = ["ner_model", "hmm_model", "seg_model"]


@pytest.fixture(params=MODELS)
def model(request):
    return request.getfixturevalue(request.param)


def test_inspect_shows_labels_transitions_and_features(here, shell, ner_model):
    done = shell("inspect", ner_model, "--top", "2")
    assert done.code == 0
    assert done.out.startswith(
        "CRF(c2=0.1, delta=1e-05, period=10, scheme='iob2', learn_scheme='bioes', precision='double', \nprune=0.0)\n"
        "scheme IOB2, raw text is split into words\n5 labels: O B-LOC I-LOC B-PER"
    )
    top = trellis.load(ner_model).top_features("B-LOC", 2).features[0]
    assert top.label == "S-LOC"
    assert f"{top.words} as S-LOC {top.weight:+.2f}" in done.out
    states = trellis.load(ner_model).states_.allowed_transitions().transitions
    assert done.out.count("·") == (~states).sum()


def test_inspect_shows_the_record_of_a_trained_folder(here, shell):
    shell("train", "-m", "crf", "--train", "train.conll", "--dev", "dev.conll", "--out", "model")
    done = shell("inspect", "model")
    for part in ("train.conll, conll, 6 sentences, 32 tokens", "dev figures", "F1 ", "converged", "loss ", ", dev "):
        assert part in done.out


def test_inspect_as_json(shell, model):
    found = json.loads(shell("inspect", model, "--json").out)
    tagger = trellis.load(model)
    assert (found["kind"], found["labels"]) == (tagger.kind, list(tagger.labels_))
    assert len(found["transitions"]) == len(found["states"]) >= len(tagger.labels_)
    assert bool(found["features"]) == (tagger.kind == "crf")


def test_a_plot_is_a_picture_without_any_library(here, shell, ner_model):
    assert shell("inspect", ner_model, "--plot", "a b.svg").err == "transitions drawn to a b.svg\n"
    drawing = ElementTree.parse("a b.svg").getroot()
    cells = [node for node in drawing.iter("{http://www.w3.org/2000/svg}rect") if node.get("fill") != "white"]
    assert len(cells) == 81
    titles = [node[0].text for node in cells]
    assert "O, I-PER: forbidden" in titles


def test_colours_grow_with_the_weight_and_grey_is_forbidden():
    drawn = HeatMap("", ("a", "b"), ("a", "b"), ((2.0, -1.0), (0.0, float("-inf"))))
    assert drawn.colour(2.0) == (200, 40, 40)
    assert drawn.colour(0.0) == (255, 255, 255)
    assert drawn.colour(-1.0) == (148, 168, 228)
    assert drawn.colour(float("-inf")) == (215, 215, 215)


@pytest.mark.parametrize("name", ["map.gif", "map.png", "map"])
def test_a_picture_of_another_kind_names_the_one_there_is(here, shell, ner_model, name):
    done = shell("inspect", ner_model, "--plot", name)
    assert (done.code, done.err) == (2, f"trellis: --plot {name}: expected a name that ends in .svg\n")
    assert not Path(name).exists()


def test_a_picture_nowhere(here, shell, ner_model):
    done = shell("inspect", ner_model, "--plot", "nowhere/map.svg")
    assert (done.code, done.err) == (1, "trellis: nowhere/map.svg cannot be written: No such file or directory\n")


def test_explain_draws_the_trellis_and_says_why(here, shell, ner_model):
    done = shell("explain", ner_model, "Anna lives in Rome.")
    tagger = trellis.load(ner_model)
    view = tagger.trellis("Anna lives in Rome.")
    assert done.code == 0
    assert done.out.count("●") == 6  # five tokens, and the first of the paths
    assert f"{view.paths[1].probability:.4f}" in done.out
    found = tagger.explain(["Anna", "lives", "in", "Rome", "."], 3)
    assert f"B-LOC {found.probability:.2f}" in done.out
    assert found.contributions[0].words in " ".join(done.out.split())


def test_explain_one_token_in_full(here, shell, ner_model):
    done = shell("explain", ner_model, "Anna lives in Rome.", "--token", "3", "--top", "4")
    assert "Position 3: B-LOC" in done.out
    assert "total" in done.out
    assert len(done.out.splitlines()) == 1 + 3 + 4 + 1 + 1  # title, head, features, total, foot


def test_explain_every_family_as_json(shell, model):
    found = json.loads(shell("explain", model, "我 Rome", "--tokens", "--json", "--kbest", "2").out)
    assert found["tokens"] == ["我", "Rome"]
    assert [sum(row) for row in found["probabilities"]] == pytest.approx([1.0, 1.0])
    assert len(found["paths"]) == 2
    for position, why in enumerate(found["why"]):
        assert why["label"] == found["paths"][0]["tags"][position]
        assert why["runner_up"] != why["label"]


def test_explain_refuses_nothing_and_tokens_that_are_not_there(here, shell, ner_model):
    assert shell("explain", ner_model, " ").err == "trellis: there is nothing to explain: the text has no token\n"
    done = shell("explain", ner_model, "Anna slept", "--token", "2")
    assert (done.code, done.err) == (2, "trellis: --token 2: the text has 2 tokens, 0 to 1\n")


def test_a_long_sentence_is_drawn_in_parts_that_fit(here, shell, ner_model):
    done = shell("explain", ner_model, " ".join(["Anna"] * 30))
    assert max(map(len, done.out.splitlines())) <= 100
    assert done.out.count("Anna") >= 60  # in the trellis and in the reasons


def test_a_heat_map_without_room_for_numbers_has_shades(here, shell, ner_model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    lines = shell("inspect", ner_model, "--top", "0").out.splitlines()
    rows = [line for line in lines if line.startswith(("O ", "B-", "I-")) and len(line) > 8]
    assert len(rows) == 5
    assert any("█" in row for row in rows)
    assert not any("0." in row for row in rows)


def test_a_reader_that_has_seen_enough_is_no_failure(here, ner_model):
    command = f"{sys.executable} -m trellis explain {ner_model} '{'Anna slept . ' * 300}'"
    shell = ["bash", "-c", f"{command} | head -1 > /dev/null; echo ${{PIPESTATUS[0]}}"]
    done = subprocess.run(shell, capture_output=True, text=True, check=True, timeout=600)
    assert (done.stdout, done.stderr) == ("0\n", "")
