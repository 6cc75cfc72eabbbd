"""Lexicons: how fast a million entries load and match, and what words and names that are known are worth.

    python benchmarks/lexicon.py DATA

DATA contains ud_chinese_gsd and wnut17. A feature CRF segments GSD with the word list of its test part as a lexicon
that prefers; the share of matching in the time of tagging is measured with a million entries. A feature CRF learns
WNUT-17 with the names of its training part as features. The automatons of daachorse, which is used, and of
ahocorasick-rs, if it is installed, are built and run on the same text. Writes benchmarks/results/lexicon.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Bar, Row, Section, best_of, machine, make_console, write_json

import trellis
from trellis import Lexicon, corpus
from trellis.corpus import sentence_from_words, words_from_sentence
from trellis.metrics import segmentation_scores
from trellis.models.data import headline
from trellis.tags import validate_tags

RESULTS = Path(__file__).parent / "results" / "lexicon.json"
ENTRIES = 1_000_000
BONUSES = (0.5, 1.0, 2.0, 3.0)


def gsd(folder: Path, part: str) -> list[list[str]]:
    path = folder / "ud_chinese_gsd" / f"udc-simplified-v1.4-{part}.conll"
    return [list(sentence.tokens) for sentence in corpus.read(path, format="conllu")]


def many_words(real: list[str]) -> list[str]:
    """The words of a corpus, and a million in all with words of its characters."""
    random = np.random.default_rng(0)
    characters = np.array(list("".join(real)))
    found = dict.fromkeys(real)
    while len(found) < ENTRIES:
        rows = random.choice(characters, size=(ENTRIES // 4, 4))
        sizes = random.integers(2, 5, size=len(rows))
        found |= dict.fromkeys("".join(row[:size]) for row, size in zip(rows, sizes, strict=True))
    return list(found)[:ENTRIES]


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of processor time, which a busy machine does not change much, and the result."""
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def least(function: Callable[[], Any], times: int = 5) -> float:
    """The least processor time of several calls."""
    function()
    return min(timed(function)[0] for _ in range(times))


def loading(words: list[str], folder: Path) -> tuple[Section, Lexicon]:
    path = folder / "words.txt"
    path.write_text("\n".join(words), encoding="utf-8")
    read, lexicon = timed(lambda: Lexicon.read(path))
    build, _ = timed(lambda: lexicon.matcher)
    save, _ = timed(lambda: lexicon.save(folder / "words.safetensors"))
    load, again = timed(lambda: Lexicon.load(folder / "words.safetensors"))
    assert len(again) == len(lexicon)
    row = {"entries": len(lexicon), "read s": read, "automaton s": build, "save s": save, "load s": load}
    bars = [Bar("seconds to read a million entries and build the automaton", read + build, 15.0, at_least=False)]
    return Section("A million entries, seconds of processor time", [row], bars), lexicon


def automatons(words: list[str], text: str) -> Section:
    import daachorse

    makers: dict[str, Callable[[], Callable[[], Any]]] = {
        "daachorse": lambda: _asked(daachorse.CharwiseDoubleArrayAhoCorasick(words).find_overlapping, text),
    }
    try:
        import ahocorasick_rs
    except ImportError:
        pass
    else:
        makers["ahocorasick-rs"] = lambda: _asked(
            ahocorasick_rs.AhoCorasick(words).find_matches_as_indexes, text, overlapping=True
        )
    rows = []
    for name, make in makers.items():
        build, ask = timed(make)
        rows.append({"library": name, "build s": build, "µs per character": 1e6 * least(ask) / len(text)})
    return Section("Automatons of a million words", rows)


def _asked(find: Callable[..., Any], text: str, **options: Any) -> Callable[[], Any]:
    return lambda: find(text, **options)


def matching(models: dict[str, trellis.models.Tagger[Any]], lexicons: list[Lexicon], test: list[list[str]]) -> Section:
    texts = ["".join(words) for words in test]
    bare = [list(sentence_from_words(words).tokens) for words in test]
    per = 1e6 / sum(map(len, bare))
    rows: list[Row] = []
    for name, model in models.items():
        for lexicon in lexicons:
            row: Row = {"tagger": name, "entries": len(lexicon)}
            row["tags"] = per * least(lambda model=model: model.predict(bare))
            row["raw text"] = per * least(lambda model=model: model.annotate(texts))
            row["matching"] = per * least(lambda lexicon=lexicon: lexicon.matches(bare))
            row["tags with lexicon"] = per * least(lambda m=model, x=lexicon: m.predict(bare, lexicon=x))
            row["% of tags"], row["% of raw text"] = (100 * row["matching"] / row[key] for key in ("tags", "raw text"))
            rows.append(row)
    bars = [
        Bar(f"per cent of tags that matching takes, {r['tagger']}", r["% of tags"], 10.0, at_least=False) for r in rows
    ]
    return Section("Matching and tagging, µs of processor time per character", rows, bars)


