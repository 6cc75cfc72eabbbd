"""``trellis demo``: families of taggers side by side, in the terminal."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

import trellis
from trellis.cli import program
from trellis.cli.io import colour_of, output
from trellis.demo import DemoCorpus, chinese, english, write
from trellis.models import Tagged, Tagger
from trellis.models.answers import TextSpan
from trellis.models.data import headline, label_scores
from trellis.models.posterior import to_labels
from trellis.ragged import split
from trellis.tags import TagSet, validate_tags
from trellis.text import Sentence, tokenize
from trellis.training import Progress, Step

ILLEGAL = (
    "illegal: sentences with impossible tags, such as I-PER after O, or a word that never ends. Trellis gives "
    "legal tags only; argmax is the same softmax model with the best label of each token by itself, as is often done."
)

_SURE = 0.9
_RUNS = 3


@dataclass(frozen=True, slots=True)
class DemoTask:
    """A task of the demo: its corpus, how families learn it, and texts to tag."""

    name: str
    title: str
    corpus: Callable[[], DemoCorpus]
    tokenizer: str
    features: str
    """The feature CRF's ready-made templates."""
    epochs: int
    """Passes of the neural taggers over the training sentences: the whole demo takes less than two minutes."""
    capitalisation: int
    """Width of the neural taggers' vector for how a word is written."""
    texts: tuple[str, ...]
    """Texts to tag, in neither part of the corpus."""
    drawn: str
    """The text whose trellis is drawn."""
    files: str
    """The names of its files, as `trellis.demo.write` writes them."""


NER = DemoTask(
    name="ner",
    title="Named entities in English news",
    corpus=english,
    tokenizer="words",
    features="ner",
    epochs=10,
    capitalisation=8,
    texts=(
        "Jordan Abara flew from Jordan to Washington on 3 May, and Ms Washington met her there.",
        "Reading beat Bath 2-1 on Saturday, but hardly anyone in Reading noticed.",
        "Will Sunday, head of the Sunday Herald, may leave Paris on Sunday.",
        "Paris Hill said Lincoln University will open in Lincoln by late March.",
        "is june still in lincoln on friday?",
        "The report will be read again before anyone is paid.",
    ),
    drawn="Jordan met Washington in May",
    files="english-{}.conll",
)
SEG = DemoTask(
    name="seg",
    title="Words in Chinese news",
    corpus=chinese,
    tokenizer="characters",
    features="seg",
    epochs=8,
    capitalisation=0,
    texts=(
        "研究生命起源的研究生说，明天会下雨。",
        "只有和他们一起工作，才能了解市长的才能。",
        "发展中国家的学生会说中国话。",
        "武汉市长江大桥明天通车，市长将来武汉。",
        "今日本店不卖日本球拍。",
    ),
    drawn="学生会说。",
    files="chinese-{}.txt",
)
TASKS = {task.name: task for task in (NER, SEG)}


class TaskName(StrEnum):
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


def _compare(console: Console, corpus: DemoCorpus, contestants: list[Contestant]) -> Contestant:
    """Train the taggers one by one under a live table; the one with the best F1."""
    board = Board([family.name for family in contestants])
    done: list[tuple[float, Contestant]] = []
    with Live(board, console=console, refresh_per_second=8) if console.is_terminal else nullcontext():
        for family in contestants:
            board.training(family.name)
            family.train(corpus, partial(board.training, family.name))
            rows = family.results(corpus.test)
            board.done(family.name, rows)
            done.append((rows[0].f1, family))
            if not console.is_terminal:
                console.print(f"{family.name}: trained in {family.seconds:.1f} s")
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


