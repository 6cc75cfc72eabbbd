"""Two small corpora written for this project: English with named entities, and segmented Chinese.

    corpus = trellis.demo.english()
    tagger = trellis.CRF(features="ner").fit(corpus.train, dev=corpus.dev)
    tagger.evaluate(corpus.test)

The sentences are original, drawn once from grammars (tools/demo in the repository). Some words and turns of phrase
occur in dev and test only, and many words are ambiguous on purpose (Jordan, Washington and May; 研究生命 and 研究生),
so that models differ. The files, which `write` copies to a folder, are read like any others: ``english-train.conll``
and so on have one token and its tag per line, ``chinese-train.txt`` one sentence of words per line.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from trellis import corpus, files
from trellis.errors import DataError
from trellis.text import Sentence

__all__ = ["DemoCorpus", "chinese", "english", "write"]


@dataclass(frozen=True, slots=True)
class DemoCorpus:
    """A corpus in three parts, each a list of sentences with tags."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]

    def __repr__(self) -> str:
        return f"DemoCorpus({len(self.train)} sentences to train, {len(self.dev)} dev, {len(self.test)} test)"


def english() -> DemoCorpus:
    """News English: persons, locations, organisations and dates, tagged in IOB2 (B-PER, I-PER, ..., O)."""
    return _corpus("english-{}.conll", "conll")


def chinese() -> DemoCorpus:
    """News Chinese for word segmentation: the tokens are characters, their tags places in a word (B, M, E, S)."""
    return _corpus("chinese-{}.txt", "segmented")


def write(folder: str | Path) -> list[Path]:
    """Copy the files of both corpora to a folder, which is made if it does not exist; their paths."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{target} cannot be made a folder: {error.strerror}") from None
    written = []
    for file in sorted((resources.files(__name__) / "data").iterdir(), key=lambda file: file.name):
        written.append(target / file.name)
        files.write_bytes(written[-1], file.read_bytes(), DataError)
    return written


def _corpus(name: str, format: str) -> DemoCorpus:
    parts = []
    for part in ("train", "dev", "test"):  # files of this package, which may lie in an archive
        with resources.as_file(resources.files(__name__) / "data" / name.format(part)) as path:
            parts.append(corpus.read(path, format=format).sentences)
    return DemoCorpus(*parts)
