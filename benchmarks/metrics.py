"""Entity F1 against seqeval, on the same lists of lists of strings, in one run.

    python benchmarks/metrics.py [--tokens 200000] [--repeats 4]

Prints a table and writes benchmarks/results/metrics.json. Times are processor time, the best of the repeats (five times
as many for the fast functions); ``linear`` is the time per token at the full size divided by the time per token at a
tenth of it, which is 1 if time is linear.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import seqeval.metrics
import seqeval.scheme

import trellis.compat.seqeval.metrics as compat
import trellis.compat.seqeval.scheme as compat_scheme
from trellis.metrics import entity_scores
from trellis.tags import Scheme, Span, tags_from_spans

Tags = list[list[str]]
Score = Callable[[Tags, Tags], float]
Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results" / "metrics.json"
SENTENCE = 20
TYPES = ("PER", "LOC", "ORG", "MISC")


def make_corpus(tokens: int, scheme: Scheme, *, shared: bool, seed: int = 0) -> tuple[Tags, Tags]:
    """Gold tags with about the density of newswire, and predictions that are right nine times in ten.

    Tags that come from ids share one string per label; tags that come from a file may each be a separate string.
    """
    rng = random.Random(seed)
    gold, predicted = [], []
    for _ in range(tokens // SENTENCE):
        spans, place = [], rng.randrange(6)
        while place < SENTENCE - 3:
            spans.append(Span(place, place + rng.choice((1, 1, 1, 2, 2, 3)), rng.choice(TYPES)))
            place = spans[-1].end + rng.randrange(3, 14)
        kept = [span for span in spans if rng.random() < 0.97]
        guess = [span if rng.random() < 0.9 else span._replace(label=rng.choice(TYPES)) for span in kept]
        gold.append(tags_from_spans(spans, SENTENCE, scheme))
        predicted.append(tags_from_spans(guess, SENTENCE, scheme))
    make: Callable[[str], str] = sys.intern if shared else lambda tag: "".join(list(tag))
    sides = [[[make(tag) for tag in tags] for tags in side] for side in (gold, predicted)]
    return sides[0], sides[1]


def best_time(function: Score, corpus: tuple[Tags, Tags], repeats: int) -> tuple[float, float]:
    """Processor seconds of the fastest run, which other work on the machine disturbs least, and the result."""
    best, result = float("inf"), 0.0
    for _ in range(repeats):
        start = time.process_time()
        result = function(*corpus)
        best = min(best, time.process_time() - start)
    return best, result


def cases() -> list[tuple[str, Scheme, bool, list[Score]]]:
    """Name, scheme, shared strings or not, and F1 by seqeval, by the compatible module and by trellis.metrics."""
    default = [
        seqeval.metrics.f1_score,
        compat.f1_score,
        lambda gold, guess: entity_scores(gold, guess, scheme=Scheme.IOB2).micro.f1,
    ]
    rows = [("default", Scheme.IOB2, True, default), ("default, own strings", Scheme.IOB2, False, default)]
    for scheme, name in ((Scheme.IOB2, "IOB2"), (Scheme.BIOES, "IOBES")):
        theirs, ours = getattr(seqeval.scheme, name), getattr(compat_scheme, name)
        strict = [
            partial(seqeval.metrics.f1_score, mode="strict", scheme=theirs),
            partial(compat.f1_score, mode="strict", scheme=ours),
            lambda gold, guess, s=scheme: entity_scores(gold, guess, scheme=s, strict=True).micro.f1,
        ]
        rows.append((f"strict {name}", scheme, True, strict))
    return rows


def measure(name: str, scheme: Scheme, shared: bool, functions: list[Score], options: argparse.Namespace) -> Row:
    """One row of the table."""
    corpus = make_corpus(options.tokens, scheme, shared=shared)
    tenth = make_corpus(options.tokens // 10, scheme, shared=shared)
    repeats = [options.repeats, 5 * options.repeats, 5 * options.repeats]
    runs = [best_time(function, corpus, count) for function, count in zip(functions, repeats, strict=True)]
    times, results = zip(*runs, strict=True)
    assert len(set(results)) == 1, f"{name}: seqeval, compat and metrics differ: {results}"
    small, _ = best_time(functions[1], tenth, repeats[1])
    return {
        "mode": name,
        "f1": float(results[0]),
        "seqeval_ms": 1e3 * times[0],
        "compat_ms": 1e3 * times[1],
        "metrics_ms": 1e3 * times[2],
        "compat_speedup": times[0] / times[1],
        "metrics_speedup": times[0] / times[2],
        "linear": times[1] / (10 * small),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=4)
    options = parser.parse_args()
    print(f"{options.tokens} tokens, best of {options.repeats}, times in ms")
    print(f"{'mode':22}{'seqeval':>9}{'compat':>9}{'metrics':>9}{'compat x':>10}{'metrics x':>10}{'linear':>8}")
    rows = []
    for case in cases():
        row = measure(*case, options)
        rows.append(row)
        print(
            f"{row['mode']:22}{row['seqeval_ms']:9.1f}{row['compat_ms']:9.2f}{row['metrics_ms']:9.2f}"
            f"{row['compat_speedup']:10.1f}{row['metrics_speedup']:10.1f}{row['linear']:8.2f}"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    RESULTS.write_text(json.dumps({"tokens": options.tokens, **machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
