"""``trellis demo``: families of taggers side by side, in the terminal."""

from __future__ import annotations

from contextlib import nullcontext
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from trellis.cli._console import Output
from trellis.cli._demo_view import Board, tagged
from trellis.demo import DemoCorpus, write
from trellis.demo.comparison import Contestant, Result, TrainedTagger, families, neural_is_installed, results, train
from trellis.demo.tasks import TASKS, DemoTask
from trellis.text import tokenize

_ILLEGAL = (
    "illegal: sentences with impossible tags, such as I-PER after O, or a word that never ends. Trellis gives "
    "legal tags only; argmax is the same softmax model with the best label of each token by itself, as is often done."
)


class TaskName(StrEnum):
    """The tasks that can be asked for."""

    NER = "ner"
    SEG = "seg"


def demo(
    task: Annotated[TaskName | None, typer.Option(help="Only named entities, or only word segmentation.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="HMM and CRF only: a few seconds.")] = False,
    data: Annotated[str | None, typer.Option(help="Only write the files of the corpora to this folder.")] = None,
) -> None:
    """Train several families of taggers on small corpora and compare them; no network, under two minutes.

    HMM, CRF, BiLSTM-softmax and BiLSTM-CRF learn to find persons, places, organisations and dates in English news,
    and words in Chinese news. The best of them then tags new sentences, and one trellis is drawn.

    \b
    Examples:
      trellis demo
      trellis demo --quick
      trellis demo --task seg
      trellis demo --data data
    """  # noqa: D301 - \b tells click to keep the lines
    if data is not None:
        for path in write(data):
            typer.echo(path)
        return
    console = Output(highlight=False)
    chosen = list(TASKS.values()) if task is None else [TASKS[task]]
    neural = neural_is_installed() and not quick
    for item in chosen:
        _show(console, item, neural=neural)
    if not neural_is_installed():
        missing = "The BiLSTM taggers need torch, which is not installed: pip install 'trellis-crf[neural]'\n"
        console.print(escape(missing))
    _what_next(console, chosen[0])


def _show(console: Console, task: DemoTask, *, neural: bool) -> None:
    """One task from its corpus to its trellis."""
    corpus = task.corpus()
    console.rule(f"[bold]{task.title}[/bold]", align="left")
    console.print(f"{len(corpus.train)} sentences to learn from, {len(corpus.test)} to be tested on.\n")
    best = _compare(console, corpus, families(task, neural=neural))
    if neural:
        console.print(_ILLEGAL)
    console.print(f"\n[bold]{best.name}[/bold] on sentences it has not seen, with the probability of each span:\n")
    for line in tagged(best.tagger, [tokenize(text, task.tokenizer) for text in task.texts], task):
        console.print(line)
    console.print(f'\nThe trellis of "{task.drawn}": the probability of each label, ● best path, ○ the next.\n')
    console.print(best.tagger.trellis(tokenize(task.drawn, task.tokenizer), k=2).draw(console.width))
    console.print()


def _compare(console: Console, corpus: DemoCorpus, contestants: list[Contestant]) -> TrainedTagger:
    """Train the families one by one under a live table; the one with the best F1."""
    board = Board([family.name for family in contestants])
    done: list[tuple[float, TrainedTagger]] = []
    with Live(board, console=console, refresh_per_second=8) if console.is_terminal else nullcontext():
        for family in contestants:
            rows, trained = _contest(family, corpus, board)
            done.append((rows[0].f1, trained))
            if not console.is_terminal:
                console.print(f"{family.name}: trained in {trained.seconds:.1f} s")
    if not console.is_terminal:
        console.print(board)
    return max(done, key=lambda pair: pair[0])[1]


def _contest(family: Contestant, corpus: DemoCorpus, board: Board) -> tuple[list[Result], TrainedTagger]:
    """Train and test one family, and tell the board."""
    board.training(family.name)
    trained = train(family, corpus, lambda step: board.training(family.name, step))
    rows = results(family, trained, corpus)
    board.done(family.name, rows)
    return rows, trained


def _what_next(console: Console, task: DemoTask) -> None:
    """Commands to try next, which can be pasted."""
    files = {part: f"data/{task.files.format(part)}" for part in ("train", "dev", "test")}
    console.rule("[bold]What to try next[/bold]", align="left")
    given = f"--train {files['train']} --dev {files['dev']} --test {files['test']}"
    for line in (
        "trellis demo --data data",
        f"trellis check {files['train']} {files['test']}",
        f"trellis train --task {task.name} --model crf {given} --out model",
        f"trellis tag model {files['test']}",
        f'trellis explain model "{task.drawn}"',
    ):
        console.print(f"  {line}", soft_wrap=True)
