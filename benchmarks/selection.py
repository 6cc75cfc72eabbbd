"""Labels saved by selection: tokens that must be labelled for the F1 of sentences taken at random.

    python benchmarks/selection.py DATA                     entropy, two seeds
    python benchmarks/selection.py DATA --seeds 5 --picture docs/images/selection.svg docs/zh/images/selection.svg
    python benchmarks/selection.py DATA --corpora BC5CDR 'WNUT-17 train' --by margin errors entropy
                                                            what the default measure was chosen on

Simulated on WNUT-17 and WikiGold: a feature CRF learns from 100 sentences taken at random; then 50 more are labelled in
each round (`--step`), those that `trellis.select` chooses or the next at random, until there are `--tokens` tokens.
F1 is on the test sentences of WNUT-17, and on a fifth of WikiGold, another one for each seed. The default measure was
chosen on neither, but on BC5CDR and on the training sentences of WNUT-17, a third of which is held out. The figure is
the share of the tokens that selection needs to reach the F1 that random sentences have at the end; the curve is the
mean over the seeds.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from _harness import Bar, Row, Section, machine, make_console, write_json
from _plot import Canvas

import trellis
from trellis import corpus
from trellis.text import Sentence

START = 100
POOL = 1500
BAR = 0.6
WORDS = {
    "en": {"title": "F1 by tokens labelled", "axes": "across: tokens labelled, up: F1 in percent"},
    "zh": {"title": "F1 随标注词元数的变化", "axes": "横轴：标注的词元数，纵轴：F1（百分数）", "random": "随机"},
}
Split = tuple[list[Sentence], list[Sentence]]
Curve = list[tuple[int, float]]


def wnut17(data: Path, seed: int) -> Split:
    train = corpus.read(data / "wnut17" / "wnut17train.conll").sentences
    return train, corpus.read(data / "wnut17" / "emerging.test.annotated").sentences


def wikigold(data: Path, seed: int) -> Split:
    sentences = corpus.read(data / "wikigold" / "wikigold.conll.txt").sentences
    kept = [one for one in sentences if not one.tokens[0].startswith("-DOCSTART")]
    random.Random(2).shuffle(kept)
    fifth, number = len(kept) // 5, seed % 5
    first, last = fifth * number, fifth * (number + 1)
    return kept[:first] + kept[last:], kept[first:last]


def bc5cdr(data: Path, seed: int) -> Split:
    train = corpus.read(data / "bc5cdr" / "train.tsv").sentences[:2500]
    return train, corpus.read(data / "bc5cdr" / "devel.tsv").sentences[:1200]


def wnut17_train(data: Path, seed: int) -> Split:
    kept = list(corpus.read(data / "wnut17" / "wnut17train.conll").sentences)
    random.Random(77).shuffle(kept)
    return kept[:-1000], kept[-1000:]


CORPORA: dict[str, Callable[[Path, int], Split]] = {
    "WNUT-17": wnut17,
    "WikiGold": wikigold,
    "BC5CDR": bc5cdr,
    "WNUT-17 train": wnut17_train,
}


def fitted(sentences: list[Sentence]) -> trellis.CRF:
    return trellis.CRF(features="ner", c2=0.1, max_iterations=60).fit(sentences, on_bad_tags="repair")


def curve(split: Split, by: str | None, seed: int, options: argparse.Namespace) -> Curve:
    """Tokens and F1 after each round; without a measure at random."""
    train, test = split
    order = list(range(len(train)))
    random.Random(seed).shuffle(order)
    chosen, rest, found = order[:START], order[START:], Curve()
    while True:
        model = fitted([train[i] for i in chosen])
        count = sum(len(train[i]) for i in chosen)
        found.append((count, model.evaluate(test).micro.f1))
        if count >= options.tokens or not rest:
            return found
        pool = rest[:POOL]
        picked = pool[: options.step]
        if by is not None:
            best = trellis.select(model, [train[i].tokens for i in pool], options.step, by=by)
            picked = [pool[one.index] for one in best]
        chosen, left = chosen + picked, set(picked)
        rest = [i for i in rest if i not in left]


def mean(curves: list[Curve], grid: list[int]) -> list[float]:
    """F1 at the tokens of a grid."""
    return np.mean([np.interp(grid, *zip(*own, strict=True)) for own in curves], axis=0).tolist()


def needed(values: list[float], grid: list[int], target: float) -> float:
    """Tokens at which a curve first reaches a value; the end if it never does."""
    best = np.maximum.accumulate(values)
    return float(np.interp(target, best, grid))


def measured(name: str, options: argparse.Namespace) -> tuple[Section, dict[str, list[float]], list[int]]:
    grid = list(range(options.tokens // 5, options.tokens + 1, options.tokens // 15))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    means = {
        by or "random": mean([curve(CORPORA[name](options.data, s), by, s, options) for s in seeds], grid)
        for by in (None, *options.by)
    }
    target = means["random"][-1]
    rows: list[Row] = [
        {
            "by": by,
            "F1 at half": 100 * own[len(own) // 2],
            "F1 at the end": 100 * own[-1],
            "tokens needed": needed(own, grid, target),
        }
        for by, own in means.items()
    ]
    bars = [
        Bar(f"share of tokens, {row['by']}", row["tokens needed"] / options.tokens, BAR, at_least=False)
        for row in rows[1:]
    ]
    return Section(f"{name}: {options.seeds} seeds, {options.tokens:,} tokens", rows, bars), means, grid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--by", nargs="*", default=["entropy"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=15_000)
    parser.add_argument("--step", type=int, default=50, help="sentences that are labelled in a round")
    parser.add_argument("--corpora", nargs="+", default=["WNUT-17", "WikiGold"], choices=list(CORPORA))
    parser.add_argument("--picture", type=Path, nargs="*", default=[], help="files to draw the curves into")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    console, sections, lines = make_console(), [], {}
    for name in options.corpora:
        section, means, grid = measured(name, options)
        section.show(console)
        sections.append(section)
        lines[name] = (grid, means)
    for path in options.picture:
        path.write_text(picture(lines, WORDS["zh" if "zh" in path.parts else "en"]), encoding="utf-8")
    content = {"machine": machine(()), "sections": [section.to_json() for section in sections]}
    write_json(Path(__file__).parent / "results" / "selection.json", content)


def picture(found: dict[str, tuple[list[int], dict[str, list[float]]]], say: dict[str, str]) -> str:
    """Both curves of each corpus side by side, as SVG."""
    wide, high = 340, 240
    canvas = Canvas(50 + len(found) * (wide + 90), high + 84)
    for number, (name, (grid, means)) in enumerate(found.items()):
        left, top = 50 + number * (wide + 90), 1.1 * max(max(values) for values in means.values())
        x = [left + wide * (tokens - grid[0]) / (grid[-1] - grid[0]) for tokens in grid]
        canvas.text(left + wide / 2, 16, name, "word")
        canvas.line(left, 30, left, 30 + high)
        canvas.line(left, 30 + high, left + wide, 30 + high)
        for share in (0.0, 0.5, 1.0):
            level = top * share / 1.1
            canvas.text(left - 18, 30 + high * (1 - level / top), f"{100 * level:.0f}", "small dim")
        for tokens, place in ((grid[0], x[0]), (grid[-1], x[-1])):
            canvas.text(place, 46 + high, f"{tokens:,}", "small dim")
        for by, values in means.items():
            points = [(a, 30 + high * (1 - b / top)) for a, b in zip(x, values, strict=True)]
            for a, b in pairwise(points):
                canvas.line(*a, *b, "" if by == "random" else "best")
            canvas.text(points[-1][0] + 6, points[-1][1], say.get(by, by), "left small")
    canvas.text(25 + len(found) * (wide + 90) / 2, high + 70, say["axes"], "small dim")
    return canvas.to_svg(say["title"])


if __name__ == "__main__":
    main()
