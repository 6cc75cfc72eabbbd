"""Two small corpora written for this project: English with named entities, and segmented Chinese.

    corpus = trellis.demo.english()
    tagger = trellis.CRF(features="ner").fit(corpus.train, dev=corpus.dev)
    tagger.evaluate(corpus.test)

The sentences are original, drawn once from the grammars beside this file (see `trellis.demo.generate`). Some words and
turns of phrase occur in dev and test only, and many words are ambiguous on purpose (Jordan, Washington and May;
研究生命 and 研究生), so that models differ. The files are read like any others: ``english-train.conll`` and so on have
a token and its tag a line, ``chinese-train.txt`` a sentence of words a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from trellis import corpus
from trellis.text import Sentence

__all__ = ["DemoCorpus", "chinese", "english"]


@dataclass(frozen=True, slots=True)
class DemoCorpus:
    """A corpus in three parts, each a list of sentences with tags."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]


def english() -> DemoCorpus:
    """News English: persons, locations, organisations and dates, tagged in IOB2 (B-PER, I-PER, ..., O)."""
    return _corpus("english-{}.conll", "conll")


def chinese() -> DemoCorpus:
    """News Chinese for word segmentation: the tokens are characters, their tags places in a word (B, M, E, S)."""
    return _corpus("chinese-{}.txt", "segmented")


def _corpus(name: str, format: str) -> DemoCorpus:
    train, dev, test = (_read(name.format(part), format) for part in ("train", "dev", "test"))
    return DemoCorpus(train, dev, test)


def _read(name: str, format: str) -> list[Sentence]:
    """The sentences of a file of this package, which may lie in an archive."""
    with resources.as_file(resources.files(__name__) / "data" / name) as path:
        return corpus.read(path, format=format).sentences
