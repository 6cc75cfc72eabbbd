"""What probabilities and spans cost: `annotate` and `tagger(text)` against bare `predict`, on one core.

    python benchmarks/annotate.py DATA

DATA is a folder with ud_chinese_gsd, ud_english_ewt and wnut17. Each text is tagged for the first time after the model
was opened, as on a server, and then again, when the model remembers its features. Times are CPU seconds.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _harness import Bar, Row, Section, machine, make_console, write_json

import trellis
from trellis import chain, corpus


def gsd(folder: Path) -> tuple[Any, list[Any]]:
    """Chinese words."""
    train, test = (
        [
            corpus.sentence_from_words(sentence.tokens)
            for sentence in corpus.read(
                folder / f"ud_chinese_gsd/udc-simplified-v1.4-{part}.conll", format="conllu"
            ).sentences
        ]
        for part in ("train", "test")
    )
    return trellis.CRF(features="seg", max_iterations=60).fit(train), test


def ewt(folder: Path) -> tuple[Any, list[Any]]:
    """English parts of speech."""
    train, test = (
        corpus.read(folder / f"ud_english_ewt/en_ewt-ud-{part}.conllu", format="conllu").sentences
        for part in ("train", "test")
    )
    return trellis.CRF(features="pos", max_iterations=30).fit(train), list(test)


def wnut(folder: Path) -> tuple[Any, list[Any]]:
    """English names."""
    train, test = (
        corpus.read(folder / "wnut17" / name, format="conll").sentences
        for name in ("wnut17train.conll", "emerging.test.annotated")
    )
    return trellis.CRF(features="ner", max_iterations=60).fit(train), list(test)


def timed(path: Path, ask: Callable[[Any], Any], rounds: int) -> tuple[float, float]:
    """Seconds of the first call after opening the model, and of the fastest later one; best of several openings."""
    first, later = [], []
    for _ in range(rounds):
        tagger = trellis.load(path)
        for times in (first, later, later, later):
            begin = time.process_time()
            ask(tagger)
            times.append(time.process_time() - begin)
    return min(first), min(later)


def measure(name: str, tagger: Any, test: list[Any], path: Path) -> list[Row]:
    tagger.save(path)
    tokens = [list(sentence.tokens) for sentence in test]
    separator = tagger.tokenizer_.separator
    texts = [str(sentence.with_text(separator).text) for sentence in test]
    asked: dict[str, Callable[[Any], Any]] = {
        "predict(tokens)": lambda tagger: tagger.predict(tokens),
        "annotate(tokens)": lambda tagger: tagger.annotate(tokens),
        "annotate(tokens), spans read": lambda tagger: [one.spans for one in tagger.annotate(tokens)],
        "tagger(texts)": lambda tagger: tagger(texts),
        "tagger(texts), spans read": lambda tagger: [one.spans for one in tagger(texts)],
    }
    count, rows = sum(map(len, tokens)), list[Row]()
    base = (1.0, 1.0)
    for what, ask in asked.items():
        times = timed(path, ask, 5)
        base = times if what.startswith("predict") else base
        rows.append(
            {
                "corpus": name,
                "call": what,
                "tokens / s, first time": count / times[0],
                "times predict": round(times[0] / base[0], 2),
                "tokens / s, again": count / times[1],
                "times predict, again": round(times[1] / base[1], 2),
            }
        )
    return rows


def main() -> None:
    folder = Path(sys.argv[1])
    chain.set_num_threads(1)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        for name, make in (("GSD", gsd), ("EWT", ewt), ("WNUT-17", wnut)):
            rows += measure(name, *make(folder), Path(place) / "model.safetensors")
    bars = [
        Bar(f"{row['corpus']}, {row['call']}, times predict", row["times predict"], 1.5, at_least=False)
        for row in rows
        if row["call"] in ("annotate(tokens)", "tagger(texts)")
    ]
    section = Section("Probabilities and spans against bare tags, feature CRF, one core", rows, bars)
    section.show(make_console())
    results = {"machine": machine(("trellis", "numpy")), "sections": [section.to_json()]}
    write_json(Path("benchmarks/results/annotate.json"), results)


if __name__ == "__main__":
    main()
