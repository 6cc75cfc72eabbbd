"""The two tasks that `trellis demo` shows: which corpus, which settings, and which texts are tagged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trellis.demo import DemoCorpus, chinese, english


@dataclass(frozen=True, slots=True)
class DemoTask:
    """What one part of the demo is about."""

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
