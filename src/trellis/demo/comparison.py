"""The tasks that `trellis demo` shows, the families of taggers that learn them, and figures that tell these apart."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import trellis
from trellis.demo import DemoCorpus, chinese, english
from trellis.models import Tagger
from trellis.models.data import headline, label_scores
from trellis.models.posterior import to_labels
from trellis.ragged import split
from trellis.tags import TagSet, validate_tags
from trellis.text import Sentence
from trellis.training import Progress

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


@dataclass(frozen=True, slots=True)
class Contestant:
    """A kind of tagger in the comparison."""

    name: str
    make: Callable[[], Tagger[Any]]
    neural: bool = False
    argmax: bool = False
    """Whether to show also the best label of each token by itself, as taggers without a chain give it."""


@dataclass(frozen=True, slots=True)
class TrainedTagger:
    """A tagger that has learned, and how long that took."""

    name: str
    tagger: Tagger[Any]
    seconds: float


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
    """Families that are compared on a task, the quickest first."""
    contestants = [
        Contestant("HMM", trellis.HMM),
        Contestant("CRF", lambda: trellis.CRF(features=task.features, c2=0.1)),
    ]
    if neural:
        contestants += [
            Contestant("BiLSTM-softmax", lambda: _neural(task, "softmax"), neural=True, argmax=True),
            Contestant("BiLSTM-CRF", lambda: _neural(task, "crf"), neural=True),
        ]
    return contestants


def _neural(task: DemoTask, head: str) -> Tagger[Any]:
    """A small BiLSTM in small batches, since the corpora are small."""
    tagger: Tagger[Any] = trellis.NeuralTagger(
        head=head,
        encoder={"hidden": 128, "capitalisation": task.capitalisation},
        training={"epochs": task.epochs, "batch_size": 8, "learning_rate": 0.005},
    )
    return tagger


def train(family: Contestant, corpus: DemoCorpus, progress: Progress | None = None) -> TrainedTagger:
    """Train one tagger; the dev sentences choose its best state if it has several."""
    tagger = family.make()
    threads: AbstractContextManager[None] = nullcontext()
    if family.neural:
        from trellis.nn.lstm import one_thread

        threads = one_thread()  # networks this small gain little from more
    begin = time.perf_counter()
    with threads:
        tagger.fit(corpus.train, dev=corpus.dev, progress=progress)
    return TrainedTagger(family.name, tagger, time.perf_counter() - begin)


def results(family: Contestant, trained: TrainedTagger, corpus: DemoCorpus) -> list[Result]:
    """The figures of a tagger on the test sentences."""
    tagger, tags = trained.tagger, trained.tagger.tagset_
    gold = [list(sentence.tags or ()) for sentence in corpus.test]

    def result(name: str, predicted: list[list[str]], *times: float | None) -> Result:
        return Result(name, headline(label_scores(gold, predicted, tags)), illegal(predicted, tags), *times)

    rows = [result(trained.name, tagger.predict(corpus.test), trained.seconds, speed(tagger, corpus.test))]
    return [*rows, result("  argmax", argmax(tagger, corpus.test), None, None)] if family.argmax else rows


def illegal(predicted: Sequence[Sequence[str]], tags: TagSet) -> int:
    """How many sequences break the rules of their scheme."""
    return sum(bool(validate_tags(sequence, tags.scheme, style=tags.style)) for sequence in predicted)


def argmax(tagger: Tagger[Any], sentences: Sequence[Sentence]) -> list[list[str]]:
    """The best label of each token by its own score, regardless of its neighbours."""
    posterior = tagger.posterior(sentences)
    best = to_labels(np.argmax(posterior.scores.emissions, axis=1), posterior.state_labels)
    labels = np.array(tagger.labels_, dtype=object)[best]
    return [tags.tolist() for tags in split(labels, posterior.scores.lengths)]


def speed(tagger: Tagger[Any], sentences: Sequence[Sentence]) -> float:
    """Tokens tagged per second, the best of a few runs."""
    seconds = min(timeit.repeat(lambda: tagger.predict(sentences), repeat=_RUNS, number=1))
    return sum(map(len, sentences)) / seconds
