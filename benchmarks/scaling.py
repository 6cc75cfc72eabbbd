"""Time per token of long inputs at 1x, 4x and 16x the length: what is linear shows the same figure three times.

    python benchmarks/scaling.py [PART OF A NAME ...]

With arguments, only the cases whose names contain one of them are run. Prints a table and writes
benchmarks/results/scaling.json. Times are the best of several; the bar is that a token at 16x takes at most twice the
time that it takes at 1x.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from _harness import Bar, Row, Section, best_of, machine, make_console, write_json

from trellis import corpus
from trellis.models.hmm import HMM
from trellis.text import Sentence

RESULTS = Path(__file__).parent / "results" / "scaling.json"
FACTORS = (1, 4, 16)
CHUNKS = [["O"], ["O"], *([f"B-{kind}", *[f"I-{kind}"] * more] for kind in "XYZ" for more in range(3))]
WORDS = ("Ada", "wrote", "the", "first", "program", "in", "London", "1843", "über", "好")


@dataclass(frozen=True)
class Case:
    """One thing to time: `prepare` makes an input with that many tokens, and returns the function to time."""

    name: str
    tokens: int
    """The number of tokens at 1x."""
    prepare: Callable[[Path, int], Callable[[], object]]


def words(count: int) -> list[str]:
    return [WORDS[i * i % 10] for i in range(count)]


def reading(path: Path, content: str, format: str) -> Callable[[], object]:
    path.write_text(content, encoding="utf-8")
    return lambda: sum(len(sentence) for sentence in corpus.iterate(path, format=format))


def json_array(folder: Path, tokens: int) -> Callable[[], object]:
    """One array of sentences of ten words, on one line."""
    record = {"tokens": words(10), "tags": ["O"] * 10}
    return reading(folder / "array.json", json.dumps([record] * (tokens // 10)), "jsonl")


def json_array_of_lines(folder: Path, tokens: int) -> Callable[[], object]:
    """One array of sentences of ten words, indented."""
    record = {"tokens": words(10), "tags": ["O"] * 10}
    return reading(folder / "array.json", json.dumps([record] * (tokens // 10), indent=1), "jsonl")


def conll_without_blank_lines(folder: Path, tokens: int) -> Callable[[], object]:
    """One sentence."""
    return reading(folder / "one.conll", "".join(f"{word}\tO\n" for word in words(tokens)), "conll")


@cache
def hmm_of_order_2() -> HMM:
    """Three types of entities, of up to three words, among other words: 7 labels and about 45 states."""
    random = Random(0)
    sentences = []
    for _ in range(400):
        tags = [tag for _ in range(12) for tag in random.choice(CHUNKS)]
        tokens = [f"{tag[-1]}{random.randrange(500 if tag == 'O' else 100)}" for tag in tags]
        sentences.append(Sentence(tokens, tags))
    return HMM(order=2).fit(sentences)


def one_sentence(question: str) -> Callable[[Path, int], Callable[[], object]]:
    """A question to a tagger about a text that is one sentence."""

    def prepare(folder: Path, tokens: int) -> Callable[[], object]:
        model, random = hmm_of_order_2(), Random(1)
        text = [f"{random.choice('OXYZ')}{random.randrange(500)}" for _ in range(tokens)]
        return lambda: getattr(model, question)([text])

    return prepare


CASES = (
    Case("JSON array on one line", 10_000, json_array),
    Case("JSON array, indented", 10_000, json_array_of_lines),
    Case("CoNLL without blank lines", 100_000, conll_without_blank_lines),
    Case("HMM of order 2, predict", 5_000, one_sentence("predict")),
    Case("HMM of order 2, marginals", 5_000, one_sentence("marginals")),
    Case("HMM of order 2, annotate", 5_000, one_sentence("annotate")),
    Case("HMM of order 2, span_probabilities", 5_000, one_sentence("span_probabilities")),
)


def measure(case: Case, folder: Path) -> Row:
    row: Row = {"case": case.name, "tokens at 1x": case.tokens}
    for factor in FACTORS:
        tokens = factor * case.tokens
        row[f"{factor}x, ns/token"] = 1e9 * best_of(case.prepare(folder, tokens), at_least=3) / tokens
    row["16x / 1x"] = row["16x, ns/token"] / row["1x, ns/token"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="parts of the names of the cases to run")
    parts = parser.parse_args().parts
    cases = [case for case in CASES if not parts or any(part.lower() in case.name.lower() for part in parts)]
    if not cases:
        parser.error(f"no case has such a name; the cases are {', '.join(case.name for case in CASES)}")
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(case, Path(folder)) for case in cases]
    bars = [Bar(f"{row['case']}: time per token at 16x over 1x", row["16x / 1x"], 2.0, at_least=False) for row in rows]
    section = Section("Time per token of long inputs", rows, bars)
    section.show(make_console())
    write_json(RESULTS, {"machine": machine(["trellis"]), "sections": [section.to_json()]})


if __name__ == "__main__":
    main()
