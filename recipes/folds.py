"""The feature CRF on ten folds of a corpus: before, with today's defaults, and with word vectors.

python recipes/folds.py DATA/wikigold/wikigold.conll.txt glove.6B.50d.txt

A part of 169 sentences is too small to compare two models on. So each tenth of the corpus (by sentence number) is
tagged by a model that learned from the other nine, and spans are counted over all ten.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import trellis
from trellis import corpus
from trellis.features import TEMPLATE_SETS
from trellis.metrics import entity_scores
from trellis.text import Sentence

FOLDS = 10
ADDED = ("U10:", "U11:", "U12:", "U13:")  # lines of the ner templates that were not there before


def answers(sentences: list[Sentence], settings: dict[str, Any]) -> list[list[str]]:
    """The tags that each sentence gets from a model that has not seen its fold."""
    found: dict[int, list[str]] = {}
    for fold in range(FOLDS):
        held_out = [i for i in range(len(sentences)) if i % FOLDS == fold]
        tagger = trellis.CRF(**settings).fit([s for i, s in enumerate(sentences) if i % FOLDS != fold])
        found |= dict(zip(held_out, tagger.predict([sentences[i] for i in held_out]), strict=True))
    return [found[i] for i in range(len(sentences))]


def main(path: str, vectors: str) -> None:
    """Print one line per way: F1 over all folds, and of each of them."""
    sentences = corpus.read(path).sentences
    gold = [list(sentence.tags or ()) for sentence in sentences]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before.templates"
        lines = TEMPLATE_SETS["ner"].splitlines(keepends=True)
        before.write_text("".join(line for line in lines if not line.startswith(ADDED)))
        ways: dict[str, dict[str, Any]] = {
            "before": {"features": str(before), "learn_scheme": "data"},
            "defaults": {},
            "defaults and vectors": {"vectors": vectors},
        }
        for name, settings in ways.items():
            tags = answers(sentences, settings)
            by_fold = [f1(gold[fold::FOLDS], tags[fold::FOLDS]) for fold in range(FOLDS)]
            sys.stdout.write(f"{name:24} {f1(gold, tags):5.1f}   {' '.join(f'{one:.1f}' for one in by_fold)}\n")
            sys.stdout.flush()


def f1(gold: list[list[str]], tags: list[list[str]]) -> float:
    """Of spans, in per cent."""
    return 100 * entity_scores(gold, tags).micro.f1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
