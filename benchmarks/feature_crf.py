"""The feature CRF against python-crfsuite (training, tagging) and jieba (Chinese segmentation), in one run.

    python benchmarks/feature_crf.py ../shared/data/ud_english_ewt ../shared/data/ud_chinese_gsd

Every training runs in its own process, so that times and peak memory do not mix. Features are written once, as a
template; the Python function that users of CRFsuite would write is checked to give the same strings.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from _harness import Bar, Row, Section, best_of, machine, write_json
from rich.console import Console

TEMPLATE = """\
U00:%x[0,0]
U01:%lower[0,0]
U02:%shape[0,0]
U03:%prefix1[0,0]
U04:%prefix2[0,0]
U05:%prefix3[0,0]
U06:%suffix1[0,0]
U07:%suffix2[0,0]
U08:%suffix3[0,0]
U09:%suffix4[0,0]
U10:%lower[-2,0]
U11:%lower[-1,0]
U12:%lower[1,0]
U13:%lower[2,0]
U14:%suffix3[-1,0]
U15:%suffix3[1,0]
U16:%shape[-1,0]
U17:%shape[1,0]
U18:%lower[-1,0]/%lower[0,0]
U19:%lower[0,0]/%lower[1,0]
B
"""
_BEFORE, _AFTER = {-1: "_B-1", -2: "_B-2"}, {1: "_B+1", 2: "_B+2"}


def shape(word: str) -> str:
    return "".join(
        "X" if c.isupper() or c.istitle() else "x" if c.isalpha() else "d" if c.isdecimal() else c for c in word
    )


def lower(word: str) -> str:
    return "".join(c.lower() for c in word)


def python_features(words: list[str]) -> list[list[str]]:
    """The same features as TEMPLATE, as users of python-crfsuite write them."""
    lowered, shapes = [lower(word) for word in words], [shape(word) for word in words]
    count = len(words)

    def at(values: list[str], i: int) -> str:
        return _BEFORE[i] if i < 0 else values[i] if i < count else _AFTER[i - count + 1]

    def ends(i: int) -> str:
        return _BEFORE[i] if i < 0 else words[i][-3:] if i < count else _AFTER[i - count + 1]

    return [
        [
            f"U00:{word}",
            f"U01:{lowered[i]}",
            f"U02:{shapes[i]}",
            f"U03:{word[:1]}",
            f"U04:{word[:2]}",
            f"U05:{word[:3]}",
            f"U06:{word[-1:]}",
            f"U07:{word[-2:]}",
            f"U08:{word[-3:]}",
            f"U09:{word[-4:]}",
            f"U10:{at(lowered, i - 2)}",
            f"U11:{at(lowered, i - 1)}",
            f"U12:{at(lowered, i + 1)}",
            f"U13:{at(lowered, i + 2)}",
            f"U14:{ends(i - 1)}",
            f"U15:{ends(i + 1)}",
            f"U16:{at(shapes, i - 1)}",
            f"U17:{at(shapes, i + 1)}",
            f"U18:{at(lowered, i - 1)}/{lowered[i]}",
            f"U19:{lowered[i]}/{at(lowered, i + 1)}",
        ]
        for i, word in enumerate(words)
    ]


def read_pos(folder: Path, part: str) -> tuple[list[list[str]], list[list[str]]]:
    """Words and UPOS tags; a separate reader, so that both sides begin with the same plain lists."""
    (path,) = folder.glob(f"*{part}*.conll*")
    X: list[list[str]] = [[]]
    y: list[list[str]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = line.split("\t")
        if not line.strip():
            X.append([])
            y.append([])
        elif cells[0].isdigit():
            X[-1].append(cells[1])
            y[-1].append(cells[3])
    return [s for s in X if s], [s for s in y if s]


def accuracy(gold: list[list[str]], predicted: list[list[str]]) -> float:
    pairs = [(a, b) for g, p in zip(gold, predicted, strict=True) for a, b in zip(g, p, strict=True)]
    return 100 * sum(a == b for a, b in pairs) / len(pairs)


def rss() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def train_trellis(folder: Path, out: Path, threads: int) -> dict[str, Any]:
    from trellis import chain
    from trellis.models import CRF

    chain.set_num_threads(threads)
    template = out / "template"
    template.write_text(TEMPLATE, encoding="utf-8")
    X, y = read_pos(folder, "train")
    before, begin = rss(), time.perf_counter()
    model = CRF(features=str(template), c2=1.0).fit(X, y)
    seconds, memory = time.perf_counter() - begin, rss()
    model.save(out / "model.trellis")
    history = model.history_
    X, y = read_pos(folder, "dev")
    result = {"loss": history.loss, "iterations": len(history.steps), "loop": history.steps[-1].seconds}
    return result | {"seconds": seconds, "memory": memory, "base": before, "accuracy": accuracy(y, model.predict(X))}


def train_crfsuite(folder: Path, out: Path) -> dict[str, Any]:
    import pycrfsuite

    X, y = read_pos(folder, "train")
    before, begin = rss(), time.perf_counter()
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.select("lbfgs")
    trainer.set_params({"c2": 1.0})
    for words, tags in zip(X, y, strict=True):
        trainer.append(python_features(words), tags)
    appended = time.perf_counter()
    trainer.train(str(out / "model.crfsuite"))
    end, memory = time.perf_counter(), rss()
    tagger = pycrfsuite.Tagger()
    tagger.open(str(out / "model.crfsuite"))
    X, y = read_pos(folder, "dev")
    log = trainer.logparser
    result = {"loss": log.last_iteration["loss"], "iterations": log.last_iteration["num"], "loop": end - appended}
    predicted = [tagger.tag(python_features(words)) for words in X]
    return result | {"seconds": end - begin, "memory": memory, "base": before, "accuracy": accuracy(y, predicted)}


def in_process(*arguments: str, threads: int) -> dict[str, Any]:
    """Run this file again as a worker; its last line is the result."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TRELLIS_NUM_THREADS")
    environment = os.environ | {name: str(threads) for name in names}
    command = [sys.executable, __file__, "--worker", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def check_same_features(folder: Path) -> None:
    from trellis.features import TemplateExtractor, Templates

    extractor = TemplateExtractor(Templates.parse(TEMPLATE))
    for words in read_pos(folder, "dev")[0]:
        assert extractor.strings(words) == python_features(words), words


def training(folder: Path, out: Path) -> Section:
    check_same_features(folder)
    runs = {"CRFsuite": in_process("crfsuite", str(folder), str(out), threads=1)}
    for threads in (1, 2):
        runs[f"Trellis, {threads} thread{'s' * (threads > 1)}"] = in_process(
            "trellis", str(folder), str(out), str(threads), threads=threads
        )
    rows: list[Row] = [
        {
            "system": name,
            "tokens to model, s": run["seconds"],
            "iterations": run["iterations"],
            "s / iteration": run["loop"] / run["iterations"],
            "final loss": round(run["loss"], 3),
            "dev accuracy": round(run["accuracy"], 3),
            "peak memory, MB": run["memory"],
            "of this before training": run["base"],
        }
        for name, run in runs.items()
    ]
    rival, one, two = runs.values()
    bars = [
        Bar("final loss, relative difference", abs(one["loss"] - rival["loss"]) / rival["loss"], 1e-4, at_least=False),
        Bar("dev accuracy, points apart", abs(one["accuracy"] - rival["accuracy"]), 0.1, at_least=False),
        Bar("times faster, one thread", rival["seconds"] / one["seconds"], 4),
        Bar("times faster, two threads", rival["seconds"] / two["seconds"], 8),
        Bar("peak memory, share of CRFsuite's", two["memory"] / rival["memory"], 1, at_least=False),
    ]
    return Section("Training on EWT UPOS: lbfgs, c2 = 1, the same stopping test", rows, bars)


def tagging(folder: Path, out: Path) -> Section:
    import pycrfsuite

    from trellis import chain
    from trellis.models import CRF

    chain.set_num_threads(1)
    begin = time.perf_counter()
    model = CRF.load(out / "model.trellis")
    opened = time.perf_counter() - begin
    before = read_pos(folder, "train")[0]
    saved = out / "model.trellis"
    tagger = pycrfsuite.Tagger()
    tagger.open(str(out / "model.crfsuite"))
    X = read_pos(folder, "test")[0]
    tokens = sum(map(len, X))
    ready = [python_features(words) for words in X]
    times = {
        "CRFsuite, features in Python": best_of(lambda: [tagger.tag(python_features(s)) for s in X], at_least=3),
        "CRFsuite, ready features": best_of(lambda: [tagger.tag(s) for s in ready], at_least=3),
        "Trellis, from tokens": best_of(lambda: model.predict(X), at_least=3),
        "Trellis, from tokens, first time": min(first_time(saved, X, before) for _ in range(7)),
        "Trellis, from tokens, just opened": min(first_time(saved, X, []) for _ in range(7)),
        "Trellis, one sentence per call": best_of(lambda: [model.predict([s]) for s in X], at_least=3),
    }
    python, given, trellis, *_ = times.values()
    chain.set_num_threads(2)
    times["Trellis, from tokens, two threads"] = best_of(lambda: model.predict(X), at_least=3)
    rows: list[Row] = [{"system": name, "tokens / s": tokens / taken} for name, taken in times.items()]
    bars = [
        Bar("times python-crfsuite with features in Python", python / trellis, 15),
        Bar("times python-crfsuite with ready features", given / trellis, 3),
    ]
    note = (
        f"The model opens in {1000 * opened:.1f} ms, checksums verified. It remembers words. Like CRFsuite, it had\n"
        "tagged the same text before; before 'first time' only the training part, before 'just opened' nothing."
    )
    return Section(f"Tagging {tokens} tokens of the test part, one core", rows, bars, note)


def first_time(saved: Path, X: list[list[str]], before: list[list[str]]) -> float:
    """Seconds that a fresh model takes for X, after it has tagged `before`."""
    from trellis.models import CRF

    model = CRF.load(saved)
    model.predict(before)
    begin = time.perf_counter()
    model.predict(X)
    return time.perf_counter() - begin


def segmentation(folder: Path, out: Path) -> Section:
    import jieba

    from trellis import chain, corpus
    from trellis.metrics import segmentation_scores
    from trellis.models import CRF

    chain.set_num_threads(2)
    train, test = (
        [corpus.sentence_from_words(words) for words in read_pos(folder, part)[0]] for part in ("train", "test")
    )
    begin = time.perf_counter()
    model = CRF(features="seg", c2=0.3).fit(train)
    trained = time.perf_counter() - begin
    model.save(out / "segment.trellis")
    chain.set_num_threads(1)
    gold = [corpus.words_from_sentence(sentence) for sentence in test]
    tokens, texts = [list(sentence.tokens) for sentence in test], [str(sentence.text) for sentence in test]
    jieba.setLogLevel(60)
    jieba.initialize()
    characters = sum(map(len, texts))
    times = {
        "Trellis": best_of(lambda: model.cut(texts)),
        "jieba": best_of(lambda: [jieba.lcut(text) for text in texts], at_least=3),
    }
    found = {
        "Trellis": model.cut(texts),
        "jieba": [jieba.lcut(text) for text in texts],
    }
    f1 = {name: segmentation_scores(gold, words).words.f1 for name, words in found.items()}
    rows: list[Row] = [
        {"system": name, "F1": round(100 * f1[name], 2), "characters / s": characters / times[name]} for name in times
    ]
    before = [list(sentence.tokens) for sentence in train]
    for what, seen in (("first time", before), ("just opened", [])):
        taken = min(first_time(out / "segment.trellis", tokens, seen) for _ in range(7))
        rows.append({"system": f"Trellis, {what}", "F1": rows[0]["F1"], "characters / s": characters / taken})
    bars = [
        Bar("times jieba's speed", times["jieba"] / times["Trellis"], 3),
        Bar("F1 points above jieba", 100 * (f1["Trellis"] - f1["jieba"]), 5),
    ]
    note = (
        f"Trained in {trained:.1f} s. Trellis remembers characters and pairs of them. Like jieba, it had segmented\n"
        "the same text before; before 'first time' only the training part, before 'just opened' nothing."
    )
    return Section(f"Chinese segmentation, GSD test, {characters} characters, one core", rows, bars, note)


def scaling(folder: Path) -> Section:
    from trellis import chain
    from trellis.models import CRF

    X, y = read_pos(folder, "train")
    rows: list[Row] = []
    for copies in (1, 2, 5, 10):
        row: Row = {"copies": copies, "tokens": copies * sum(map(len, X))}
        for threads in (1, 2):
            chain.set_num_threads(threads)
            steps: list[float] = []
            model = CRF(features="pos", max_iterations=8, delta=0.0)
            model.fit(X * copies, y * copies, progress=lambda step, steps=steps: steps.append(step.seconds))
            taken = min(b - a for a, b in pairwise(steps[1:]))
            row[f"ms / iteration, {threads} thread{'s' * (threads > 1)}"] = 1000 * taken
        rows.append(row)
    one, two = ([row[key] for row in rows] for key in list(rows[0])[2:])
    bars = [
        Bar("time of 10 copies over 10 times that of one, one thread", one[-1] / (10 * one[0]), 1.15, at_least=False),
        Bar("two threads, times one", one[-1] / two[-1], 1.7),
    ]
    return Section("Scaling: the corpus repeated", rows, bars)


def worker(kind: str, folder: str, out: str, threads: str = "1") -> None:
    if kind == "crfsuite":
        result = train_crfsuite(Path(folder), Path(out))
    else:
        result = train_trellis(Path(folder), Path(out), int(threads))
    print(json.dumps(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("english", type=Path, help="folder of UD English-EWT")
    parser.add_argument("chinese", type=Path, nargs="?", help="folder of UD Chinese-GSD")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/feature_crf.json"))
    parser.add_argument("--only", choices=["training", "segmentation", "scaling"], help="one part instead of all")
    options = parser.parse_args()
    console, sections = Console(), []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        if options.only in (None, "training"):
            sections += [training(options.english, out), tagging(options.english, out)]
        if options.chinese is not None and options.only in (None, "segmentation"):
            sections.append(segmentation(options.chinese, out))
        if options.only in (None, "scaling"):
            sections.append(scaling(options.english))
    for section in sections:
        section.show(console)
    packages = ("trellis", "numpy", "python-crfsuite", "jieba")
    write_json(options.json, {"machine": machine(packages), "sections": [section.to_json() for section in sections]})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
    else:
        main()
