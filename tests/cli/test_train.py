"""`trellis train` and `trellis init`: what they say, what they leave behind, what they refuse."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

import trellis
from tests.cli.conftest import conll, sentences
from trellis import config, corpus
from trellis.cli import StoppableLine, stoppable
from trellis.models import CRF, HMM, CRFConfig, folder
from trellis.models.families import FAMILIES
from trellis.tags import Scheme, convert_tags
from trellis.training import LiveLine, Step, read_history
from trellis.training.checkpoint import locked

TRAIN = ("train", "--model", "crf", "--train", "train.conll", "--out", "model")


def test_an_order_of_two_is_a_setting_that_the_folder_keeps(here, shell):
    done = shell(*TRAIN, "--set", "order=2", "--set", "pairs=3")
    assert done.code == 0, done.err
    assert "order = 2" in Path("model/config.toml").read_text()
    assert shell("eval", "model", "dev.conll").code == 0
    assert trellis.load("model").config.order == 2


def test_training_says_what_it_found_and_leaves_a_folder(here, shell):
    done = shell(*TRAIN, "--dev", "dev.conll", "--test", "dev.conll", "--set", "c2=0.1")
    assert done.code == 0, done.err
    assert "train: train.conll, conll since it has columns separated by tabs" in done.err
    assert "train: 6 sentences, 32 tokens" in done.err
    assert "task ner (guessed from the tags), scheme IOB2 (detected)" in done.err
    assert done.out == (
        "Results\n"
        "┏━━━━━━┳━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━┓\n"
        "┃ file ┃ precision ┃ recall ┃     F1 ┃ sentences ┃ tokens ┃\n"
        "┡━━━━━━╇━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━┩\n"
        "│ dev  │    100.00 │ 100.00 │ 100.00 │         2 │     13 │\n"
        "│ test │    100.00 │ 100.00 │ 100.00 │         2 │     13 │\n"
        "└──────┴───────────┴────────┴────────┴───────────┴────────┘\n"
        "The model is in model. To use it:\n"
        "  trellis tag model text.txt\n"
        "  trellis eval model dev.conll\n"
        "  trellis inspect model\n"
    )
    assert sorted(os.listdir("model")) == [
        "config.toml",
        "history.json",
        "learning-curve.svg",
        "model.safetensors",
        "training.json",
    ]


def test_one_is_no_plural(here, shell):
    Path("one.conll").write_text(conll(sentences()[:1]))
    done = shell("train", "--model", "crf", "--train", "one.conll", "--set", "max_iterations=1", "--out", "m")
    assert "train: 1 sentence, " in done.out + done.err
    assert "after 1 iteration," in done.out + done.err
    assert ", 1 sentence, " in shell("inspect", "m").out


def test_the_folder_holds_settings_history_and_record(here, shell):
    shell(*TRAIN, "--dev", "dev.conll", "--set", "c2=0.25", "--set", "max_iterations=3")
    settings = config.load(CRFConfig, "model/config.toml")
    assert (settings.c2, settings.max_iterations, settings.features, settings.scheme) == (0.25, 3, "ner", "iob2")
    assert len(read_history("model").steps) == 3
    record = folder.read_record("model")
    assert record["command"] == (
        "trellis train --model crf --train train.conll --out model --dev dev.conll --set c2=0.25 --set max_iterations=3"
    )
    assert (record["model"], record["task"], record["scheme"], record["tokenizer"]) == ("crf", "ner", "IOB2", "words")
    assert record["data"]["train"] == {"path": "train.conll", "format": "conll", "sentences": 6, "tokens": 32}
    assert record["figures"]["dev"].keys() == {"precision", "recall", "F1"}
    assert (record["iterations"], record["reason"]) == (3, "max_iterations")


def test_segmentation_learns_characters_and_scores_words(here, shell):
    done = shell(*TRAIN[:3], "--task", "seg", "--train", "train.seg", "--test", "train.seg", "--out", "model")
    assert done.code == 0, done.err
    assert "task seg, scheme BMES" in done.err
    model = trellis.load("model")
    assert (model.config.features, model.config.scheme, str(model.tokenizer_)) == ("seg", "bmes", "characters")
    assert folder.read_record("model")["data"]["train"]["tokens"] == 22


def test_words_of_a_column_file_become_characters_for_segmentation(here, shell):
    Path("words.conll").write_text("我\tPRON\n喜欢\tVERB\n\n他\tPRON\n也\tADV\n喜欢\tVERB\n")
    assert shell("train", "-m", "hmm", "--task", "seg", "--train", "words.conll", "-o", "model", "-q").code == 0
    assert set(trellis.load("model").labels_) == {"B", "M", "E", "S"}


def test_tags_alone_are_parts_of_speech(here, shell):
    Path("pos.tsv").write_text("the\tDET\ndog\tNOUN\n\na\tDET\ncat\tNOUN\n")
    done = shell("train", "-m", "hmm", "--train", "pos.tsv", "--test", "pos.tsv", "-o", "model")
    assert "task pos (guessed from the tags), scheme PLAIN" in done.err
    assert "accuracy" in done.out
    assert isinstance(trellis.load("model"), HMM)


def test_held_out_files_may_have_another_scheme(here, shell):
    other = [s.with_tags(convert_tags(s.tags, Scheme.IOB2, Scheme.BIOES)) for s in sentences()]
    Path("dev.conll").write_text(conll(other))
    done = shell(*TRAIN, "--test", "dev.conll", "--set", "c2=0.1")
    assert done.code == 0, done.err
    assert folder.read_record("model")["figures"]["test"]["F1"] == 1.0


def test_a_warm_start_begins_with_the_weights_of_another_model(here, shell):
    shell(*TRAIN, "--set", "max_iterations=2")
    first = read_history("model").steps[-1].loss
    done = shell(*TRAIN[:-1], "newer", "--warm-start", "model", "--set", "max_iterations=2")
    assert done.code == 0, done.err
    assert read_history("newer").steps[0].loss < first
    assert shell(*TRAIN, "--warm-start", "model", "--set", "max_iterations=3").code == 0  # or of the same one
    assert len(read_history("model").steps) == 3
    refused = shell(*TRAIN[:-1], "other", "--warm-start", "nowhere")
    assert refused.err == "trellis: nowhere cannot be opened: No such file or directory\n"
    refused = shell("train", "-m", "hmm", "--train", "train.conll", "-o", "other", "--warm-start", "model")
    assert refused.err == "trellis: --warm-start: model holds a model of kind 'crf', which hmm cannot start from\n"


def test_resume_and_overwrite_exclude_each_other(here, shell):
    done = shell("train", "-m", "bilstm-crf", "--train", "unread", "-o", "model", "--resume", "--overwrite")
    assert done.code == 2
    assert "give one of them" in done.err


def test_a_model_of_another_family_is_replaced_only_if_asked_for(here, shell):
    shell(*TRAIN)
    other = ("train", "-m", "hmm", "--train", "train.conll", "--out", "model")
    refused = shell(*other)
    assert refused.code == 1
    assert refused.err == (
        "trellis: model holds a crf model, not a hmm model: replace it with --overwrite (in Python overwrite=True), or "
        "choose another folder\n"
    )
    assert shell(*other, "--overwrite").code == 0
    assert isinstance(trellis.load("model"), HMM)
    assert not Path("model/learning-curve.svg").exists()
    assert shell(*other).code == 0  # the same family needs no leave


def test_a_folder_in_use_is_refused_before_anything_is_read(here, shell):
    with locked(folder.prepare("model")):
        refused = shell(*TRAIN[:4], "unread", "--out", "model")
    assert refused.code == 1
    assert refused.err.startswith(f"trellis: model is in use: process {os.getpid()} on ")
    assert "unread" not in refused.err


def test_quiet_says_nothing(here, shell):
    done = shell(*TRAIN, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_the_tokenizer_is_kept_with_the_model(here, shell):
    shell(*TRAIN, "--tokenizer", "whitespace")
    assert trellis.load("model")("Anna's here.").tokens == ("Anna's", "here.")


def test_spaces_and_other_scripts_in_paths(here, shell):
    Path("Übung 训练").mkdir()
    Path("Übung 训练/a b.conll").write_text(conll(sentences()))
    done = shell("train", "-m", "crf", "--train", "Übung 训练/a b.conll", "-o", "Übung 训练/mein Modell")
    assert done.code == 0
    assert "  trellis tag 'Übung 训练/mein Modell' text.txt\n" in done.out
    assert trellis.load("Übung 训练/mein Modell").labels_


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "c3=1"], "CRFConfig has no setting 'c3'; did you mean 'c2'?"),
        (["--set", "c2"], "expected key=value, got 'c2'"),
        (["--set", "c2=much"], "setting 'c2' must be float, got 'much'"),
        (["--config", "bad.toml"], "bad.toml: CRFConfig has no setting 'featurs'; did you mean 'features'?"),
        (["--train", "empty.conll"], "empty.conll: there is no sentence to learn from"),
        (["--train", "none.conll"], "none.conll: No such file or directory"),
        (["--train", "bad.conll"], "bad.conll:2: expected 2 columns separated by tabs, as in line 1, found 1: 'b'"),
        (["--model", "crv"], "unknown model 'crv': expected one of " + ", ".join(FAMILIES) + "; did you mean 'crf'?"),
        (["--out", "train.conll/model"], "train.conll/model cannot be written: Not a directory"),
        (["--out", "train.conll"], "train.conll is a file: expected a folder"),
        (["--task", "pos", "--train", "one.tsv"], "there is nothing to learn: only the label 'X' occurs, and a "),
    ],
)  # fmt: skip
def test_what_is_refused_is_said_in_one_paragraph(here, shell, arguments, message):
    Path("bad.toml").write_text("featurs = 'ner'\n")
    Path("empty.conll").write_text("")
    Path("bad.conll").write_text("a\tO\nb\n")
    Path("one.tsv").write_text("a\tX\n")
    done = shell(*TRAIN, *arguments)
    usage = arguments[0] in ("--set", "--config", "--model")
    assert done.code == (2 if usage else 1)
    last = done.err.splitlines()[-1]
    assert last.startswith(f"trellis: {message}")
    assert "Traceback" not in done.err


def test_an_unwritable_folder_is_known_before_training(here, shell, monkeypatch):
    monkeypatch.setattr(CRF, "fit", lambda *_, **__: pytest.fail("trained for nothing"))
    assert shell(*TRAIN, "--out", "train.conll/model").code == 1
    if os.geteuid() != 0:  # root may write anywhere
        Path("closed").mkdir(mode=0o500)
        assert "closed cannot be written: Permission denied" in shell(*TRAIN, "--out", "closed").err


@pytest.mark.parametrize("data", ["nowhere.conll", "empty.conll", "bad.conll"])
def test_a_refused_training_leaves_no_folder(here, shell, data):
    Path("empty.conll").touch()
    Path("bad.conll").write_text("a\tO\nb\n")
    Path("old").mkdir()
    for out in ("new", "old"):
        assert shell("train", "-m", "crf", "--train", data, "-o", out).code == 1
    assert (Path("new").exists(), list(Path("old").iterdir())) == (False, [])


@pytest.mark.parametrize("role", ["--dev", "--test"])
@pytest.mark.parametrize("file", ["other.conll", "train.seg"])
def test_a_held_out_file_of_another_task_is_refused_before_training(here, shell, role, file):
    Path("other.conll").write_text("He\tB-NP\nslept\tO\n")
    done = shell("train", "-m", "hmm", "--train", "train.conll", role, file, "-o", "new")
    assert done.code == 1
    assert f"trellis: {file} has the labels " in done.err
    assert "none in common" in done.err
    assert not Path("new").exists()


def test_labels_of_words_that_are_not_learned_are_told(here, shell):
    done = shell("train", "-m", "hmm", "--task", "seg", "--train", "train.conll", "-o", "model")
    assert "train.conll: the tokens are the right words, and the labels B-LOC, B-PER, " in done.err
    assert done.code == 0


def test_a_traceback_only_with_debug(here, shell):
    assert "Traceback" in shell(*TRAIN, "--set", "c3=1", "--debug").err
    assert "Traceback" in shell("--debug", *TRAIN, "--set", "c3=1").err


def test_a_family_that_lacks_what_it_needs_says_so_before_any_file_is_read(here, shell):
    done = shell("train", "-m", "transformer-crf", "--train", "nowhere.conll", "-o", "model")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "trellis: this family needs the setting 'encoder.transformer', the folder or the Hub's name of a pretrained "
        "encoder; on the command line --set encoder.transformer=bert-base-cased\n"
    )
    assert not Path("model").exists()


def test_init_prints_settings_that_train_takes(here, shell):
    text = shell("init", "--model", "crf", "--task", "seg", "--set", "c2=0.5").out
    assert text.startswith("# trellis train --model crf --config THIS_FILE")
    assert '\nfeatures = "seg"\n' in text
    assert "# coefficient of |w|^2; ap, pa and arow have none\nc2 = 0.5\n" in text
    Path("crf.toml").write_text(text)
    done = shell(*TRAIN[:3], "--train", "train.seg", "--out", "model", "--config", "crf.toml", "--set", "c1=0.125")
    assert done.code == 0, done.err
    found = config.load(CRFConfig, "model/config.toml")
    assert (found.features, found.scheme, found.c1, found.c2) == ("seg", "bmes", 0.125, 0.5)


def test_init_knows_every_family_without_torch():
    code = "import sys; from trellis.cli import main\n"
    code += "".join(f"try: main(['init', '-m', '{name}'])\nexcept SystemExit: pass\n" for name in FAMILIES)
    code += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
    assert done.stdout.count("# trellis train --model ") == len(FAMILIES)


def _process(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "trellis", *arguments],
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_keep_the_best_model_and_say_so(here, number, code):
    contradiction = "x\tO\n\nx\tB-LOC\n\n"  # which the perceptron never stops learning
    Path("long.conll").write_text(contradiction + conll(sentences()))
    endless = ["--set", "algorithm=ap", "--set", "max_iterations=100000000"]
    screen, terminal = pty.openpty()
    process = _process(
        *("train", "-m", "crf", "--train", "long.conll", "--dev", "dev.conll", "-o", "model", *endless),
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    seen = _read_until(screen, b"dev 100.00")
    process.send_signal(number)
    seen += _read_until(screen, b"the best model so far was kept.")
    out, _ = process.communicate(timeout=600)
    os.close(screen)
    os.close(terminal)  # not before: a terminal that nobody has open may lose what was written last
    assert process.returncode == code
    assert b"iteration" in seen
    assert b"interrupted after " in seen
    assert "The model is in model." in out
    assert json.loads(Path("model/training.json").read_text())["reason"] == "interrupted"
    assert trellis.load("model").predict([["Anna", "slept"]]) == [["B-PER", "O"]]
    assert not [name for name in os.listdir("model") if name.startswith(".")]


def test_an_interruption_before_the_first_iteration_leaves_the_model_that_was_there(here, shell, monkeypatch):
    shell(*TRAIN)
    before = {path: path.read_bytes() for path in Path("model").iterdir()}
    monkeypatch.setattr("trellis.training.loop._step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    done = shell(*TRAIN)
    assert done.code == 143
    assert done.err.endswith("interrupted before there was anything to keep; no model was written.\n")
    assert {path: path.read_bytes() for path in Path("model").iterdir()} == before


def test_a_signal_that_comes_while_the_model_is_written_waits(here, shell, monkeypatch):
    save = folder.save_model

    def pressed(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        save(*arguments)

    monkeypatch.setattr(folder, "save_model", pressed)
    assert shell(*TRAIN).code == 143
    assert folder.read_record("model")["reason"] == "converged"
    assert trellis.load("model").labels_


def test_an_interruption_while_figures_are_computed_leaves_all_files(here, shell, monkeypatch):
    monkeypatch.setattr("trellis.cli.train.Data.figures", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    done = shell(*TRAIN, "--test", "dev.conll")
    assert (done.code, done.err.endswith("trellis: interrupted\n")) == (130, True)
    assert folder.read_record("model")["figures"] == {}
    assert trellis.load("model").labels_


def test_a_signal_that_python_drops_is_heard_after_the_next_iteration():
    """As it does in a finalizer: there, what a handler raises is reported and forgotten."""
    line, heard = LiveLine(Console(quiet=True)), []
    step = Step(1, 2.0, None, None, 0.5, None)
    with stoppable() as stop:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            heard.append("too late")
        with pytest.raises(KeyboardInterrupt):
            StoppableLine(line, stop)(step)
    assert (heard, stop.code) == ([], 143)


def test_handlers_are_put_back(here, shell):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    shell(*TRAIN)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def _read_until(screen: int, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        assert select.select([screen], [], [], 300)[0], seen
        seen += os.read(screen, 4096)
    return seen


def test_stream_reads_each_file_of_a_folder_by_its_own_format(here, shell):
    Path("mixed").mkdir()
    Path("mixed", "a.conll").write_bytes(Path("train.conll").read_bytes())
    whole = corpus.read("train.conll").sentences
    corpus.write("mixed/b.jsonl", whole)
    streamed = shell("train", "-m", "crf", "--train", "mixed", "--stream", "--out", "model")
    assert streamed.code == 0, streamed.err
    assert "mixed, conll since its first file is, jsonl since mixed/b.jsonl is" in streamed.err
    assert folder.read_record("model")["data"]["train"]["sentences"] == 2 * len(whole)


@pytest.mark.parametrize("model", ["crf", "bilstm-crf"])
def test_stream_takes_no_text_for_training_data_among_others(here, shell, model):
    Path("mixed").mkdir()
    Path("mixed", "a.conll").write_bytes(Path("train.conll").read_bytes())
    Path("mixed", "README.txt").write_text("Where this comes from.\n")
    done = shell("train", "-m", model, "--train", "mixed", "--stream", "--out", "model")
    assert done.code == 1
    said = "the folder mixes formats: mixed/README.txt is segmented, mixed/a.conll is conll; move elsewhere what is no"
    assert said in done.err.replace("\n", " ")


@pytest.mark.parametrize("model", ["crf", "bilstm-crf"])
def test_stream_tells_what_reading_leaves_out_or_changes(here, shell, model):
    """As it does without."""
    span = '"spans": [{"start": 0, "end": 5, "label": "LOC"}]'
    cut = f'{{"text": "Parisbased Acme", {span}}}\n'
    Path("data").mkdir()
    Path("data", "a.jsonl").write_text(f'{cut}{{"text": "Paris", {span}, "answer": "reject"}}\n')
    Path("data", "b.jsonl").write_text(cut)
    few = ("--set", "max_iterations=1" if model == "crf" else "training.epochs=1")
    done = shell("train", "-m", model, "--train", "data", "--stream", "--out", "model", *few)
    assert done.code == 0, done.err
    for said in (
        "data/a.jsonl: left out records with the answer 'reject' (Prodigy): 1\n",
        "data/a.jsonl: tokens split where a span cuts them: 1\n",
        "  data/a.jsonl:1: 'Parisbased' became 'Paris based'\n",
        "  data/b.jsonl:1: 'Parisbased' became 'Paris based'\n",
    ):
        assert done.err.count(said) == 1
    quiet = shell("train", "-m", model, "--train", "data", "--stream", "--out", "quiet", "--quiet", *few)
    assert (quiet.code, quiet.err) == (0, "")


def test_stream_tells_repairs_once_and_each_spelling_once_per_file(here, shell, monkeypatch):
    monkeypatch.setattr("trellis.cli.train._AT_ONCE", 2)
    Path("bad.conll").write_text("Ada B-PER\nKing I-PER\nslept O\n\n" * 5 + "met O\nBob I-PER\n\n")
    train = ("train", "-m", "crf", "--stream", "--set", "max_iterations=1", "--out", "model", "--train")
    done = shell(*train, "bad.conll", "--on-bad-tags", "repair")
    assert done.err.count("1 tag repaired (IOB2):") == done.err.count("bad.conll:22: I-PER -> B-PER") == 1
    Path("odd.conll").write_text("Ada b-per\nKing i-per\nslept o\n\n" * 6)
    assert shell(*train, "odd.conll").err.count("IOB2 in another spelling") == 1


def test_a_setting_of_another_family_is_refused_with_its_name(here, shell):
    for key in ("out_of_core", "x.out_of_core"):
        ran = shell("train", "--model", "hmm", *TRAIN[3:], "--set", f"{key}=true")
        assert ran.err == f"trellis: the model hmm has no setting {key!r}; models that have it: crf (out_of_core)\n"
    ran = shell("train", "--model", "hmm", *TRAIN[3:], "--set", "ordr=2")
    assert ran.err == "trellis: HMMConfig has no setting 'ordr'; did you mean 'order'?\n"


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (
            "a.jsonl",
            '{"text": "Ada met Bob"}\n',
            "texts without spans, which are read from fields label, labels, entities",
        ),
        ("a.jsonl", '{"text": "Ada met Bob", "ner": [[0, 3, "PER"]]}\n', "texts without spans"),
        ("a.conll", "Ada\nmet\nBob\n\n", "tokens without tags"),
    ],
)
def test_what_has_no_tags_is_not_taken_for_a_segmentation(shell, here, name, text, found):
    Path(name).write_text(text * 3)
    done = shell("train", "--model", "crf", "--train", name, "--out", "model")
    assert done.code == 1
    assert f"trellis: {name}: expected tags to learn, found {found}" in done.err
    assert "give --task seg" in done.err
    assert shell("train", "--model", "crf", "--train", name, "--out", "model", "--task", "seg").code == 0


def test_files_to_tag_may_lack_the_columns_that_training_named(shell, here):
    Path("a.tsv").write_text("1\tAda\tB-PER\tO\n2\tmet\tO\tO\n3\tBob\tB-PER\tO\n4\there\tO\tO\n\n")
    Path("b.tsv").write_text("1\tAda\n2\tmet\n\n")
    train = ("train", "--model", "crf", "--train", "a.tsv", "--out", "model", "--quiet")
    refused = shell(*train)
    assert (refused.code, "numbers that count them or their sentences; give --tokens 1" in refused.err) == (1, True)
    assert shell(*train, "--tokens", "1", "--tags", "2").code == 0
    assert shell("tag", "model", "b.tsv", "--quiet").out == "Ada\t1\tB-PER\nmet\t2\tO\n\n"
    assert shell("tag", "model", "b.tsv", "--quiet", "--tags", "7").code == 1


def test_a_warm_start_keeps_the_scheme_of_its_model(shell, here):
    Path("pos.conll").write_text("Ada\tNOUN\nmet\tVERB\n\n" * 3)
    train = ("train", "--model", "crf", "--train")
    assert shell("convert", "train.conll", "bioes.conll", "--scheme", "BIOES").code == 0
    assert shell(*train, "bioes.conll", "--out", "bioes").code == 0
    assert shell(*train, "train.conll", "--out", "again", "--warm-start", "bioes").code == 0
    assert trellis.load("again").tagset_.scheme is Scheme.BIOES
    assert shell(*train, "pos.conll", "--out", "pos").code == 0
    mixed = shell(*train, "train.conll", "--out", "mixed", "--warm-start", "pos")
    assert mixed.code == 1
    assert "the labels of pos are PLAIN, those of train.conll are IOB2: expected labels of one kind" in mixed.err


def test_a_text_with_annotations_of_brat_beside_it_is_no_segmentation(shell, here):
    Path("a.txt").write_text("Ada met Bob .\n" * 5)
    Path("a.ann").write_text("T1\tPER 0 3\tAda\n")
    done = shell("train", "--model", "crf", "--train", "a.txt", "--out", "model")
    assert (done.code, "annotations, of brat, are beside it: give a.ann or its folder" in done.err) == (1, True)
    assert shell("train", "--model", "crf", "--train", "a.txt", "--out", "model", "--task", "seg").code == 0
