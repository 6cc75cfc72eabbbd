"""`trellis demo`: the structure of what it prints; figures and times are left open."""

import html
import io
import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer
from rich.console import Console
from typer.testing import CliRunner

import trellis
from trellis.cli import demo as command
from trellis.cli.demo import NER, TASKS, Contestant, Result, argmax, families, illegal
from trellis.demo import DemoCorpus
from trellis.tags import Scheme, TagSet
from trellis.training import Step

app = typer.Typer(rich_markup_mode="rich")
app.command()(command.demo)

NER_OUTPUT = """\
Named entities in English news
# sentences to learn from, # to be tested on.
HMM: trained in # s
CRF: trained in # s
model F# illegal training tokens/s
HMM # # # s #
CRF # # # s #
CRF on sentences it has not seen, with the probability of each span:
Jordan Abara flew from Jordan to Washington on # May, and Ms Washington met her there.
Reading beat Bath #-# on Saturday, but hardly anyone in Reading noticed.
Will Sunday, head of the Sunday Herald, may leave Paris on Sunday.
Paris Hill said Lincoln University will open in Lincoln by late March.
is june still in lincoln on friday?
The report will be read again before anyone is paid.
The trellis of "Jordan met Washington in May": the probability of each label, ● best path, ○ the next.
label Jordan met Washington in May
LABELS
The most probable paths
probability labels; below the best only where they differ
PATHS
"""
SEG_OUTPUT = """\
Words in Chinese news
# sentences to learn from, # to be tested on.
HMM: trained in # s
CRF: trained in # s
model F# illegal training tokens/s
HMM # # # s #
CRF # # # s #
CRF on sentences it has not seen, with the probability of each span:
研究生命起源的研究生说，明天会下雨。
只有和他们一起工作，才能了解市长的才能。
发展中国家的学生会说中国话。
武汉市长江大桥明天通车，市长将来武汉。
今日本店不卖日本球拍。
The trellis of "学生会说。": the probability of each label, ● best path, ○ the next.
label 学 生 会 说 。
LABELS
The most probable paths
probability labels; below the best only where they differ
PATHS
"""
NO_TORCH = "The BiLSTM taggers need torch, which is not installed: pip install 'trellis-crf[neural]'\n"
NEXT = """\
What to try next
trellis demo --data data
trellis check data/{0} data/{2}
trellis train --task {3} --model crf --train data/{0} --dev data/{1} --test data/{2} --out model
trellis tag model data/{2}
trellis explain model "{4}"
"""
ENGLISH = ("english-train.conll", "english-dev.conll", "english-test.conll", "ner", "Jordan met Washington in May")
CHINESE = ("chinese-train.txt", "chinese-dev.txt", "chinese-test.txt", "seg", "学生会说。")


