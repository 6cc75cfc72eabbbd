"""Ordinary data: columns by spaces, blank lines, bad tags, labels that training lacks, other spellings, exports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trellis
from tests.cli.conftest import conll, sentences
from trellis.models import folder
from trellis.tags import Scheme, convert_tags

SPACED = "-DOCSTART- -X- O\n\nAnna NNP O\nslept VBD O\n\nRome NNP O\nis VBZ O\nold JJ O\n"
TRAIN = ("train", "-m", "hmm", "--train", "train.conll", "-o", "model")
BAD = "Ada\tB-PER\nslept\tO\n\nShe\tO\nmet\tI-PER\n\nIt\to\n"


@pytest.fixture
def dirty(here: Path) -> Path:
    """Six clean sentences three times, then one with an illegal step and one with a typing error."""
    Path("train.conll").write_text(conll(sentences() * 3) + "\nMet\tO\nPaul\tI-PER\n\nIt\to\nslept\tO\n")
    return here


@pytest.mark.parametrize("piped", [False, True])
def test_columns_separated_by_spaces_are_columns_to_tag_too(here, shell, ner_model, standard_input, piped):
    Path("in.txt").write_text(SPACED)
    standard_input(SPACED.encode())
    done = shell("tag", ner_model, "-" if piped else "in.txt")
    marked = "-DOCSTART-\t-X-\tO\n\nAnna\tNNP\tB-PER\nslept\tVBD\tO\n\n"
    assert done.out == f"{marked}Rome\tNNP\tB-LOC\nis\tVBZ\tO\nold\tJJ\tO\n\n"
    assert done.err == (
        f"{'<stdin>' if piped else 'in.txt'}: read as conll, since it has 3 columns separated by spaces "
        "and -DOCSTART- lines\n"
    )


def test_blank_lines_alone_stay_as_many(here, shell, ner_model, standard_input):
    standard_input(b"  \n\n \t \n")
    done = shell("tag", ner_model, "--to", "jsonl")
    assert [json.loads(line)["text"] for line in done.out.splitlines()] == ["  ", "", " \t "]
    assert done.err == "<stdin>: read as text (one sentence per line), since it has only blank lines\n"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("inline", "[Anna](PER) slept.\n\nIt rained.\n"),
        ("conll", "Anna\tB-PER\nslept\tO\n.\tO\n\n\nIt\tO\nrained\tO\n.\tO\n\n"),
        ("wordtag", "Anna/B-PER slept/O ./O\n\nIt/O rained/O ./O\n"),
        ("segmented", "Anna slept .\n\nIt rained .\n"),
    ],
)
def test_a_blank_line_stays_a_blank_line(here, shell, ner_model, standard_input, form, expected):
    standard_input(b"Anna slept.\n\nIt rained.\n")
    done = shell("tag", ner_model, "--to", form)
    assert (done.code, done.out) == (0, expected)


@pytest.mark.parametrize("form", ["jsonl", "conllu"])
def test_also_where_a_line_is_a_record(here, shell, ner_model, standard_input, form):
    standard_input(b"Anna slept.\n\n  \nIt rained.\n")
    done = shell("tag", ner_model, "--to", form, "--kbest", "1")
    assert done.code == 0
    if form == "jsonl":
        assert [json.loads(line)["text"] for line in done.out.splitlines()] == ["Anna slept.", "", "  ", "It rained."]
    else:
        assert "\n\n\n\n# kbest = 1" in done.out


UD = """\
# text = Anna slept
1-2\tAnnaslept\t_\t_\t_\t_\t_\t_\t_\t_
1\tAnna\tAnna\tPROPN\tNNP\t_\t2\tnsubj\t_\t_
2\tslept\tsleep\tVERB\tVBD\t_\t0\troot\t_\tA=b
2.1\tx\tx\tX\t_\t_\t_\t_\t0:x\t_

