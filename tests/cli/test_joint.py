"""`--task seg-pos` from training to scores, and `trellis tag --pipe`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trellis
from trellis import corpus

TRAIN = "我们/PRON 爱/VERB 北京/PROPN\n他/PRON 爱/VERB 音乐/NOUN\n音乐/NOUN 在/ADP 北京/PROPN\n"
CONLLU = "# text = 他 爱北京\n" + "".join(
    f"{i}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n"
    for i, (word, tag) in enumerate([("他", "PRON"), ("爱", "VERB"), ("北京", "PROPN")], 1)
)


@pytest.fixture
def joint(here: Path, shell) -> str:
    Path("train.txt").write_text(TRAIN, encoding="utf-8")
    options = ("--set", "c2=0.01", "--quiet")
    done = shell("train", "-m", "crf", "--task", "seg-pos", "--train", "train.txt", "-o", "joint", *options)
    assert done.code == 0, done.err
    return "joint"


def test_one_model_of_words_and_tags_is_trained_and_scored(joint, shell):
    tagger = trellis.load(joint)
    assert "B-PROPN" in tagger.labels_
    assert "S-VERB" in tagger.labels_
    record = json.loads(Path("joint/training.json").read_text())
    assert (record["task"], record["scheme"]) == ("seg-pos", "BMES")
    scores = json.loads(shell("eval", joint, "train.txt", "--json", "--quiet").out)["scores"]
    assert scores["words"]["words"]["f1"] == scores["tagged"]["f1"] == 1.0
    done = shell("eval", joint, "train.txt", "--train", "train.txt", "--interval", "--quiet")
    assert "segmentation" in done.out
    assert "joint" in done.out
    done = shell("eval", joint, "train.txt", "--errors", "--quiet")
    assert "the task is seg-pos" in done.err


def test_training_reports_both_figures(here, shell):
    Path("train.txt").write_text(TRAIN, encoding="utf-8")
    Path("test.conllu").write_text(CONLLU + "\n", encoding="utf-8")
    done = shell(
        *("train", "-m", "hmm", "--task", "seg-pos", "--train", "train.txt"), "--test", "test.conllu", "-o", "m"
    )
    assert "segmentation F1" in done.out
    assert "joint F1" in done.out
    assert "task seg-pos, scheme BMES" in done.err


def test_answers_are_words_with_tags(joint, shell, standard_input):
    standard_input("他爱北京\n\n".encode())
    assert shell("tag", joint, "--quiet").out == "他/PRON 爱/VERB 北京/PROPN\n\n"
    standard_input("他爱北京\n".encode())
    assert shell("tag", joint, "--to", "inline", "--quiet").out == "[他](PRON) [爱](VERB) [北京](PROPN)\n"
    standard_input("他爱 北京\n".encode())
    record = json.loads(shell("tag", joint, "--to", "jsonl", "--kbest", "2", "--quiet").out)
    assert record["tokens"] == ["他", "爱", "北京"]
    assert record["tags"] == ["PRON", "VERB", "PROPN"]
    assert record["offsets"] == [[0, 1], [1, 2], [3, 5]]
    assert record["probabilities"] == [span["probability"] for span in record["spans"]]
    assert record["kbest"][0]["tokens"] == record["tokens"]
    assert len(record["kbest"][1]["tokens"]) == len(record["kbest"][1]["tags"])
    standard_input("他爱北京\n".encode())
    assert shell("tag", joint, "--to", "segmented", "--quiet").out == "他 爱 北京\n"
    standard_input("他爱北京\n".encode())
    assert shell("tag", joint, "--to", "conll", "--quiet").out.split()[:4] == ["他", "S-PRON", "爱", "S-VERB"]
    standard_input("他爱北京\n".encode())
    lines = shell("tag", joint, "--to", "wordtag", "--kbest", "2", "--quiet").out.splitlines()
    assert lines[0].split("\t")[1] == "他/PRON 爱/VERB 北京/PROPN"


def test_files_of_words_are_taken_apart_and_put_together_again(joint, shell):
    Path("test.conllu").write_text(CONLLU + "\n", encoding="utf-8")
    out = shell("tag", joint, "test.conllu", "--quiet", "--probs").out
    rows = [line.split("\t") for line in out.splitlines() if line and line[0] != "#"]
    assert [(row[1], row[3]) for row in rows] == [("他", "PRON"), ("爱", "VERB"), ("北京", "PROPN")]
    assert rows[0][9].startswith("Prob=0.")
    assert out.startswith("# text = 他 爱北京\n")
    assert shell("tag", joint, "train.txt", "--quiet").out == TRAIN
    assert shell("tag", joint, "train.txt", "--quiet", "-o", "out.txt").code == 0
    scores = json.loads(shell("score", "train.txt", "out.txt", "--task", "seg-pos", "--json").out)["scores"]
    assert scores["tagged"]["f1"] == 1.0


def test_a_segmenter_reads_the_text_of_files_of_words(here, shell, seg_model):
    Path("test.conllu").write_text(CONLLU.replace("爱", "喜欢") + "\n", encoding="utf-8")
    assert shell("tag", seg_model, "test.conllu", "--quiet").out.replace(" ", "") == "他喜欢北京\n"
    Path("tagged.txt").write_text("我/PRON 喜欢/VERB 北京/PROPN\n", encoding="utf-8")
    assert shell("tag", seg_model, "tagged.txt", "--quiet").out == "我 喜欢 北京\n"


def test_documents_of_a_joint_model(joint, shell):
    Path("doc.txt").write_text("他爱北京。\n音乐在北京。\n", encoding="utf-8")
    record = json.loads(shell("tag", joint, "doc.txt", "--sentences", "--to", "jsonl", "--quiet").out)
    assert [record["text"][a:b] for a, b in record["offsets"]] == record["tokens"]
    assert record["tokens"][:3] == ["他", "爱", "北京"]
    assert len(record["probabilities"]) == len(record["tokens"])


def test_characters_that_are_tagged_already_are_read_as_such(joint, shell):
    spelled = [corpus.to_characters(sentence) for sentence in corpus.read("train.txt")]
    corpus.write("spelled.conll", spelled)
    for scheme in ("BMES", "IOB2"):
        done = shell("train", "-m", "crf", "--task", "seg-pos", "--train", "spelled.conll", "-o", scheme, "--quiet")
        assert done.code == 0, done.err
        assert trellis.load(scheme).tagset_.scheme.value == scheme
        corpus.write(
            "spelled.conll",
            [corpus.to_characters(s, scheme=trellis.tags.Scheme.IOB2) for s in corpus.read("train.txt")],
        )
    scores = json.loads(shell("eval", joint, "spelled.conll", "--json", "--quiet").out)["scores"]
    assert scores["tagged"]["f1"] == 1.0
    scored = shell("score", "spelled.conll", "train.txt", "--task", "seg-pos", "--json")
    assert json.loads(scored.out)["scores"]["tagged"]["f1"] == 1.0


def test_a_scheme_that_does_not_part_words_is_refused(here, shell):
    Path("train.txt").write_text(TRAIN, encoding="utf-8")
    done = shell("train", "-m", "crf", "--task", "seg-pos", "--scheme", "plain", "--train", "train.txt", "-o", "m")
    assert done.code == 2
    assert "--scheme plain does not say where words begin and end" in done.err
    Path("bare.seg").write_text("我们 爱\n", encoding="utf-8")
    done = shell("train", "-m", "crf", "--task", "seg-pos", "--format", "segmented", "--train", "bare.seg", "-o", "m")
    assert done.code == 1
    assert "bare.seg:1: the words have no tags, which --task seg-pos learns" in done.err


@pytest.fixture
def models(joint, shell) -> tuple[str, str]:
    words = corpus.read("train.txt").sentences
    corpus.write("words.seg", [sentence.with_tags(None) for sentence in words])
    for task, file, name in (("seg", "words.seg", "seg"), ("pos", "train.txt", "pos")):
        options = ("--set", "c2=0.01", "--quiet")
        done = shell("train", "-m", "crf", "--task", task, "--train", file, "-o", name, *options)
        assert done.code == 0, done.err
    return "seg", "pos"


def test_models_in_a_chain(models, shell, standard_input, ner_model):
    standard_input("他爱 北京\n\n".encode())
    assert shell("tag", "--pipe", "seg", "pos", "--quiet", "--to", "wordtag").out == "他/PRON 爱/VERB 北京/PROPN\n\n"
    Path("a.txt").write_text("他爱 北京\n", encoding="utf-8")
    record = json.loads(shell("tag", "--pipe", "seg", "pos", ner_model, "a.txt", "--to", "jsonl", "-q").out)
    assert record["tokens"] == ["他", "爱", "北京"]
    assert record["offsets"] == [[0, 1], [1, 2], [3, 5]]
    assert record["pos"] == ["PRON", "VERB", "PROPN"]
    assert len(record["tags"]) == 3
    columns = shell("tag", "--pipe", "joint", ner_model, "a.txt", "-q").out
    assert columns.startswith("他\tPRON\t")
    whole = json.loads(shell("tag", "--pipe", "seg", "pos", "a.txt", "--to", "jsonl", "--sentences", "-q").out)
    assert whole["tags"] == ["PRON", "VERB", "PROPN"]


def test_what_is_wrong_with_a_chain_is_said(models, shell):
    Path("a.txt").write_text("他爱北京\n", encoding="utf-8")
    for arguments, problem in (
        (["seg", "a.txt"], "--pipe: expected two or more models, then the files to tag; found 1 model"),
        (["seg", "none", "a.txt"], "--pipe: none does not exist"),
        (["seg", "a.txt", "pos"], "--pipe: the model pos comes after the file a.txt"),
        (["pos", "seg", "a.txt"], "tagger 2 of the pipeline, seg, makes words of characters"),
        (["seg", "pos", "a.txt", "--constrain", "a.txt"], "--pipe makes other tokens"),
    ):
        done = shell("tag", "--pipe", *arguments)
        assert done.code != 0, problem
        assert problem in done.err
    Path("empty").mkdir()
    assert "holds no model" in shell("tag", "--pipe", "seg", "empty", "a.txt").err
