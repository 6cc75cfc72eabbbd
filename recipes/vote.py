"""Taggers of the same settings with seeds 1, 2 and 3, and the ensemble of them: averaged scores, saved as one model.

python recipes/vote.py recipes/wnut17-bilstm.toml model.trellis DATA/wnut17/wnut17train.conll \
    DATA/wnut17/emerging.dev.conll DATA/wnut17/emerging.test.annotated encoder.words.vectors=glove.6B.50d.txt

Prints F1 on dev and test of each tagger and of the ensemble.
"""

import sys
from typing import Any

from trellis import config, corpus
from trellis.models import Ensemble, NeuralTagger
from trellis.models.neural.config import NeuralConfig
from trellis.text import Sentence

SEEDS = (1, 2, 3)


def main(settings_file: str, out: str, train: str, dev: str, test: str, *assignments: str) -> None:
    """Train, vote, save."""
    parts = [corpus.read(path).sentences for path in (train, dev, test)]
    settings = config.override(config.layered(NeuralConfig(), settings_file), assignments)
    members = []
    for seed in SEEDS:
        own = config.changed(settings, {"training": {"seed": seed}})
        members.append(NeuralTagger(**config.to_dict(own)).fit(parts[0], dev=parts[1]))
        report(f"seed {seed}", members[-1], parts[1:])
    ensemble = Ensemble.of(members)
    report("ensemble", ensemble, parts[1:])
    ensemble.save(out)


def report(name: str, tagger: Any, parts: list[list[Sentence]]) -> None:
    """Print F1 on each part."""
    figures = " / ".join(f"{100 * tagger.score(part):.1f}" for part in parts)
    sys.stdout.write(f"{name:10} {figures}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
