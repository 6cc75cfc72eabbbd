"""The command as a whole: help, versions, exit codes, and what it does not load."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

import trellis
import trellis.cli.score
from trellis.cli import COMMANDS, program

HEAVY = {"numpy", "scipy", "torch", "transformers", "sklearn", "trellis._native"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "trellis", *arguments], capture_output=True, text=True)


def test_help_loads_nothing_heavy():
    code = "import sys; from trellis.cli import main\ntry: main(['--help'])\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    text, modules = done.stdout.rstrip("\n").rsplit("\n", 1)
    assert all(name in text for name in COMMANDS)
    assert not {module for module in modules.split() if module in HEAVY}


def test_texts_and_defaults_are_not_converted_and_numbers_are(tmp_path):
    (tmp_path / "a.conll").write_text("x\tO\n")
    arguments = f"['check', {str(tmp_path / 'a.conll')!r}, '--format', 'conll']"
    code = f"import sys; from trellis.cli import main\ntry: main({arguments})\nexcept SystemExit as e: "
    code += "print('pydantic' in sys.modules, e.code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False 0"
    wrong = run("tag", "model", "--kbest", "two")
    assert (wrong.returncode, "--kbest" in wrong.stderr) == (2, True)
    assert run("tag", "model", "--on-error", "maybe").returncode == 2
    assert run("tag").returncode == 2


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_with_examples(shell, name):
    done = shell(name, "--help")
    assert done.code == 0
    assert f"Usage: trellis {name}" in done.out
    assert f"trellis {name}" in done.out.replace(f"Usage: trellis {name}", "")


def test_a_mistyped_command_is_told_what_was_probably_meant():
    done = run("tagg", "model", "text.txt")
    assert done.returncode == 2
    assert "No such command 'tagg'. Did you mean 'tag'?" in done.stderr


def test_version_and_nothing(shell):
    assert shell("--version").out == f"trellis {trellis.__version__}\n"
    assert run().returncode == 2


def test_a_lack_of_memory_is_said_however_a_library_says_it(shell, monkeypatch):
    def fail(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1200 bytes.")

    monkeypatch.setattr(trellis.cli.score, "_read", fail)
    done = shell("score", "a", "b")
    assert (done.code, done.err) == (1, "trellis: out of memory\n")


def test_an_unexpected_error_is_one_paragraph_too(shell, monkeypatch):
    monkeypatch.setattr(trellis.cli.score, "_read", lambda *_: 1 / 0)
    done = shell("score", "a", "b")
    assert done.code == 1
    assert done.err == (
        "trellis: unexpected ZeroDivisionError: division by zero\n"
        "This is a mistake in Trellis; --debug shows where it happened.\n"
    )
    assert "Traceback" in shell("score", "a", "b", "--debug").err


def test_debug_after_two_dashes_is_an_argument(shell):
    assert shell("score", "--", "--debug", "x").err == "trellis: --debug: No such file or directory\n"


def test_out_of_memory_and_interruption(shell, monkeypatch):
    def fail(error):
        def raising(*_):
            raise error

        return raising

    monkeypatch.setattr(trellis.cli.score, "_read", fail(MemoryError()))
    assert shell("score", "a", "b").err == "trellis: out of memory\n"
    monkeypatch.setattr(trellis.cli.score, "_read", fail(KeyboardInterrupt()))
    done = shell("score", "a", "b")
    assert (done.code, done.err) == (130, "trellis: interrupted\n")


def test_closed_standard_output_is_one_clear_error():
    command = f"{shlex.quote(sys.executable)} -m trellis --version >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "trellis: standard output and standard error must be open\n")


def test_a_setting_nested_without_end_is_one_clear_error(here, shell):
    done = shell("train", "-m", "crf", "--train", "train.conll", "--out", "m", "--set", f"c2={'[' * 3000}")
    assert done.code == 2
    assert done.err.startswith("trellis: the value '[[[[")
    assert "is nested too deeply" in done.err


def test_a_stop_while_the_program_is_imported_is_one_line():
    code = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from trellis.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "trellis: interrupted\n")


WRONG = {
    "--format": ("train eval check score", "--format: expected one of conll, conllu"),
    "--scheme": ("train check score convert", "--scheme: unknown scheme 'nope'"),
    "--on-bad-tags": ("train eval convert", "--on-bad-tags: expected one of error, repair, drop, got 'nope'"),
    "--align": ("train eval convert", "--align: expected one of split, expand, skip, error, got 'nope'"),
    "--tokenizer": ("train tag", "--tokenizer: unknown tokenizer 'nope'"),
    "--from": ("tag select convert", "--from: expected one of"),
    "--to": ("tag select convert", "--to: expected one of"),
    "--on-error": ("convert", "--on-error: expected one of raise, skip, got 'nope'"),
    "--by": ("select", "--by: expected one of"),
    "--lexicon-format": ("tag train", "--lexicon-format: expected one of"),
}


@pytest.mark.parametrize(("option", "command"), [(name, one) for name in WRONG for one in WRONG[name][0].split()])
def test_a_wrong_value_of_an_option_is_a_mistake_of_usage(shell, tmp_path, command, option):
    (tmp_path / "a.conll").write_text("x\tO\n")
    file = str(tmp_path / "a.conll")
    arguments = {"train": ["-m", "crf", "--train", file, "-o", str(tmp_path / "model")], "check": [file]}
    done = shell(command, *arguments.get(command, [file, file]), option, "nope")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"trellis: {WRONG[option][1]}")


@pytest.mark.parametrize("option", [["--epochs", "3"], ["--epochs=3"]])
def test_an_option_that_is_a_setting_says_how_to_set_it(shell, option):
    done = shell("train", "-m", "bilstm-crf", "--train", "train.conll", "-o", "model", *option)
    assert done.code == 2
    assert done.err.startswith("trellis: --epochs is a setting, not an option: give --set training.epochs=3 (of ")
    assert "No such option: --nonsense" in shell("train", "-m", "crf", "--train", "a", "-o", "m", "--nonsense").err
    assert "No such option: --epochs" in shell("tag", "model", *option).err


@pytest.mark.parametrize("command", ["tag", "eval", "select", "explain"])
def test_a_model_behind_the_file_is_noticed(shell, here, ner_model, command):
    done = shell(command, "dev.conll", ner_model)
    message = f"trellis: the model comes first: 'dev.conll' is not a model, but {ner_model} is\n"
    assert (done.code, done.out, done.err) == (2, "", message)


def test_a_file_where_a_text_belongs(shell, here, ner_model):
    done = shell("explain", ner_model, "dev.conll")
    assert (done.code, done.err) == (2, "trellis: dev.conll is a file: expected a text in quotes\n")


def test_short_help_is_help(shell):
    for command in ([], ["tag"], ["train"]):
        assert shell(*command, "-h").out == shell(*command, "--help").out


@pytest.mark.parametrize("name", ["CRF", "Crf"])
def test_a_family_may_be_written_in_capitals(shell, here, name):
    assert shell("init", "--model", name).out == shell("init", "--model", "crf").out
    assert shell("init", "--model", "BiLSTM_CRF").out == shell("init", "--model", "bilstm-crf").out
    assert shell("train", "-m", name, "--train", "train.conll", "-o", "model").code == 0
    assert '"model": "crf"' in (here / "model" / "training.json").read_text()


def test_commands_are_shown_as_this_shell_can_call_them(monkeypatch, tmp_path):
    (tmp_path / "trellis").touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [".venv/bin/trellis", "demo"])
    monkeypatch.setenv("PATH", "")
    assert program() == ".venv/bin/trellis"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "trellis"), "demo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "trellis"
    monkeypatch.setattr(sys, "argv", ["/elsewhere/__main__.py"])
    assert program() == "trellis"
