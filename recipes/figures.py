"""Trains taggers with their defaults on several corpora, three seeds each, and makes a table of the runs.

python recipes/figures.py run DATA RUNS --vectors glove.6B.50d.txt --corpora wnut17 btc --models crf bilstm-crf
python recipes/figures.py run DATA RUNS --vectors words.vector --corpora weibo --set encoder.words.soft_lexicon=0
python recipes/figures.py table RUNS

Each run leaves its history, with F1 on test, as a file in the folder RUNS; one that is there is not run again. A
feature CRF has no seed: it is trained once. WikiGold has no parts: each seed holds out another third, half of it dev.
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from trellis import config, corpus
from trellis.models.families import get_family, make_tagger
from trellis.text import Sentence

CROSSNER = ("politics", "science", "music", "literature", "ai")
FILES = {
    "wnut17": ("wnut17/wnut17train.conll", "wnut17/emerging.dev.conll", "wnut17/emerging.test.annotated"),
    "bc5cdr": ("bc5cdr/train.tsv", "bc5cdr/devel.tsv", "bc5cdr/test.tsv"),
    "btc": ("btc/btc.[abeg].conll", "btc/btc.h.conll", "btc/btc.f.conll"),
    "weibo": tuple(f"weibo_ner/weibo.{part}.conll" for part in ("train", "dev", "test")),
    **{name: tuple(f"crossner/{name}.{part}.conll" for part in ("train", "dev", "test")) for name in CROSSNER},
}


def parts_of(data: Path, name: str, seed: int) -> list[list[Sentence]]:
    """The sentences to learn from, those of dev and those of test; those with broken lines are left out."""
    if name == "wikigold":
        sentences = corpus.read(data / "wikigold/wikigold.conll.txt").sentences
        held_out = sentences[seed % 3 :: 3]
        return [[s for i, s in enumerate(sentences) if i % 3 != seed % 3], held_out[::2], held_out[1::2]]
    return [
        [s for path in sorted(data.glob(pattern)) for s in corpus.read(path, on_error="skip").sentences]
        for pattern in FILES[name]
    ]


def run(data: Path, runs: Path, options: argparse.Namespace) -> None:
    """Train what has no file yet."""
    runs.mkdir(parents=True, exist_ok=True)
    for name in options.corpora:
        for model in options.models:
            family, neural = get_family(model), model != "crf"
            for seed in options.seeds if neural or name == "wikigold" else options.seeds[:1]:
                way = " ".join([model, *(["vectors"] if options.vectors else []), *options.set])
                file = runs / f"{name} {way} {seed}.json".replace("/", "_")
                if file.exists():
                    continue
                given = [f"training.seed={seed}"] * neural + options.set
                if options.vectors:
                    given.append(f"{'encoder.words.' * neural}vectors={options.vectors}")
                train, dev, test = parts_of(data, name, seed)
                begin = time.process_time()
                tagger = make_tagger(family, config.override(family.defaults(), given))
                tagger.fit(train, dev=dev, on_bad_tags="repair", progress=False)
                seconds = time.process_time() - begin
                record = {"corpus": name, "way": way, "seed": seed, "test": tagger.score(test), "seconds": seconds}
                file.write_text(json.dumps({**record, "history": tagger.history_.to_dict()}))


def table(runs: Path) -> None:
    """Print a row per corpus and way: F1 of dev and test, mean over seeds and each, the last step's, CPU seconds."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for file in sorted(runs.glob("*.json")):
        record = json.loads(file.read_text())
        rows[record["corpus"], record["way"]].append(record)
    sys.stdout.write("| corpus | way | dev | last step | test | CPU seconds |\n|---|---|---|---|---|---|\n")
    for (name, way), records in rows.items():
        steps = [record["history"]["steps"] for record in records]
        dev = [max(step["dev"] for step in one) for one in steps]
        last, test = [one[-1]["dev"] for one in steps], [record["test"] for record in records]
        figures = " | ".join(
            f"{100 * statistics.mean(values):.1f}" + (f" ({shown(values)})" if len(values) > 1 else "")
            for values in (dev, last, test)
        )
        seconds = statistics.mean(record["seconds"] for record in records)
        sys.stdout.write(f"| {name} | {way} | {figures} | {seconds:.0f} |\n")


def shown(values: list[float]) -> str:
    """In per cent, one after another."""
    return " ".join(f"{100 * value:.1f}" for value in values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    runner = commands.add_parser("run")
    runner.add_argument("data", type=Path)
    commands.add_parser("table").add_argument("runs", type=Path)
    runner.add_argument("runs", type=Path)
    runner.add_argument("--corpora", nargs="+", default=[*FILES, "wikigold"], choices=[*FILES, "wikigold"])
    runner.add_argument("--models", nargs="+", default=["crf", "bilstm-crf"])
    runner.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    runner.add_argument("--vectors", help="a file of word vectors")
    runner.add_argument("--set", nargs="+", default=[], metavar="SETTING=VALUE")
    arguments = parser.parse_args()
    table(arguments.runs) if arguments.command == "table" else run(arguments.data, arguments.runs, arguments)
