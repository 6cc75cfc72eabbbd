"""``trellis demo``: families of taggers side by side, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from trellis.cli import program
from trellis.cli.io import output
from trellis.demo import DemoCorpus, write
from trellis.demo.comparison import (
    TASKS,
    Contestant,
    DemoTask,
    Result,
    TrainedTagger,
    families,
    neural_is_installed,
    results,
    train,
)
from trellis.models import Tagged
from trellis.models.answers import TextSpan
from trellis.text import tokenize
from trellis.training import Step

ILLEGAL = (
    "illegal: sentences with impossible tags, such as I-PER after O, or a word that never ends. Trellis gives "
    "legal tags only; argmax is the same softmax model with the best label of each token by itself, as is often done."
)

_COLOURS = {"PER": "green", "LOC": "cyan", "ORG": "magenta", "DATE": "yellow"}
_SURE = 0.9


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
    console = output(highlight=False)
    chosen = list(TASKS.values()) if task is None else [TASKS[task]]
    neural = neural_is_installed() and not quick
    for item in chosen:
        show(console, item, neural=neural)
    if not neural_is_installed():
        missing = "The BiLSTM taggers need torch, which is not installed: pip install 'trellis-crf[neural]'\n"
        console.print(escape(missing))
    _what_next(console, chosen[0])


def show(console: Console, task: DemoTask, *, neural: bool) -> None:
    """One task from its corpus to its trellis."""
    corpus = task.corpus()
    console.rule(f"[bold]{task.title}[/bold]", align="left")
    console.print(f"{len(corpus.train)} sentences to learn from, {len(corpus.test)} to be tested on.\n")
    best = _compare(console, corpus, families(task, neural=neural))
    if neural:
        console.print(ILLEGAL)
    console.print(f"\n[bold]{best.name}[/bold] on sentences it has not seen, with the probability of each span:\n")
    for answer in best.tagger.annotate([tokenize(text, task.tokenizer) for text in task.texts]):
        console.print(marked(answer, task))
    console.print(f'\nThe trellis of "{task.drawn}": the probability of each label, ● best path, ○ the next.\n')
    console.print(best.tagger.trellis(tokenize(task.drawn, task.tokenizer), k=2).draw(console.width))
    console.print()


def _compare(console: Console, corpus: DemoCorpus, contestants: list[Contestant]) -> TrainedTagger:
    """Train the families one by one under a live table; the one with the best F1."""
    board = Board([family.name for family in contestants])
    done: list[tuple[float, TrainedTagger]] = []
    with Live(board, console=console, refresh_per_second=8) if console.is_terminal else nullcontext():
        for family in contestants:
            board.training(family.name)
            trained = train(family, corpus, partial(board.training, family.name))
            rows = results(family, trained, corpus)
            board.done(family.name, rows)
            done.append((rows[0].f1, trained))
            if not console.is_terminal:
                console.print(f"{family.name}: trained in {trained.seconds:.1f} s")
    if not console.is_terminal:
        console.print(board)
    return max(done, key=lambda pair: pair[0])[1]


def _what_next(console: Console, task: DemoTask) -> None:
    """Commands to try next, which can be pasted."""
    files = {part: f"data/{task.files.format(part)}" for part in ("train", "dev", "test")}
    console.rule("[bold]What to try next[/bold]", align="left")
    given = f"--train {files['train']} --dev {files['dev']} --test {files['test']}"
    for line in (
        "demo --data data",
        f"check {files['train']} {files['test']}",
        f"train --task {task.name} --model crf {given} --out model",
        f"tag model {files['test']}",
        f'explain model "{task.drawn}"',
    ):
        console.print(escape(f"  {program()} {line}"), soft_wrap=True)


class Board:
    """The comparison as it grows: a row for each family: waiting, then training, then its figures."""

    def __init__(self, names: Sequence[str]) -> None:
        self._rows: dict[str, list[Result] | str] = dict.fromkeys(names, "waiting")

    def training(self, name: str, step: Step | None = None) -> None:
        """The family is being trained and has come to this step."""
        self._rows[name] = "training" if step is None else _described(step)

    def done(self, name: str, results: list[Result]) -> None:
        """The family's figures are there."""
        self._rows[name] = results

    def __rich__(self) -> Table:
        """The table in its present state."""
        headings = "F1", "illegal", "training", "tokens/s"
        columns = (Column(heading, justify="right", no_wrap=True) for heading in headings)
        table = Table(Column("model", no_wrap=True), *columns)
        best = max((row.f1 for rows in self._rows.values() if not isinstance(rows, str) for row in rows), default=0.0)
        for name, rows in self._rows.items():
            if isinstance(rows, str):
                table.add_row(name, "", "", rows, "", style="dim" if rows == "waiting" else "yellow")
            else:
                for row in rows:
                    seconds = "" if row.seconds is None else f"{row.seconds:.1f} s"
                    speed = "" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"
                    f1 = Text(f"{100 * row.f1:.2f}", style="bold green" if row.f1 == best else "")
                    illegal = Text(f"{row.illegal:,}", style="bold red" if row.illegal else "")
                    table.add_row(Text(row.name), f1, illegal, seconds, speed)
        return table


def _described(step: Step) -> str:
    """Where training is, in a few words; within an epoch the last score on the dev sentences stays."""
    done = f"iteration {step.iteration}" if step.batches is None else f"epoch {step.iteration} of {step.iterations}"
    dev = step.best if step.dev is None else step.dev
    score = "" if dev is None else f", dev {100 * dev:.1f}"
    return f"{done}{score}, {step.seconds:.0f} s"


def marked(answer: Tagged, task: DemoTask) -> Text:
    """The text with its spans marked: by colour if there is colour, always by brackets or slashes."""
    if task.name == "seg":
        return Text(" / ", style="dim").join(map(_word, answer.spans))
    text, end = Text(), 0
    for span in answer.spans:
        text.append(answer.text[end : span.start])
        colour = _COLOURS.get(span.label, "blue")
        text.append(f"[{span.text}", style=f"bold {colour}")
        text.append(f" {span.label} {span.probability:.2f}]", style=colour)
        end = span.end
    return text.append(answer.text[end:])


def _word(span: TextSpan) -> Text:
    """A word, and its probability if it is in doubt."""
    if span.probability >= _SURE:
        return Text(span.text, style="bold green")
    return Text(span.text, style="bold yellow").append(f" {span.probability:.2f}", style="not bold yellow")