@dataclass(slots=True)
class Contestant:
    name: str
    tagger: Tagger[Any]
    argmax: bool = False
    """Whether to show also the best label of each token by itself, as taggers without a chain give it."""
    seconds: float = 0.0
    """How long it learned."""

    def train(self, corpus: DemoCorpus, progress: Progress | None = None) -> None:
        """Learn; the dev sentences choose the best state of a tagger that has several."""
        threads: Any = nullcontext()
        if self.tagger.kind == "neural":
            from trellis.nn.lstm import one_thread

            threads = one_thread()  # networks this small gain little from more
        begin = time.perf_counter()
        with threads:
            self.tagger.fit(corpus.train, dev=corpus.dev, progress=progress)
        self.seconds = time.perf_counter() - begin

    def results(self, sentences: Sequence[Sentence]) -> list[Result]:
        """The figures on test sentences; tokens per second are the best of a few runs."""
        tagger, tags = self.tagger, self.tagger.tagset_
        gold = [list(sentence.tags or ()) for sentence in sentences]

        def result(name: str, predicted: list[list[str]], *times: float | None) -> Result:
            return Result(name, headline(label_scores(gold, predicted, tags)), illegal(predicted, tags), *times)

        seconds = min(timeit.repeat(lambda: tagger.predict(sentences), repeat=_RUNS, number=1))
        rows = [result(self.name, tagger.predict(sentences), self.seconds, sum(map(len, sentences)) / seconds)]
        return [*rows, result("  argmax", argmax(tagger, sentences), None, None)] if self.argmax else rows


@dataclass(frozen=True, slots=True)
class Result:
    """One row of the comparison; `argmax` rows are another reading of the tagger above them."""

    name: str
    f1: float
    illegal: int
    """Sentences whose tags break the rules of their scheme, such as I-PER after O."""
    seconds: float | None
    tokens_per_second: float | None


def neural_is_installed() -> bool:
    """Whether the libraries of the extra `neural` that a BiLSTM needs are there."""
    return all(find_spec(name) is not None for name in ("torch", "accelerate"))


def families(task: DemoTask, *, neural: bool) -> list[Contestant]:
    """Taggers that are compared on a task, the quickest first; networks are small and learn in small batches."""
    contestants = [
        Contestant("HMM", trellis.HMM()),
        Contestant("CRF", trellis.CRF(features=task.features, c2=0.1)),
    ]
    for name, head in (("BiLSTM-softmax", "softmax"), ("BiLSTM-CRF", "crf")) if neural else ():
        tagger: Tagger[Any] = trellis.NeuralTagger(
            head=head,
            encoder={"hidden": 128, "capitalisation": task.capitalisation},
            training={"epochs": task.epochs, "batch_size": 8, "learning_rate": 0.005},
        )
        contestants.append(Contestant(name, tagger, argmax=head == "softmax"))
    return contestants


def illegal(predicted: Sequence[Sequence[str]], tags: TagSet) -> int:
    """How many sequences break the rules of their scheme."""
    return sum(bool(validate_tags(sequence, tags.scheme, style=tags.style)) for sequence in predicted)


def argmax(tagger: Tagger[Any], sentences: Sequence[Sentence]) -> list[list[str]]:
    """The best label of each token by its own score, regardless of its neighbours."""
    posterior = tagger.posterior(sentences)
    best = to_labels(np.argmax(posterior.scores.emissions, axis=1), posterior.state_labels)
    labels = np.array(tagger.labels_, dtype=object)[best]
    return [tags.tolist() for tags in split(labels, posterior.scores.lengths)]


class Board:
    """The comparison as it grows: a row for each family: waiting, then training, then its figures."""

    def __init__(self, names: Sequence[str]) -> None:
        self._rows: dict[str, list[Result] | str] = dict.fromkeys(names, "waiting")

    def training(self, name: str, step: Step | None = None) -> None:
        self._rows[name] = "training" if step is None else _described(step)

    def done(self, name: str, results: list[Result]) -> None:
        self._rows[name] = results

    def __rich__(self) -> Table:
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
        colour = f"color({colour_of(span.label)})"
        text.append(f"[{span.text}", style=f"bold {colour}")
        text.append(f" {span.label} {span.probability:.2f}]", style=colour)
        end = span.end
    return text.append(answer.text[end:])


def _word(span: TextSpan) -> Text:
    """A word, and its probability if it is in doubt."""
    if span.probability >= _SURE:
        return Text(span.text, style="bold green")
    return Text(span.text, style="bold yellow").append(f" {span.probability:.2f}", style="not bold yellow")