@pytest.fixture
def small(monkeypatch):
    """Tasks with a fraction of their corpora, on a wide screen without torch."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(command, "neural_is_installed", lambda: False)
    for name, task in TASKS.items():
        monkeypatch.setitem(TASKS, name, replace(task, corpus=lambda task=task: fraction(task.corpus())))


def fraction(corpus):
    return DemoCorpus(corpus.train[:80], corpus.dev[:20], corpus.test[:30])


def shape(output):
    """The output without frames and marks of spans and paths, its numbers as #, one space between words;
    the rows of a trellis and of its paths, which depend on the figures, as one line."""
    lines = []
    for line in output.split("\n"):
        line = re.sub(r"\[(.*?) (?:PER|LOC|ORG|DATE) \d\.\d\d\]", r"\1", line)
        if " / " in line:
            line = re.sub(r" \d\.\d\d| / ", "", line)
        if re.match("│[^│]*[●○]", line):
            line = "PATHS"
        elif re.match("│(O|[BI]-[A-Z]+|[BMES]) *│", line):
            line = "LABELS"
        line = re.sub("[━─┏┳┓┡╇┩┃│└┴┘]", " ", line)
        line = re.sub(r"\d[\d,.]*", "#", line)
        lines.append(" ".join(line.split()))
    return "\n".join(line for line, _ in itertools.groupby(line for line in lines if line)) + "\n"


def run(*arguments):
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_both_tasks_without_torch(small):
    assert shape(run()) == NER_OUTPUT + SEG_OUTPUT + NO_TORCH + shape(NEXT.format(*ENGLISH))


def test_one_task(small, monkeypatch):
    monkeypatch.setattr(command, "neural_is_installed", lambda: True)
    assert shape(run("--quick", "--task", "seg")) == SEG_OUTPUT + shape(NEXT.format(*CHINESE))


def test_the_files_can_be_had(tmp_path):
    written = run("--data", str(tmp_path / "new" / "data")).split()
    assert written == sorted(map(str, (tmp_path / "new" / "data").iterdir()))
    for name in (*ENGLISH[:3], *CHINESE[:3]):
        assert str(tmp_path / "new" / "data" / name) in written


def test_spans_and_paths_are_marked_without_colour(small):
    output = run("--quick")
    assert "\x1b" not in output
    assert re.search(r"\[\w+( \w+)* (PER|LOC|ORG|DATE) [01]\.\d\d\]", output)
    assert re.search(r"[一-鿿]+( 0\.\d\d)? / [一-鿿]+", output)
    assert output.count("●") == 4 + len(["Jordan", "met", "Washington", "in", "May"]) + len("学生会说。")
    assert output.count("○") > 4


def test_illegal_sequences_of_argmax_are_counted(small, monkeypatch):
    """A CRF read without its transitions stands in for a softmax, so that torch is not needed."""
    family = Contestant("BiLSTM-softmax", trellis.CRF(features="seg"), argmax=True)
    monkeypatch.setattr(command, "families", lambda task, neural: [family])
    monkeypatch.setattr(command, "neural_is_installed", lambda: True)
    lines = run("--task", "seg").split("\n")
    cells = [re.split(r"\s*│\s*", line)[1:-1] for line in lines if line.startswith("│")]
    assert [row[0] for row in cells[:2]] == ["BiLSTM-softmax", "argmax"]
    assert cells[0][2] == "0"
    assert int(cells[1][2]) > 0
    assert cells[1][3:] == ["", ""]
    assert "as is often done" in " ".join(lines)


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_in_a_terminal_unless_it_is_not_wanted(small, monkeypatch, no_color, coloured):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    output = run("--quick", "--task", "ner")
    assert bool(re.search(r"\x1b\[(\d;)?3[0-7]m", output)) is coloured
    assert "waiting" in output, "the table is there from the start"
    assert "trained in" not in output


def test_the_board_shows_how_training_goes():
    board = command.Board(["HMM", "CRF", "BiLSTM-softmax", "BiLSTM-CRF"])
    board.training("HMM")
    board.done("HMM", [Result("HMM", 0.75, 0, 0.25, 1e6)])
    board.training("CRF", Step(12, 345.6, 1.0, 0.8125, 2.4, None))
    step = Step(3, 1.0, None, None, 7.0, 9.0, iterations=10, batch=5, batches=100, best=0.7)
    board.training("BiLSTM-softmax", step)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(board)
    rows = [re.split(r"\s*│\s*", line)[1:-1] for line in console.export_text().split("\n") if line.startswith("│")]
    assert rows == [
        ["HMM", "75.00", "0", "0.2 s", "1,000,000"],
        ["CRF", "", "", "iteration 12, dev 81.2, 2 s", ""],
        ["BiLSTM-softmax", "", "", "epoch 3 of 10, dev 70.0, 7 s", ""],
        ["BiLSTM-CRF", "", "", "waiting", ""],
    ]


def test_an_unknown_task_is_a_usage_error():
    result = CliRunner().invoke(app, ["--task", "pos"])
    assert result.exit_code == 2
    assert "'ner', 'seg'" in result.output


def test_the_picture_of_the_readme_is_what_the_demo_prints():
    """``python -m tools.screenshot demo`` draws it anew; figures are those of the machine."""
    svg = (Path(__file__).parents[2] / "docs" / "images" / "demo.svg").read_text(encoding="utf-8")
    shown = " ".join(html.unescape(" ".join(re.findall("<text[^>]*>([^<]*)", svg))).split())
    task = TASKS["ner"]
    names = [family.name for family in families(task, neural=True)]
    for text in (task.title, command.ILLEGAL, f'The trellis of "{task.drawn}"', *names):
        assert text in shown


@pytest.fixture(scope="module")
def corpus():
    return fraction(NER.corpus())


@pytest.mark.parametrize("missing", ["torch", "accelerate", None])
def test_neural_taggers_need_two_libraries(monkeypatch, missing):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == missing else object())
    assert command.neural_is_installed() is (missing is None)


def test_the_figures_are_those_of_the_tagger(corpus):
    family, steps = Contestant("CRF", trellis.CRF(c2=0.1), argmax=True), []
    family.train(corpus, steps.append)
    own, greedy = family.results(corpus.test)
    assert steps[-1].iteration == len(family.tagger.history_.steps)
    assert own.f1 == family.tagger.score(corpus.test)
    assert (own.name, own.illegal, own.seconds) == ("CRF", 0, family.seconds)
    assert own.tokens_per_second > 0
    assert greedy.f1 < own.f1
    assert greedy.illegal > 0
    assert (greedy.seconds, greedy.tokens_per_second) == (None, None)


def test_argmax_takes_the_best_label_of_each_token(corpus):
    tagger = trellis.CRF(c2=0.1).fit(corpus.train)
    found = argmax(tagger, corpus.test)
    scores = tagger.chain_scores(corpus.test[:1]).emissions
    assert found[0] == [tagger.labels_[tagger.states_.labels[row.argmax()]] for row in scores]
    assert [len(tags) for tags in found] == [len(sentence) for sentence in corpus.test]


def test_sentences_are_illegal_once_however_much_is_wrong():
    tags = TagSet(("O", "B-PER", "I-PER"), Scheme.IOB2)
    assert illegal([["O", "I-PER"], ["B-PER", "I-PER"], ["I-PER", "O", "I-PER"], []], tags) == 2


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_texts_are_in_no_part_of_the_corpus(task):
    corpus = task.corpus()
    known = {"".join(s.tokens).lower() for part in (corpus.train, corpus.dev, corpus.test) for s in part}
    texts = {text.replace(" ", "").lower() for text in (*task.texts, task.drawn)}
    assert not texts & known


def test_neural_families_learn(corpus):
    threads = torch.get_num_threads()
    for family in families(replace(NER, epochs=1), neural=True)[2:]:
        family.train(corpus)
        rows = family.results(corpus.test)
        assert [row.illegal for row in rows[:1]] == [0]
        assert len(rows) == (2 if family.name == "BiLSTM-softmax" else 1)
        assert len(family.tagger.history_.steps) == 1
    assert torch.get_num_threads() == threads
