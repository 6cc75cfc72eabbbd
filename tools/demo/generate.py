"""How the corpora of the demo were made: ``python -m tools.demo.generate`` draws the six files of the package again.

The same grammar and seed give the same files, byte for byte; a test compares them with those in the package. To use
another folder, name it: ``python -m tools.demo.generate FOLDER``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tools.demo.grammar import Grammar, Writer
from trellis import corpus
from trellis.text import Sentence

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "src" / "trellis" / "demo" / "data"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What makes one corpus: its grammar, a seed, the number of sentences of each part, and how they are written."""

    grammar: str
    seed: int
    sizes: dict[str, int]
    format: str
    suffix: str


ENGLISH = Recipe("english", 7, {"train": 800, "dev": 150, "test": 200}, "conll", "conll")
CHINESE = Recipe("chinese", 7, {"train": 600, "dev": 100, "test": 150}, "segmented", "txt")


def generate(recipe: Recipe) -> dict[str, list[Sentence]]:
    """The parts of a corpus by name; no sentence occurs twice in any of them."""
    text = (HERE / f"{recipe.grammar}.grammar").read_text("utf-8")
    writer = Writer(Grammar.parse(text), recipe.seed)
    seen: set[str] = set()
    parts = {}
    for part, size in recipe.sizes.items():
        drawn = writer.sentences(held_out=part != "train")
        parts[part] = list(islice(_unseen(drawn, seen), size))
    return parts


def _unseen(sentences: Iterable[Sentence], seen: set[str]) -> Iterator[Sentence]:
    """The sentences that did not come before; upper and lower case are the same."""
    for sentence in sentences:
        key = " ".join(sentence.tokens).lower()
        if key not in seen:
            seen.add(key)
            yield sentence


def write(recipe: Recipe, folder: Path) -> None:
    """Write the parts of a corpus to files; segmented text has words, and no tags that could say otherwise."""
    for part, sentences in generate(recipe).items():
        if recipe.format == "segmented":
            sentences = [sentence.with_tags(None) for sentence in sentences]
        corpus.write(folder / f"{recipe.grammar}-{part}.{recipe.suffix}", sentences, format=recipe.format)


def main(arguments: list[str]) -> None:
    """Write both corpora to the folder that is named, or to that of the package."""
    if len(arguments) > 1:
        sys.exit("usage: python -m tools.demo.generate [FOLDER]")
    folder = Path(arguments[0]) if arguments else DATA
    folder.mkdir(parents=True, exist_ok=True)
    for recipe in (ENGLISH, CHINESE):
        write(recipe, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
