"""Reading speed of every format, against the loop that people write by hand for CoNLL columns.

    python benchmarks/corpus.py [FILE.conll ...] [--tokens 500000]

The given files are read as CoNLL columns; without files, a synthetic corpus with that many tokens is used. Prints
tables and writes benchmarks/results/corpus.json. Times are the best of several; the bar is a million tokens per second
for CoNLL columns.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from _harness import Bar, Row, Section, best_of_each, machine, make_console, write_json

from trellis import corpus
from trellis.text import Sentence

RESULTS = Path(__file__).parent / "results" / "corpus.json"
TAGS = ("O", "O", "O", "O", "O", "O", "O", "B-PER", "B-LOC", "B-ORG")


def make_sentences(tokens: int, seed: int = 0) -> list[Sentence]:
    """Sentences of 5 to 35 words whose frequencies fall off like those in natural language."""
    rng = random.Random(seed)
    sentences, total = [], 0
    while total < tokens:
        length = rng.randint(5, 35)
        words = [f"w{int(rng.paretovariate(0.7)) % 200_000:x}" for _ in range(length)]
        sentences.append(Sentence(words, [rng.choice(TAGS) for _ in words]))
        total += length
    return sentences


def read(path: Path, format: str) -> int:
    return sum(len(sentence) for sentence in corpus.iterate(path, format=format))


def read_by_hand(path: Path) -> int:
    """What countless training scripts do: no checks, no line numbers."""
    count, tokens, tags = 0, [], []
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.strip()
            if not line:
                count += len(tokens)
                tokens, tags = [], []
                continue
            fields = line.split()
            tokens.append(fields[0])
            tags.append(fields[-1])
    return count + len(tokens)


def conll_section(paths: list[Path]) -> Section:
    rows: list[Row] = []
    for path in paths:
        tokens = read(path, "conll")
        ours, by_hand = best_of_each(lambda p=path: read(p, "conll"), lambda p=path: read_by_hand(p))
        rows.append(
            {"file": path.name, "tokens": tokens, "trellis tokens/s": tokens / ours, "loop tokens/s": tokens / by_hand}
        )
    slowest = min(row["trellis tokens/s"] for row in rows)
    return Section("CoNLL columns", rows, [Bar("million tokens per second, slowest file", slowest / 1e6, 1.0)])


def format_section(folder: Path, sentences: list[Sentence]) -> Section:
    rows: list[Row] = []
    for name in corpus.FORMATS:
        path = folder / f"corpus.{name}"
        plain = [sentence.with_tags(None) for sentence in sentences] if name == "segmented" else sentences
        options = {"scheme": "IOB2"} if name == "spans" else {}
        corpus.write(path, plain, format=name, **options)
        tokens = read(path, name)
        (seconds,) = best_of_each(lambda p=path, f=name: read(p, f), at_least=3)
        rows.append({"format": name, "tokens": tokens, "tokens/s": tokens / seconds})
    return Section("Every format, synthetic", rows, note="segmented: tokens are characters")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--tokens", type=int, default=500_000)
    arguments = parser.parse_args()
    sentences = make_sentences(arguments.tokens)
    console = make_console()
    with tempfile.TemporaryDirectory() as folder:
        synthetic = Path(folder) / "synthetic.conll"
        corpus.write(synthetic, sentences)
        few = sentences[: len(sentences) // 10]
        sections = [conll_section(arguments.files or [synthetic]), format_section(Path(folder), few)]
    for section in sections:
        section.show(console)
    write_json(RESULTS, {"machine": machine(["trellis"]), "sections": [section.to_json() for section in sections]})


if __name__ == "__main__":
    main()