"""


def test_conllu_stays_what_it_was_and_gets_the_tags(here, shell, ner_model):
    Path("in.conllu").write_text(UD)
    tagged = shell("tag", ner_model, "in.conllu").out
    expected = UD.replace("nsubj\t_\t_", "nsubj\t_\tNER=B-PER").replace("A=b", "A=b|NER=O")
    assert tagged == expected
    shell("train", "-m", "hmm", "--train", "in.conllu", "--tags", "xpos", "-o", "pos", "-q")
    assert shell("tag", "pos", "in.conllu").out == UD
    assert "Prob=" in shell("tag", "pos", "in.conllu", "--probs").out
    shell("convert", "in.conllu", "out.conllu")
    assert Path("out.conllu").read_text() == UD


def test_bad_tags_stop_a_training_with_place_count_and_what_to_do(dirty, shell):
    done = shell(*TRAIN)
    assert done.code == 1
    assert (
        "trellis: train.conll:116: bad tag 'I-PER': I-PER must follow B-PER or I-PER, not O (IOB2); 2 bad tags in 2 of "
        '20 sentences: --on-bad-tags repair (in Python on_bad_tags="repair") reads them as seqeval does, '
        "drop leaves their sentences out: 'Paul I-PER'\n"
    ) in done.err


def test_they_are_repaired_or_dropped_and_every_change_is_said(dirty, shell):
    repaired = shell(*TRAIN, "--on-bad-tags", "repair", "--dev", "train.conll")
    assert repaired.code == 0, repaired.err
    assert "task ner (guessed from the tags), scheme IOB2 (detected)" in repaired.err
    notes = "train.conll: 2 tags repaired (IOB2):\n  train.conll:116: I-PER -> B-PER\n  train.conll:118: o -> O\n"
    assert notes in repaired.err
    dropped = shell(*TRAIN, "--on-bad-tags", "drop")
    assert "train.conll: 2 of 20 sentences dropped for bad tags (IOB2):" in dropped.err
    assert folder.read_record("model")["data"]["train"]["sentences"] == 18


@pytest.mark.parametrize("command", ["eval", "convert"])
def test_eval_and_convert_ask_too(dirty, shell, ner_model, command):
    arguments = [ner_model, "train.conll"] if command == "eval" else ["train.conll", "out.conll", "--scheme", "BIOES"]
    refused = shell(command, *arguments)
    assert refused.code == 1
    assert "train.conll:116: bad tag 'I-PER'" in refused.err
    for how, note in (("repair", "2 tags repaired (IOB2):"), ("drop", "2 of 20 sentences dropped")):
        done = shell(command, *arguments, "--on-bad-tags", how)
        assert done.code == 0
        assert f"train.conll: {note}" in done.err


def test_labels_that_training_lacks_are_counted_and_missed(here, shell):
    Path("dev.conll").write_text(conll(sentences()[:2]) + "\nAcme\tB-ORG\nInc\tI-ORG\nfell\tO\n")
    for family in ("hmm", "crf"):
        done = shell("train", "-m", family, *TRAIN[3:], "--dev", "dev.conll", "--test", "dev.conll", "--overwrite")
        assert done.code == 0, done.err
        said = "tokens with labels that the training data lack, which count as missed: 2, with B-ORG (1), I-ORG (1)"
        assert done.err.count(said) == 2
    assert shell("eval", "model", "dev.conll").err.count(said) == 1


def test_a_scheme_in_lower_case_is_recognised_and_said(here, shell):
    Path("train.conll").write_text("我\tb\n们\te\n好\ts\n\n大\tb\n家\tm\n庭\te\n")
    done = shell(*TRAIN)
    assert done.code == 0, done.err
    assert "the tags are BMES in another spelling; read b as B, e as E, s as S, m as M" in done.err
    assert "task seg (guessed from the tags), scheme BMES (detected)" in done.err
    assert set(trellis.load("model").labels_) == set("BMES")
    assert shell("eval", "model", "train.conll").code == 0


def test_where_only_the_held_out_file_needs_b_the_scheme_has_it(here, shell):
    iob1 = [s.with_tags(convert_tags(s.tags, Scheme.IOB2, Scheme.IOB1)) for s in sentences()]
    Path("train.conll").write_text(conll(iob1))
    Path("dev.conll").write_text(conll(iob1[:1]) + "\nAnna\tI-PER\nPaul\tB-PER\nmet\tO\n")
    assert shell(*TRAIN, "--dev", "dev.conll").code == 0
    assert "B-PER" in trellis.load("model").labels_


def test_exports_are_read_as_asked_and_what_is_left_out_is_said(here, shell):
    records = [
        {"text": "Anna Smith met Paul", "spans": [{"start": 0, "end": 10, "label": "PER"}], "answer": "accept"},
        {"text": "Roman roads", "spans": [{"start": 0, "end": 4, "label": "LOC"}], "answer": "accept"},
        {"text": "It rained", "spans": [], "answer": "reject"},
    ]
    Path("prodigy.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    done = shell("train", "-m", "hmm", "--train", "prodigy.jsonl", "-o", "model")
    assert done.code == 0, done.err
    assert "prodigy.jsonl: left out records with the answer 'reject' (Prodigy): 1" in done.err
    assert "prodigy.jsonl: tokens split where a span cuts them: 1" in done.err
    assert "  prodigy.jsonl:2: 'Roman' became 'Roma n'" in done.err
    expanded = shell("convert", "prodigy.jsonl", "-", "--to", "wordtag", "--align", "expand")
    assert expanded.out == "Anna/B-PER Smith/I-PER met/O Paul/O\nRoman/B-LOC roads/O\n"
    assert len(shell("tag", "model", "prodigy.jsonl").out.splitlines()) == 3
