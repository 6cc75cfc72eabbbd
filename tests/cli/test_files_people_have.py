"""Files as colleagues have them: tables, brat, numbered files, ids; and files that would train on nonsense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import conll, sentences
from trellis import CRF, corpus
from trellis.errors import DataWarning
from trellis.text import Sentence

TRAIN = ("train", "-m", "hmm", "-o", "model", "--train")
KAGGLE = "Sentence #,Word,POS,Tag\n" + "".join(
    f"{f'Sentence: {number}' if i == 0 else ''},{f'{chr(34)},{chr(34)}' if token == ',' else token},X,{tag}\n"
    for number, one in enumerate(sentences(), 1)
    for i, (token, tag) in enumerate(zip(one.tokens, one.tags or (), strict=True))
)


def test_a_table_is_trained_on_tagged_and_evaluated(here, shell):
    Path("ner.csv").write_text(KAGGLE)
    done = shell(*TRAIN, "ner.csv", "--test", "ner.csv")
    assert done.code == 0, done.err
    assert "ner.csv, csv since its first line names the columns Sentence #, Word, POS, Tag" in done.err
    assert "train: 6 sentences, 32 tokens" in done.err
    tagged = shell("tag", "model", "ner.csv", "--probs")
    assert tagged.out.splitlines()[:2] == [
        "sentence,token,POS,Tag,tag,probability",
        f"Sentence: 1,Anna,X,B-PER,{tagged.out.splitlines()[1].split(',', 4)[4]}",
    ]
    lines = shell("tag", "model", "ner.csv", "ner.csv", "--to", "csv", "-q").out.splitlines()
    assert sum(line.startswith("sentence,token") for line in lines) == 1
    refused = shell("tag", "model", "ner.csv", "--to", "csv", "--kbest", "2")
    assert (refused.code, "no place for --kbest" in refused.err) == (2, True)
    assert shell("eval", "model", "ner.csv", "-q").code == 0


def test_text_is_tagged_into_rows_and_a_corpus_converted(here, shell, ner_model, standard_input):
    standard_input(b"Anna slept.\n\nShe met Paul.\n")
    assert shell("tag", ner_model, "-", "--to", "csv").out == (
        "sentence,token,tag\n1,Anna,B-PER\n1,slept,O\n1,.,O\n3,She,O\n3,met,O\n3,Paul,B-PER\n3,.,O\n"
    )
    assert shell("convert", "train.conll", "out.csv").code == 0
    assert corpus.read("out.csv").sentences == sentences()


def test_a_folder_of_brat_is_trained_on_and_evaluated(here, shell):
    assert shell("convert", "train.conll", "data", "--to", "brat").code == 0
    done = shell(*TRAIN, "data")
    assert "train: 6 sentences, 32 tokens" in done.err
    assert shell("eval", "model", "data", "-q").code == 0
    text = shell(*TRAIN, "data/train-001.txt")
    assert "give data/train-001.ann or its folder instead" in text.err


def test_overlapping_spans_are_chosen_from(here, shell):
    Path("a.jsonl").write_text('{"text": "New York Times", "label": [[0, 8, "LOC"], [0, 14, "ORG"]]}\n')
    refused = shell("convert", "a.jsonl", "-", "--to", "conll")
    assert "'New York' overlap" in refused.err or "overlap, and a token has one tag" in refused.err
    done = shell("convert", "a.jsonl", "-", "--to", "conll", "--overlaps", "longest")
    assert done.out == "New\tB-ORG\nYork\tI-ORG\nTimes\tI-ORG\n\n"
    assert "a.jsonl: overlapping spans left out: 1" in done.err
    assert "the span [0, 8, 'LOC'] 'New York' overlaps the span [0, 14, 'ORG'] 'New York Times'" in done.err


@pytest.mark.parametrize("names", ["O,B-PER,I-PER,B-LOC,I-LOC", "names.txt"])
def test_ids_are_spelled_by_names(here, shell, names):
    known = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    Path("names.txt").write_text("\n".join(known) + "\n")
    records = [{"tokens": list(one.tokens), "ner_tags": [known.index(tag) for tag in one.tags]} for one in sentences()]
    Path("a.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    assert "--names O,B-PER" in shell(*TRAIN, "a.jsonl").err
    assert shell("convert", "a.jsonl", "out.conll", "--names", names).code == 0
    assert corpus.read("out.conll").sentences == sentences()
    assert "B-LOC" in json.loads(shell("check", "a.jsonl", "--names", names, "--json").out)["files"][0]["tags"]
    assert "expected names separated by commas or a file" in shell("check", "a.jsonl", "--names", "none.txt").err


@pytest.mark.parametrize("kind", ["tokens", "sentences"])
def test_a_numbered_file_without_blank_lines_is_divided_by_its_numbers(here, shell, kind):
    rows = [
        f"{i + 1 if kind == 'tokens' else number}\t{token}\t{tag}\n"
        for number, one in enumerate(sentences(), 1)
        for i, (token, tag) in enumerate(zip(one.tokens, one.tags, strict=True))
    ]
    Path("a.tsv").write_text("".join(rows))
    assert "give --tokens 1" in shell(*TRAIN, "a.tsv").err
    done = shell(*TRAIN, "a.tsv", "--tokens", "1")
    assert "train: 6 sentences, 32 tokens" in done.err
    assert "files without blank lines, divided into sentences by the numbers of a column" in done.err
    assert [one.line_of(0) for one in corpus.read("a.tsv", tokens=1)] == [1, 8, 14, 18, 24, 30][: len(sentences())]


def test_sentences_of_one_token_are_divided_too(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"w\t{number}\tO\n" for number in (1, 2, 3, 4, 1, 1, 2, 1)))
    assert [len(one) for one in corpus.read(path)] == [4, 1, 2, 1]


def test_numbers_in_the_last_column_are_no_tags(here, shell):
    rows = [
        (token, tag, number)
        for number, one in enumerate(sentences())
        for token, tag in zip(one.tokens, one.tags, strict=True)
    ]
    Path("a.tsv").write_text("".join(f"{token}\t{tag}\t{number}\n" for token, tag, number in rows))
    refused = shell(*TRAIN, "a.tsv")
    assert "a.tsv: expected tags in the last column, found numbers that count tokens or sentences" in refused.err
    assert "train: 6 sentences, 32 tokens" in shell(*TRAIN, "a.tsv", "--tags", "-2").err
    assert corpus.read("a.tsv", tags=2).sentences[0].tags[0] == "0"


def test_tags_that_are_numbers_are_told(here, shell):
    Path("a.csv").write_text("sentence,word,tag\n1,Ada,1\n1,slept,0\n2,Bob,1\n2,ate,0\n")
    assert "the tags are numbers, to which --names O,B-PER,... gives names" in shell(*TRAIN, "a.csv").err
    assert "numbers" not in shell(*TRAIN, "a.csv", "--names", "O,B-PER", "--overwrite").err


def test_other_columns_of_numbers_divide_nothing(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("".join(f"w{i}\t{i % 2}\t{i * 7 % 31}\tO\n" for i in range(60)))
    assert len(corpus.read(path)) == 1
    path.write_text("".join(f"w{i}\t{i % 5 + 1}\tO\n" + ("\n" if i % 10 == 9 else "") for i in range(60)))
    assert [len(one) for one in corpus.read(path)] == [10] * 6


def test_a_very_long_sentence_is_told(here, shell):
    Path("a.conll").write_text("Ada\tB-PER\nslept\tO\n" * 501)
    done = shell(*TRAIN, "a.conll")
    assert "a.conll: sentences of more than 1,000 tokens" in done.err
    assert "  a.conll:1: 1,002 tokens" in done.err
    with pytest.warns(DataWarning, match=r"^sentence 1 has 1,002 tokens: is a blank line missing"):
        CRF(max_iterations=1).fit([["Ada", "slept"], ["Ada", "slept"] * 501], [["P", "O"], ["P", "O"] * 501])


@pytest.mark.parametrize("text", ["import os\nprint(os.name)\nx = 3\n", "It was a dark night.\nNobody slept.\n"])
def test_raw_text_is_no_segmentation_unless_the_task_says_so(here, shell, text):
    Path("a.txt").write_text(text)
    refused = shell("train", "-m", "crf", "--train", "a.txt", "-o", "new/model")
    assert refused.code == 1
    assert "expected tags to learn, found lines of words" in refused.err
    assert "--task seg" in refused.err
    assert not Path("new").exists()  # nothing is left of a training that was refused
    assert shell(*TRAIN, "a.txt", "--task", "seg").code == 0
    assert shell(*TRAIN, "train.seg", "--overwrite").code == 0  # its name says so


def test_chunks_are_not_taken_for_names(here, shell):
    Path("a.conll").write_text("He\tB-NP\nwent\tB-VP\nhome\tB-NP\n\nShe\tB-NP\nslept\tB-VP\nthere\tO\n")
    assert "task chunk (guessed from the tags)" in shell(*TRAIN, "a.conll").err


def test_names_are_not_written_into_the_parts_of_speech(here, shell):
    done = shell("convert", "dev.conll", "-", "--to", "conllu")
    assert done.out.splitlines()[0] == "1\tAnna\t_\t_\t_\t_\t_\t_\t_\tNER=B-PER"
    Path("a.conllu").write_text(done.out)
    assert corpus.read("a.conllu", tags="misc.NER").sentences[0].tags == sentences()[0].tags
    assert (
        "expected PER=... in the column misc"
        in shell("convert", "a.conllu", "-", "--to", "conll", "--tags", "misc.PER").err
    )


def test_keys_that_occur_twice_are_refused(here, shell):
    Path("a.jsonl").write_text('{"tokens": ["a"], "tags": ["O"], "tags": ["X"]}\n')
    assert "a.jsonl:1: expected JSON: the key 'tags' occurs twice" in shell("check", "a.jsonl").out


def test_a_few_odd_tokens_leave_a_model_of_characters_one(here, shell):
    rows = [Sentence(list("我喜欢音乐他也在北京学习很好"), ["B-X", *["O"] * 13])] * 4
    odd = Sentence(["\ufffd\ufffd", "好", "👍🏽"], ["O", "O", "O"])
    Path("a.conll").write_text(conll([*rows, odd]))
    assert "raw text will be split into tokens by the tokenizer characters" in shell(*TRAIN, "a.conll").err
    Path("a.conll").write_text(conll([*rows, *[odd] * 9]))
    assert "by the tokenizer words" in shell(*TRAIN, "a.conll", "--overwrite").err


def test_eval_says_where_the_model_splits_texts_differently(here, shell):
    Path("a.conll").write_text("call\tO\n#\tO\nA\tB-ID\n-\tI-ID\n10293\tI-ID\nnow\tO\n\n" * 5)
    assert shell(*TRAIN, "a.conll").code == 0
    assert "splits raw text differently" not in shell("eval", "model", "a.conll").err
    Path("b.conll").write_text("call\tO\n#A-10293\tB-ID\nnow\tO\n\n")
    assert "b.conll: the model splits raw text differently from this file, 1 token of 3: '#A-10293' as # A - 10293" in (
        shell("eval", "model", "b.conll").err
    )
    record = {"text": "call #A-10293", "tokens": ["call", "#A", "-", "10293"], "tags": ["O", "B-ID", "I-ID", "I-ID"]}
    record["offsets"] = [[0, 4], [5, 7], [7, 8], [8, 13]]
    Path("c.jsonl").write_text(json.dumps(record) + "\n")
    assert "'#A' as # A" in shell("eval", "model", "c.jsonl").err
    shell(*TRAIN, "b.conll", "--overwrite", "--tokenizer", "whitespace")
    assert "this file, 1 token of 4: '#A-10293' as one token" in shell("eval", "model", "c.jsonl").err


def test_a_folder_of_brat_is_tagged_like_a_file(here, shell, ner_model):
    assert shell("convert", "train.conll", "data", "--to", "brat").code == 0
    tagged = shell("tag", ner_model, "data", "--to", "conll")
    assert (tagged.code, tagged.out.count("\n\n")) == (0, len(sentences()))
    assert tagged.out == shell("tag", ner_model, "train.conll", "--to", "conll").out


def test_score_reads_columns_as_training_does(here, shell):
    Path("a.csv").write_bytes("sentence,word,x\n1,José,B-PER\n1,slept,O\n".encode("cp1252"))
    assert shell("score", "a.csv", "a.csv").code == 1
    done = shell("score", "a.csv", "a.csv", "--encoding", "cp1252", "--tags", "x", "--json", "-q")
    assert json.loads(done.out)["scores"]["micro"]["f1"] == 1
