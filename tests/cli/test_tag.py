"""`trellis tag`: what comes in, what goes out, what is broken, and who stops listening."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trellis
from tests.cli.conftest import sentences
from trellis.models import CRF

TEXT = "Anna lives in Rome.\nIt rained.\n"


@pytest.fixture
def text(here):
    Path("text.txt").write_text(TEXT)
    return here


def test_raw_text_becomes_columns_in_a_pipe(text, shell, ner_model):
    done = shell("tag", ner_model, "text.txt")
    assert done.code == 0
    told = "text.txt: read as text (one sentence per line), since it has lines of words, not columns or JSON\n"
    assert done.err == told
    assert shell("tag", ner_model, "text.txt", "--from", "text").err == ""
    assert shell("tag", ner_model, "text.txt", "--quiet").err == ""
    assert done.out == "Anna\tB-PER\nlives\tO\nin\tO\nRome\tB-LOC\n.\tO\n\nIt\tO\nrained\tO\n.\tO\n\n"


def test_an_argument_in_quotes_is_text(text, shell, ner_model, standard_input):
    told = shell("tag", ner_model, "Anna lives in Rome.", "It rained.")
    assert (told.code, told.err) == (0, "")
    assert told.out == shell("tag", ner_model, "text.txt").out == shell("tag", ner_model, TEXT.strip()).out
    assert shell("tag", ner_model, "Rome .", "--from", "tokens").out == "Rome\tB-LOC\n.\tO\n\n"
    done = shell("tag", ner_model, "Anna slept. It rained.", "--sentences", "--to", "jsonl")
    assert [json.loads(line)["text"] for line in done.out.splitlines()] == ["Anna slept. It rained."]
    assert shell("tag", ner_model, "Anna slept. It rained.", "--sentences").out.count("\n\n") == 2
    Path("of two words").write_text("Rome\n")
    assert shell("tag", ner_model, "of two words", "-q").out == "Rome\tB-LOC\n\n"


def test_an_argument_without_blanks_that_names_no_file_is_an_error(here, shell, ner_model):
    problem = "No such file or directory"
    assert shell("tag", ner_model, "nowhere.txt").err == f"trellis: nowhere.txt: {problem}\n"
    done = shell("tag", ner_model, "Anna", "slept")
    assert (done.code, done.out) == (1, "")
    hint = f"A text is given in quotes, or as in echo Anna | trellis tag {ner_model}"
    assert done.err == f"trellis: Anna: {problem}. {hint}\n"
    assert f"Anna slept: {problem}" in shell("tag", ner_model, "Anna slept", "--from", "conll").err


def test_a_table_keeps_the_tags_that_it_has(here, shell, ner_model):
    Path("a.csv").write_text("word,tag\nRome,B-PER\n")
    assert shell("tag", ner_model, "a.csv").out == "sentence,token,tag,predicted\n1,Rome,B-PER,B-LOC\n"
    Path("b.csv").write_text("word,Tag\nRome,B-PER\n")
    assert shell("tag", ner_model, "b.csv").out == "sentence,token,Tag,tag\n1,Rome,B-PER,B-LOC\n"


def test_a_person_is_told_that_the_keyboard_is_read(here, ner_model):
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "trellis", "tag", str(ner_model), "--from", "text"]
    os.write(screen, b"Rome\nRome\n\x04")
    done = subprocess.run(command, stdin=terminal, capture_output=True, check=True, timeout=60)
    assert done.stdout == 2 * b"Rome\tB-LOC\n\n"
    assert b"reading from the keyboard: one sentence per line, Ctrl-D ends it" in done.stderr


RECORDS = {
    "texts": {"id": 7, "url": "http://x", "text": "Anna slept", "score": 0.12345678901},
    "tokens": {"id": "a", "tokens": ["Anna", "slept"], "meta": {"k": [1, None]}, "ner_tags": ["O", "O"]},
    "doccano": {"id": 3, "text": "Anna slept", "label": [[0, 4, "PER"]], "Comments": []},
    "Label Studio": {"id": 5, "data": {"text": "Anna slept", "url": "u"}, "annotations": []},
    "Trellis": {"text": "Anna slept", "tags": ["O"], "spans": [], "probabilities": [1.0, 1.0], "kbest": [], "id": 1},
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_json_lines_keep_the_other_fields(here, shell, ner_model, record):
    Path("in.jsonl").write_text(json.dumps(record) + "\n" + json.dumps({**record, "id": None}) + "\n")
    first, second = map(json.loads, shell("tag", ner_model, "in.jsonl", "--kbest", 1).out.splitlines())
    answer = {"text", "tokens", "offsets", "tags", "spans", "probabilities", "kbest"}
    assert set(first) == answer | set(record)
    assert {name: first[name] for name in record if name not in answer} == {
        name: value for name, value in record.items() if name not in answer
    }
    assert (first["tags"], len(first["kbest"])) == (["B-PER", "O"], 1)
    assert second == {**first, "id": None}


def test_tuples_of_spacy_keep_the_other_fields(here, shell, ner_model):
    Path("in.jsonl").write_text('["Anna slept", {"entities": [[0, 4, "PER"]], "id": 1}]\n')
    record = json.loads(shell("tag", ner_model, "in.jsonl").out)
    assert (record["text"], record["entities"], record["id"]) == ("Anna slept", [[0, 4, "PER"]], 1)


def test_standard_input_and_inline_marks(text, shell, ner_model, standard_input):
    standard_input(TEXT.encode())
    assert shell("tag", ner_model, "-", "--to", "inline").out == "[Anna](PER) lives in [Rome](LOC).\nIt rained.\n"
    standard_input(TEXT.encode())
    marked = shell("tag", ner_model, "--to", "inline", "--probs").out
    p = trellis.load(ner_model)("Anna lives in Rome.").spans[0].probability
    assert marked.startswith(f"[Anna](PER {p:.2f}) lives in ")


def test_json_lines_have_spans_offsets_and_probabilities(text, shell, ner_model):
    first, second = map(
        json.loads, shell("tag", ner_model, "text.txt", "--to", "jsonl", "--kbest", "2").out.splitlines()
    )
    expected = trellis.load(ner_model)("Anna lives in Rome.")
    assert first["text"] == "Anna lives in Rome."
    assert first["tokens"] == ["Anna", "lives", "in", "Rome", "."]
    assert first["offsets"] == [[0, 4], [5, 10], [11, 13], [14, 18], [18, 19]]
    assert [(s["start"], s["end"], s["label"], s["text"]) for s in first["spans"]] == [
        (0, 4, "PER", "Anna"),
        (14, 18, "LOC", "Rome"),
    ]
    assert first["spans"][0]["probability"] == pytest.approx(expected.spans[0].probability, abs=1e-6)
    assert first["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)
    assert first["kbest"][0]["tags"] == list(expected.tags)
    assert first["kbest"][0]["probability"] >= first["kbest"][1]["probability"]
    assert second["spans"] == []


def test_the_form_follows_the_input(text, shell, ner_model):
    Path("in.jsonl").write_text('{"tokens": ["Anna", "slept"], "pos": ["NNP", "VBD"]}\n')
    record = json.loads(shell("tag", ner_model, "in.jsonl").out)
    assert (record["tags"], record["pos"]) == (["B-PER", "O"], ["NNP", "VBD"])
    Path("in.tsv").write_text("Anna\tNNP\tO\nslept\tVBD\tO\n")
    assert shell("tag", ner_model, "in.tsv", "--probs").out.startswith("Anna\tNNP\tB-PER\t0.")


def test_the_form_follows_the_name_of_the_file_to_write(text, shell, ner_model):
    for name, first in (("a.csv", "sentence,token,tag"), ("a.jsonl.gz", None), ("a.out", "Anna\tB-PER")):
        assert shell("tag", ner_model, "text.txt", "-o", name).code == 0
        content = Path(name).read_bytes()
        content = gzip.decompress(content) if name.endswith("gz") else content
        assert json.loads(content.splitlines()[0])["tokens"] if first is None else content.decode().startswith(first)
    assert shell("tag", ner_model, "text.txt", "-o", "a.csv", "--to", "conll").code == 0
    assert Path("a.csv").read_text().startswith("Anna\tB-PER")


def test_the_text_of_a_record_is_kept_and_its_tokens_are_found_in_it(here, shell, ner_model):
    text = "Rome,Anna flew to  Paris"
    record = {"text": text, "tokens": ["Rome", ",", "Anna", "flew", "to", "Paris"]}
    Path("in.jsonl").write_text(json.dumps(record) + "\n")
    found = json.loads(shell("tag", ner_model, "in.jsonl", "--to", "jsonl").out)
    assert found["text"] == text
    assert [text[a:b] for a, b in found["offsets"]] == record["tokens"]
    assert (19, 24, "Paris") in [(span["start"], span["end"], span["text"]) for span in found["spans"]]


def test_tokens_that_are_not_in_the_text_of_their_record_are_an_error(here, shell, ner_model):
    Path("in.jsonl").write_text('{"tokens": ["It"]}\n{"text": "Anna met Bob", "tokens": ["Bob", "Anna"]}\n')
    stopped = shell("tag", ner_model, "in.jsonl", "--to", "jsonl")
    assert stopped.code != 0
    assert "in.jsonl:2: expected the tokens in the text, one behind another, found no 'Anna'" in stopped.err
    passed = shell("tag", ner_model, "in.jsonl", "--to", "jsonl", "--on-error", "pass")
    assert json.loads(passed.out.splitlines()[0])["text"] == "It"
    assert "found no 'Anna' (token 1) behind character 12" in passed.err


def test_documents_are_answered_as_a_whole(here, shell, ner_model):
    Path("doc.txt").write_text("Anna lives in Rome. It\nrained.\n\nAnna left.\n")
    record = json.loads(shell("tag", ner_model, "doc.txt", "--sentences", "--to", "jsonl").out)
    assert record["text"] == "Anna lives in Rome. It\nrained.\n\nAnna left."
    assert [record["text"][s["start"] : s["end"]] for s in record["spans"]] == ["Anna", "Rome", "Anna"]
    columns = shell("tag", ner_model, "doc.txt", "--sentences", "--to", "conll").out
    assert columns.count("\n\n") == 3  # one block per sentence, not per line
    for options in (["--kbest", "2"], ["--from", "tokens"]):
        done = shell("tag", ner_model, "doc.txt", "--sentences", *options)
        assert "--sentences is for raw text" in done.err


def test_white_space_is_a_boundary_of_words_in_raw_text(here, shell, seg_model, standard_input):
    standard_input("我喜 欢\n".encode())
    words = shell("tag", seg_model, "--to", "segmented").out.split()
    assert "喜" in words[-2]
    assert words[-1] == "欢"


@pytest.mark.parametrize("space", [" ", "\u3000"])
def test_a_name_in_latin_letters_keeps_its_spaces(here, shell, seg_model, standard_input, space):
    standard_input(f"我喜欢iPhone{space}15{space}Pro\n".encode())
    out = shell("tag", seg_model, "--to", "segmented").out
    assert out.replace(" ", "") == "我喜欢iPhone15Pro\n"
    assert "e 1" in out
    assert "5 P" in out


def test_tokens_are_split_at_spaces_only(text, shell, ner_model, standard_input):
    standard_input(b"Anna's friend.\n")
    assert shell("tag", ner_model, "--from", "tokens").out.split()[::2] == ["Anna's", "friend."]


def test_segmented_text(here, shell, seg_model, standard_input):
    standard_input("我喜欢北京\n\n他喜欢音乐\n".encode())
    assert shell("tag", seg_model).out == "我 喜欢 北京\n\n他 喜欢 音乐\n"
    standard_input("我喜欢北京\n".encode())
    lines = shell("tag", seg_model, "--kbest", "2").out.splitlines()
    assert lines[0].split("\t")[1] == "我 喜欢 北京"
    assert float(lines[0].split("\t")[0]) > float(lines[1].split("\t")[0])
    standard_input("我喜欢北京\n".encode())
    assert shell("tag", seg_model, "--to", "inline").out == "我 喜欢 北京\n"


def test_the_k_best_as_columns(here, shell, ner_model, standard_input):
    standard_input(b"Anna\n")
    best = trellis.load(ner_model).kbest([["Anna"]], 2)[0]
    expected = "".join(f"# {i} {p.probability:.6f}\nAnna\t{p.tags[0]}\n\n" for i, p in enumerate(best, 1))
    assert shell("tag", ner_model, "--kbest", "2").out == expected


def test_the_scores_are_computed_once_however_much_is_asked(text, shell, ner_model, monkeypatch):
    runs = []
    scores_of = CRF._scores
    monkeypatch.setattr(CRF, "_scores", lambda self, inputs: runs.append(len(inputs)) or scores_of(self, inputs))
    done = shell("tag", ner_model, "text.txt", "--probs", "--kbest", 3, "--to", "jsonl")
    assert (done.code, len(runs)) == (0, 1)


def test_known_labels_are_kept(here, shell, ner_model, hmm_model):
    Path("some.conll").write_text("Anna\tB-LOC\nslept\t_\n\nRome\tB-PER|O\n.\t_\n")
    for model in (ner_model, hmm_model):
        done = shell("tag", model, "some.conll", "--constrain", "some.conll")
        tags = [line.split("\t")[1] for line in done.out.splitlines() if line]
        assert tags[0] == "B-LOC"
        assert tags[2] in ("B-PER", "O")
    assert shell("tag", ner_model, "some.conll").out.startswith("Anna\tB-PER")


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ("Anna\tB-LOC\n", "known.conll: no sentence is left for text.txt:2; expected one for each"),
        ("Eva\tO\n", "known.conll:1: other tokens than text.txt:1 has: expected 'Anna', got 'Eva'"),
        ("Anna\tB-X\n\nIt\t_\n", "text.txt:1: sentence 0 (text.txt:1), position 0: label 'B-X' at position 0"),
        ("Anna\tI-LOC\n\nIt\t_\n", "text.txt:1: "),
        ("Anna\t_\n\nIt\t_\n\nIt\t_\n", "known.conll:5: expected the end, since all sentences of the input are tagged"),
    ],
)  # fmt: skip
def test_known_labels_that_do_not_fit(here, shell, ner_model, known, message):
    Path("text.txt").write_text("Anna\nIt\n")
    Path("known.conll").write_text(known)
    done = shell("tag", ner_model, "text.txt", "--constrain", "known.conll", "-q")
    assert done.code == 1
    assert done.err.startswith(f"trellis: {message}")


def test_a_broken_line_stops_with_its_number(here, shell, ner_model):
    Path("text.txt").write_bytes(b"Anna slept.\nbad \xff byte\nIt rained.\n")
    done = shell("tag", ner_model, "text.txt", "-q")
    assert done.code == 1
    assert done.err == (
        "trellis: text.txt:2: expected text in utf-8, found byte 0xff at character 5; pass the right encoding: "
        "'bad \\\\xff byte'\n"
    )


def test_or_is_reported_and_passed_on_in_its_place(here, ner_model, shell):
    Path("text.txt").write_bytes(b"Anna slept.\nbad \xff byte\nIt rained.\n")
    done = shell("tag", ner_model, "text.txt", "--on-error", "pass", "--to", "inline", "-o", "out.txt")
    assert done.code == 0
    assert "text.txt:2: expected text in utf-8" in done.err
    assert Path("out.txt").read_bytes() == b"[Anna](PER) slept.\nbad \xff byte\nIt rained.\n"


def test_a_broken_sentence_is_passed_on_whole(here, shell, ner_model):
    Path("in.conll").write_text("Anna\tO\nslept\n\nIt\tO\n")
    done = shell("tag", ner_model, "in.conll", "--on-error", "pass")
    assert (done.code, done.out) == (0, "Anna\tO\nslept\n\nIt\tO\n\n")
    Path("in.jsonl").write_text('{"tokens": ["Anna", "slept"]}\n{"tokens": 3}\n{broken\n{"tokens": ["It"]}\n')
    records = [json.loads(line) for line in shell("tag", ner_model, "in.jsonl", "--on-error", "pass").out.splitlines()]
    assert [record.get("tags") for record in records] == [["B-PER", "O"], None, None, ["O"]]
    assert [record.get("line") for record in records] == [None, 2, 3, None]
    assert records[2]["raw"] == "{broken"


def test_a_name_that_is_not_text_is_shown_escaped(here, ner_model):
    command = [sys.executable, "-m", "trellis", "tag", str(ner_model), b"no\xff.txt"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"trellis: no\\udcff.txt: No such file or directory\n"


def test_a_terminal_without_the_characters_of_a_text_shows_them_escaped(here, ner_model):
    command = [sys.executable, "-m", "trellis", "explain", str(ner_model), "Anna likes 北京."]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert b"\\u5317" in done.stdout


def test_a_sentence_the_model_refuses_is_named(here, shell, tmp_path):
    trellis.HMM(unknown=False).fit(sentences()).save(tmp_path / "closed")
    Path("text.txt").write_text("Anna slept .\nAnna sang .\n")
    done = shell("tag", "closed", "text.txt", "-q")
    assert done.code == 1
    assert done.err.startswith("trellis: text.txt:2: ")
    passed = shell("tag", "closed", "text.txt", "--on-error", "pass", "--to", "inline")
    assert passed.out.splitlines()[1] == "Anna sang ."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt"], "missing.txt: No such file or directory"),
        (["-o", "nowhere/out.txt"], "nowhere/out.txt cannot be written: No such file or directory"),
    ],
)  # fmt: skip
def test_wrong_names(text, shell, ner_model, arguments, message):
    done = shell("tag", ner_model, "text.txt", "-q", *arguments)
    assert done.code == 1
    assert done.err.startswith(f"trellis: {message}")


def test_no_model_there(text, shell):
    assert shell("tag", "nowhere", "text.txt").err == "trellis: nowhere cannot be opened: No such file or directory\n"
    assert shell("tag", "text.txt", "text.txt").err.startswith("trellis: text.txt is not a saved model of Trellis")


def test_order_is_kept_over_many_blocks(here, shell, ner_model):
    lines = [f"Anna {i} slept" for i in range(2000)]
    Path("text.txt").write_text("\n".join(lines))
    written = shell("tag", ner_model, "text.txt", "--to", "inline").out.splitlines()
    assert [re.findall(r"\d+", line) for line in written] == [[str(i)] for i in range(2000)]


def test_memory_does_not_grow_with_the_input(here, ner_model):
    """Twenty times the input takes at most a few megabytes more."""
    code = (
        "import sys, resource; from trellis.cli import main\n"
        "try: main(['tag', sys.argv[1], sys.argv[2], '--to', 'conll', '-q'])\n"
        "except SystemExit: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    peaks = []
    for count in (2_000, 40_000):
        Path("text.txt").write_text("Anna slept .\n" * count)
        run = [sys.executable, "-c", code, str(ner_model), "text.txt"]
        done = subprocess.run(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
        peaks.append(int(done.stderr))
    assert peaks[1] - peaks[0] < 10_000  # kilobytes


def test_a_reader_that_goes_away_ends_it_well(here, ner_model):
    Path("text.txt").write_text("Anna Smith lives in New York .\n" * 20_000)
    command = f"{sys.executable} -m trellis tag {ner_model} text.txt -q"
    shell = ["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"]
    done = subprocess.run(shell, capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout == "Anna\tB-PER\n0\n"
    assert done.stderr == ""


def test_a_full_disk_is_said(text, ner_model):
    with open("/dev/full", "w") as full:
        run = [sys.executable, "-m", "trellis", "tag", str(ner_model), "text.txt", "-q"]
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "trellis: No space left on device\n"


def test_options_of_training_files_are_for_files_of_their_format_only(here, shell):
    Path("named.tsv").write_text("1\tAnna\tB-PER\n2\tslept\tO\n")
    options = ["--columns", "id,word,ner", "--tokens", "word"]
    assert shell("train", "-m", "hmm", "--train", "named.tsv", "-o", "model", *options).code == 0
    assert shell("tag", "model", "named.tsv").out == "Anna\t1\tB-PER\nslept\t2\tO\n\n"
    Path("in.jsonl").write_text('{"tokens": ["Anna", "slept"]}\n')
    assert json.loads(shell("tag", "model", "in.jsonl").out)["tags"] == ["B-PER", "O"]


@pytest.mark.parametrize(("environment", "colours"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colours_and_a_progress_line(text, ner_model, environment, colours):
    screen, terminal = pty.openpty()
    run = [sys.executable, "-m", "trellis", "tag", str(ner_model), "text.txt"]
    subprocess.run(run, stdout=terminal, stderr=terminal, check=True, env={**os.environ, **environment})
    shown = os.read(screen, 10_000).decode()
    subprocess.run(run, stdout=subprocess.DEVNULL, stderr=terminal, check=True, env={**os.environ, **environment})
    os.close(terminal)
    counted = os.read(screen, 10_000).decode()
    os.close(screen)
    assert ("\x1b[30;48;5;" in shown) == colours
    assert ("[Anna](PER)" in shown) != colours
    assert "sentences" not in shown
    assert "2 sentences, 8 tokens, " in counted


def test_a_tokenizer_of_the_user(here, shell, monkeypatch):
    Path("mine.py").write_text(
        "from trellis.text import tokenizer\n\n@tokenizer\ndef at_bars(text):\n    return text.split('|')\n"
    )
    monkeypatch.syspath_prepend(str(here))
    train = ("train", "-m", "crf", "--train", "train.conll", "--out", "m", "--quiet", "--tokenizer", "mine:at_bars")
    assert shell(*train).code == 0
    Path("text.txt").write_text("Anna|lives|in|Rome\n")
    monkeypatch.delitem(sys.modules, "mine")
    refused = shell("tag", "m", "text.txt")
    assert (refused.code, refused.out) == (1, "")
    assert "on the command line: --tokenizer module:function" in refused.err
    done = shell("tag", "m", "text.txt", "--to", "conll", "--tokenizer", "mine:at_bars")
    assert [row.split("\t")[0] for row in done.out.split("\n") if row] == ["Anna", "lives", "in", "Rome"]


@pytest.mark.filterwarnings("default::trellis.errors.DataWarning")
def test_words_that_are_taken_apart_are_told_in_one_line(here, shell):
    """A tagger of Chinese words, given a text without spaces."""
    CRF(features="pos").fit([["他", "来到", "北京"]] * 3, [["PN", "V", "NR"]] * 3).save("pos.safetensors")
    Path("zh.txt").write_text("她来到了北京\n", encoding="utf-8")
    done = shell("tag", "pos.safetensors", "zh.txt", "--from", "text")
    assert done.code == 0
    assert re.fullmatch(r"trellis: the model was trained on words of several ideographs.*\n", done.err)
