"""Time per token of long inputs at 1x, 4x and 16x the length: what is linear shows the same figure three times.

    python benchmarks/scaling.py [PART OF A NAME ...]
    python benchmarks/scaling.py --families [--picture docs/images/scaling.svg]

With arguments, only the cases whose names contain one of them are run. With `--families`, each family is fitted to 1x,
4x and 16x the data, and to data with 5, 20, 80 and 320 labels, instead. Prints tables and writes
benchmarks/results/scaling.json. Times are the best of several; the bar is that a token at 16x takes at most twice the
time that it takes at 1x.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from _families import FAMILIES, ITERATIONS, cost
from _harness import Bar, Row, Section, best_of, machine, make_console, write_json
from _plot import Lines, picture

from trellis import chain, corpus
from trellis.models.hmm import HMM
from trellis.text import Sentence

RESULTS = Path(__file__).parent / "results" / "scaling.json"
FACTORS = (1, 4, 16)
LABELS = (5, 20, 80, 320)
TOKENS = 2_000  # of the families' data at 1x
CHUNKS = [["O"], ["O"], *([f"B-{kind}", *[f"I-{kind}"] * more] for kind in "XYZ" for more in range(3))]
TEXT = ("Ada", "wrote", "the", "first", "program", "in", "London", "1843", "über", "好")


WORDS = {
    "en": {
        "title": "What a token costs, by size of the data and number of labels",
        "fit": "fit, µs per token",
        "tag": "tag, µs per token",
        "tokens": "thousand tokens, L = 20",
        "labels": "labels L",
    },
    "zh": {
        "title": "每个词元的代价，随数据规模和标签数的变化",
        "fit": "训练，每个词元的微秒数",
        "tag": "标注，每个词元的微秒数",
        "tokens": "千个词元，L = 20",
        "labels": "标签数 L",
    },
}


@dataclass(frozen=True)
class Case:
    """One thing to time: `prepare` makes an input with that many tokens, and returns the function to time."""

    name: str
    tokens: int
    """The number of tokens at 1x."""
    prepare: Callable[[Path, int], Callable[[], object]]


def words(count: int) -> list[str]:
    return [TEXT[i * i % 10] for i in range(count)]


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


def families() -> list[Section]:
    """What a token costs each family to fit and to tag, by the size of the data and by the number of labels."""
    chain.set_num_threads(1)
    sizes: list[Row] = []
    labels: list[Row] = []
    for name, make in FAMILIES.items():
        by_size = [cost(make, factor * TOKENS, 20) for factor in FACTORS]
        by_labels = [cost(make, 4 * TOKENS, L) for L in LABELS]
        for what, number in (("fit", 0), ("tag", 1)):
            named = {"family": name, "what": what}
            sizes.append(named | {f"{factor}x, us": own[number] for factor, own in zip(FACTORS, by_size, strict=True)})
            labels.append(named | {f"L = {L}, us": own[number] for L, own in zip(LABELS, by_labels, strict=True)})
    bars = [
        Bar(f"{row['family']}, {row['what']}: 16x over 1x", row["16x, us"] / row["1x, us"], 2.0, at_least=False)
        for row in sizes
    ]
    note = f"One epoch of the BiLSTM-CRF, {ITERATIONS} iterations of the CRF; one thread, CPU time."
    return [
        Section(f"CPU time per token, {TOKENS} tokens at 1x, 20 labels", sizes, bars, note),
        Section(f"CPU time per token, {4 * TOKENS} tokens, by number of labels", labels),
    ]


def draw(sections: list[Section], path: Path) -> None:
    sizes, labels = (section.rows for section in sections)

    say = WORDS["zh" if "zh" in path.parts else "en"]

    def lines(rows: list[Row], what: str, places: Sequence[float]) -> Lines:
        own = [list(row.values()) for row in rows if row["what"] == what]
        return {str(row[0]): list(zip(places, map(float, row[2:]), strict=True)) for row in own}

    data = [factor * TOKENS / 1000 for factor in FACTORS]
    panels = [(say[what], say["tokens"], lines(sizes, what, data)) for what in ("fit", "tag")]
    panels += [(say[what], say["labels"], lines(labels, what, LABELS)) for what in ("fit", "tag")]
    path.write_text(picture(say["title"], panels), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="parts of the names of the cases to run")
    parser.add_argument("--families", action="store_true", help="fit and tag with each family instead")
    parser.add_argument("--picture", type=Path, nargs="*", default=[], help="files to draw the costs of families into")
    options = parser.parse_args()
    if options.families:
        show(families(), options.picture)
    else:
        show([long_inputs(options.parts, parser)])


def long_inputs(parts: list[str], parser: argparse.ArgumentParser) -> Section:
    cases = [case for case in CASES if not parts or any(part.lower() in case.name.lower() for part in parts)]
    if not cases:
        parser.error(f"no case has such a name; the cases are {', '.join(case.name for case in CASES)}")
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(case, Path(folder)) for case in cases]
    bars = [Bar(f"{row['case']}: time per token at 16x over 1x", row["16x / 1x"], 2.0, at_least=False) for row in rows]
    return Section("Time per token of long inputs", rows, bars)


def show(sections: list[Section], drawings: Sequence[Path] = ()) -> None:
    for section in sections:
        section.show(make_console())
    write_json(RESULTS, {"machine": machine(["trellis"]), "sections": [section.to_json() for section in sections]})
    for path in drawings:
        draw(sections, path)


if __name__ == "__main__":
    main()