def segmentation(model: trellis.CRF, test: list[list[str]], known: set[str]) -> Section:
    sentences = [sentence_from_words(words) for words in test]
    words = sorted({word for sentence in test for word in sentence})
    rows: list[Row] = []
    illegal = 0
    for bonus in (None, *BONUSES, "must"):
        lexicon = None if bonus is None else Lexicon(words, strength=bonus)
        tagged = model.tag(sentences, lexicon=lexicon)
        illegal += sum(bool(validate_tags(one.tags or (), model.tagset_.scheme)) for one in tagged)
        found = [words_from_sentence(one, scheme=model.tagset_.scheme) for one in tagged]
        scores = segmentation_scores(test, found, vocabulary=known)
        name = "no lexicon" if bonus is None else str(bonus) if bonus == "must" else f"prefer={bonus}"
        rows.append({"strength": name, "F1": 100 * scores.words.f1, "OOV recall": 100 * (scores.oov_recall or 0)})
    gain = max(row["F1"] for row in rows) - rows[0]["F1"]
    bars = [
        Bar("points of F1 that the test part's word list gains", gain, 2.0),
        Bar("illegal sentences", float(illegal), 0.0, at_least=False),
    ]
    return Section("GSD, test: words of the test part as a lexicon", rows, bars)


def names(folder: Path) -> Section:
    files = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    train, dev, test = (corpus.read(folder / "wnut17" / name).sentences for name in files)
    rows: list[Row] = []
    for how in ("no lexicon", "feature", "feature, any case"):
        lexicon = None if how == "no lexicon" else Lexicon.from_corpus(train, fold_case="case" in how)
        model = trellis.CRF(features="ner", c2=0.3).fit(train, lexicon=lexicon)
        found = {name: 100 * headline(model.evaluate(part)) for name, part in (("dev F1", dev), ("test F1", test))}
        matches = 0 if lexicon is None else len(lexicon.matches(test).entry)
        rows.append({"names of the training part": how, **found, "matches in test": matches})
    gains = [row["test F1"] - rows[0]["test F1"] for row in rows[1:]]
    return Section(
        "WNUT-17: names of the training part", rows, [Bar("points of test F1 gained, at least", min(gains), 0.0)]
    )


def corrections(model: trellis.CRF, test: list[list[str]]) -> Section:
    characters = [c for words in test for c in words][:50]
    posterior = model.posterior([list("".join(characters))[:50]])
    seconds = best_of(lambda: posterior.given(span=(10, 12, "")).marginals())
    bars = [Bar("milliseconds for a correction, 50 tokens", 1e3 * seconds, 10.0, at_least=False)]
    return Section("posterior.given(span=...) and all marginals", [{"tokens": 50, "ms": 1e3 * seconds}], bars)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    console = make_console()
    train, test = gsd(data, "train"), gsd(data, "test")
    model = trellis.CRF(features="seg").fit([sentence_from_words(words) for words in train])
    known = {word for words in train for word in words}
    words = many_words(sorted({word for sentence in test for word in sentence}))
    sections = [segmentation(model, test, known), corrections(model, test)]
    with tempfile.TemporaryDirectory() as folder:
        section, lexicon = loading(words, Path(folder))
    small = Lexicon({word for sentence in test for word in sentence})
    neural = trellis.NeuralTagger(training={"epochs": 1}).fit([sentence_from_words(words) for words in train[:200]])
    sections += [section, matching({"crf": model, "bilstm-crf": neural}, [small, lexicon], test)]
    sections.append(automatons([word for word in words if len(word) > 1], "".join(map("".join, test))))
    sections.append(names(data))
    for section in sections:
        section.show(console)
    packages = ["trellis-crf", "daachorse", "ahocorasick-rs"]
    write_json(RESULTS, {"machine": machine(packages), "sections": [section.to_json() for section in sections]})


if __name__ == "__main__":
    main()
