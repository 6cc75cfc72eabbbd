"""Tagging with a feature CRF: English text never seen, one tagger in two threads, and ready dicts beside CRFsuite.

    python benchmarks/tagging.py ../shared/data/ud_english_ewt

Text never seen is tagged by a model that was just opened, on one core, by CPU time. Two threads call one tagger as
those of a server do, one sentence or some hundreds at a time; beside them, as a control, two processes with a tagger
each, since on a busy machine even they are not twice as fast as one. Dicts are those of sklearn-crfsuite's tutorial,
with chunks made from the parts of speech, by the clock and by the CPU time of both threads. Without sklearn-crfsuite
that part is left out.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _harness import Bar, Row, Section, machine, make_console, write_json
from feature_crf import read_pos

from trellis import chain
from trellis.models import CRF

RESULTS = Path(__file__).parent / "results" / "tagging.json"
ROUNDS, SECONDS = 15, 3.0
CHUNKS = {"NOUN": "NP", "PROPN": "NP", "DET": "NP", "ADJ": "NP", "PRON": "NP", "NUM": "NP"}
CHUNKS |= {"VERB": "VP", "AUX": "VP", "ADV": "ADVP", "ADP": "PP"}
NEAR = ("word.lower()", "word.istitle()", "word.isupper()", "postag", "postag[:2]")
KEYS = {step: tuple(f"{step:+}:{name}" for name in NEAR) for step in (-1, 1)}
Words = list[list[str]]


def cpu(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def best(run: Callable[[Any], object], models: list[Any]) -> tuple[float, float]:
    """Seconds by the clock and of CPU time, the best of one run with each model."""
    times = []
    for model in models:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        run(model)
        times.append((time.perf_counter() - begin, time.process_time() - begin_cpu))
    clock, own = zip(*times, strict=True)
    return min(clock), min(own)


def unseen(path: Path, X: Words) -> Section:
    """Tokens to labels, the first time after opening and again."""
    chain.set_num_threads(1)
    count, first, later, opened = sum(map(len, X)), [], [], []
    for _ in range(ROUNDS):
        begin = time.process_time()
        model = CRF.load(path)
        model.predict([["a"]])
        opened.append(time.process_time() - begin)
        first.append(cpu(lambda model=model: model.predict(X)))
        later.append(cpu(lambda model=model: model.predict(X)))
    rows: list[Row] = [
        {"text": name, "tokens / s": count / min(times)} for name, times in (("new", first), ("again", later))
    ]
    bars = [Bar("million tokens per second, never seen", count / min(first) / 1e6, 2.5)]
    note = f"To open the model and prepare it takes {1000 * min(opened):.0f} ms, once per process."
    return Section(f"English parts of speech, {count} tokens, one core, CPU time", rows, bars, note)


def calls_in(seconds: float, parts: list[Words], model: Any) -> int:
    """Tokens that one thread tags in this time."""
    tokens, end = 0, time.perf_counter() + seconds
    while True:
        for part in parts:
            model.predict(part)
            tokens += sum(map(len, part))
            if time.perf_counter() > end:
                return tokens


def by_threads(count: int, parts: list[Words], model: Any) -> float:
    """Tokens per second of `count` threads together."""
    tokens: list[int] = []
    threads = [threading.Thread(target=lambda: tokens.append(calls_in(SECONDS, parts, model))) for _ in range(count)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(tokens) / (time.perf_counter() - begin)


def by_processes(count: int, size: int, path: Path, folder: Path) -> float:
    """The same by processes, each with a tagger of its own."""
    command = [sys.executable, __file__, str(folder), "--worker", str(path), str(size)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return sum(float(json.loads(process.communicate()[0])) for process in started)


def worker(folder: Path, path: Path, size: int) -> None:
    chain.set_num_threads(1)
    model = CRF.load(path)
    parts = in_parts(read_pos(folder, "test")[0], size)
    calls_in(0.5, parts, model)
    print(json.dumps(by_threads(1, parts, model)))


def in_parts(X: Words, size: int) -> list[Words]:
    return [X[i : i + size] for i in range(0, len(X), size)]


def threads(path: Path, X: Words, folder: Path) -> Section:
    chain.set_num_threads(1)
    model = CRF.load(path)
    model.predict(X)
    rows, ratios = list[Row](), dict[int, float]()
    for size in (1, 256):
        parts = in_parts(X, size)
        one, two = ([by_threads(n, parts, model) for _ in range(2)] for n in (1, 2))
        alone, pair = (by_processes(n, size, path, folder) for n in (1, 2))
        ratios[size] = max(two) / max(one)
        rows.append(
            {
                "sentences per call": size,
                "tokens / s, one thread": max(one),
                "two threads": max(two),
                "times": ratios[size],
                "two processes, times one": pair / alone,
            }
        )
    bars = [Bar("two threads, times one, 256 sentences per call", ratios[256], 1.8)]
    return Section("One tagger called by two threads, text known", rows, bars)


def features(words: list[str], tags: list[str], i: int) -> dict[str, Any]:
    """As in the tutorial of sklearn-crfsuite, where keys are constants: the same objects for every token."""
    word, tag = words[i], tags[i]
    found = {"bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:], "word[-2:]": word[-2:]}
    found |= {"word.isupper()": word.isupper(), "word.istitle()": word.istitle(), "word.isdigit()": word.isdigit()}
    found |= {"postag": tag, "postag[:2]": tag[:2]}
    for step in (-1, 1):
        if not 0 <= i + step < len(words):
            found["BOS" if step < 0 else "EOS"] = True
            continue
        near, its = words[i + step], tags[i + step]
        values = (near.lower(), near.istitle(), near.isupper(), its, its[:2])
        found |= dict(zip(KEYS[step], values, strict=True))
    return found


def chunks(tags: list[str]) -> list[str]:
    """Runs of parts of speech of one kind, in BIO."""
    kinds = [CHUNKS.get(tag) for tag in tags]
    before = [None, *kinds[:-1]]
    return ["O" if k is None else f"I-{k}" if k == b else f"B-{k}" for k, b in zip(kinds, before, strict=True)]


def ready(folder: Path) -> Section:
    """Both drop-ins on the same dicts."""
    import sklearn_crfsuite

    from trellis.compat import sklearn_crfsuite as own

    chain.set_num_threads(2)
    data = {}
    for part in ("train", "test"):
        X, y = read_pos(folder, part)
        dicts = [[features(words, tags, i) for i in range(len(words))] for words, tags in zip(X, y, strict=True)]
        data[part] = dicts[:4000], [chunks(tags) for tags in y[:4000]]
    fitting, tagging, answers = {}, {}, {}
    test = data["test"][0]
    for name, package in (("sklearn-crfsuite", sklearn_crfsuite), ("Trellis", own)):
        settings = {"algorithm": "lbfgs", "c1": 0.1, "c2": 0.1, "max_iterations": 30, "all_possible_transitions": True}
        made = [package.CRF(**settings) for _ in range(3)]
        fitting[name] = best(lambda model: model.fit(*data["train"]), made)
        tagging[name] = best(lambda model: model.predict(test), made[:1] * 15)
        answers[name] = [list(tags) for tags in made[0].predict(test)]
    count, pairs = sum(map(len, test)), zip(*answers.values(), strict=True)
    same = sum(a == b for one, two in pairs for a, b in zip(one, two, strict=True)) / count
    rows: list[Row] = [
        {
            "system": name,
            "fit, s": fitting[name][0],
            "fit, CPU s": fitting[name][1],
            "tokens tagged / s": count / tagging[name][0],
            "tokens tagged / CPU s": count / tagging[name][1],
        }
        for name in fitting
    ]
    bars = [
        Bar(f"times sklearn-crfsuite, {what}, {how}", took["sklearn-crfsuite"][i] / took["Trellis"][i], goal)
        for what, took, goal in (("fit", fitting, 12), ("tagging", tagging, 15))
        for i, how in enumerate(("by the clock", "CPU time of both threads"))
    ]
    per_token = sum(len(token) for sentence in test for token in sentence) / count
    note = f"{per_token:.1f} features per token; {100 * same:.2f} % of the labels are the same."
    return Section("Ready dicts through the drop-in, two threads", rows, bars, note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("english", type=Path, help="folder of UD English-EWT")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help="a model that was trained before on the training part, features pos")
    options = parser.parse_args()
    if options.worker:
        worker(options.english, Path(options.worker[0]), int(options.worker[1]))
        return
    with tempfile.TemporaryDirectory() as place:
        path = options.model or Path(place) / "model"
        if options.model is None:
            chain.set_num_threads(2)
            CRF(features="pos").fit(*read_pos(options.english, "train")).save(path)
        X = read_pos(options.english, "test")[0]
        sections = [unseen(path, X), threads(path, X, options.english)]
    if find_spec("sklearn_crfsuite") is not None:
        sections.append(ready(options.english))
    for section in sections:
        section.show(make_console())
    packages = ("trellis-crf", "numpy", "sklearn-crfsuite")
    write_json(RESULTS, {"machine": machine(packages), "sections": [section.to_json() for section in sections]})


if __name__ == "__main__":
    main()
