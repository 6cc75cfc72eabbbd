"""How well raw English text is split, and what that costs a tagger.

    python benchmarks/tokenizing.py DATA

DATA contains ud_english_ewt and wnut17. Tokens of the `text =` lines of EWT are compared with the gold ones, split by
the tokenizer that `fit` learned with the training part and by the built-in English one. Two feature CRFs, of parts of
speech on EWT and of entities on WNUT-17, then tag the test part with gold tokens and as raw text. WNUT-17 comes without
its texts: they are made of its tokens with the usual spaces. Writes benchmarks/results/tokenizing.json.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from _harness import Bar, Row, Section, machine, make_console, write_json

import trellis
from trellis import corpus
from trellis.tags import Scheme, spans_from_tags
from trellis.text import Sentence, splitter

RESULTS = Path(__file__).parent / "results" / "tokenizing.json"
FOUND = set[tuple[Any, ...]]
_NO_SPACE_BEFORE = re.compile(r"[.,!?;:)\]}%]+|'(?:s|re|ve|ll|d|m)|n't|’(?:s|re|ve|ll|d|m)|n’t", re.IGNORECASE)
_NO_SPACE_AFTER = ("(", "[", "{", "$", "#", "@")


def f1(gold: Iterable[FOUND], found: Iterable[FOUND]) -> float:
    """Of things with their places, per sentence, in per cent."""
    pairs = [(len(own & other), len(own), len(other)) for own, other in zip(gold, found, strict=True)]
    correct, expected, given = map(sum, zip(*pairs, strict=True))
    return 200 * correct / (expected + given)


def places(sentence: Sentence) -> FOUND:
    return set(sentence.offsets or ())


def tagged_places(sentence: Sentence) -> FOUND:
    return {(*place, tag) for place, tag in zip(sentence.offsets or (), sentence.tags or (), strict=True)}


def ewt(folder: Path, part: str) -> list[Sentence]:
    """The sentences whose words spell their text; a few contractions do not."""
    sentences = corpus.read(folder / "ud_english_ewt" / f"en_ewt-ud-{part}.conllu").sentences
    return [sentence for sentence in sentences if sentence.offsets is not None]


def wnut(folder: Path, name: str) -> list[Sentence]:
    """The sentences with a text: tokens with the usual spaces between them."""
    return [_with_usual_spaces(sentence) for sentence in corpus.read(folder / "wnut17" / name)]


def _with_usual_spaces(sentence: Sentence) -> Sentence:
    text, offsets, is_joined = "", [], True
    for token in sentence.tokens:
        text += "" if is_joined or _NO_SPACE_BEFORE.fullmatch(token) else " "
        offsets.append((len(text), len(text) + len(token)))
        text += token
        is_joined = token in _NO_SPACE_AFTER
    return Sentence(sentence.tokens, sentence.tags, text, offsets)


def token_section(parts: dict[str, list[Sentence]], learned: Callable[[str], Sentence]) -> Section:
    rows: list[Row] = []
    english = splitter("english").sentence
    for part, gold in parts.items():
        row: Row = {"part": part, "sentences": len(gold), "tokens": sum(map(len, gold))}
        for name, split in (("learned F1", learned), ("english F1", english)):
            row[name] = f1(map(places, gold), (places(split(sentence.text or "")) for sentence in gold))
        rows.append(row)
    worst = min(row["learned F1"] for row in rows)
    return Section("Tokens of EWT's raw text", rows, [Bar("token F1, worst part", worst, 98.5)])


def parts_of_speech(train: list[Sentence], test: list[Sentence]) -> tuple[Row, Callable[[str], Sentence]]:
    """F1 of tokens with their tags; with gold tokens that is accuracy."""
    tagger = trellis.CRF(features="pos").fit(train)
    split = splitter(tagger.tokenizer_).sentence
    gold = list(map(tagged_places, test))
    raw = tagger.tag([split(sentence.text or "") for sentence in test])
    with_tokens = map(tagged_places, tagger.tag(test))
    return _row("EWT, parts of speech", f1(gold, with_tokens), f1(gold, map(tagged_places, raw))), split


def entities(train: list[Sentence], dev: list[Sentence], test: list[Sentence]) -> Row:
    """F1 of entities by their places in the text."""
    tagger = trellis.CRF().fit(train, dev=dev)
    gold = list(map(_spans, test))
    with_tokens = map(_spans, tagger.tag(test))
    answers = tagger.annotate([sentence.text or "" for sentence in test])
    raw = ({(span.start, span.end, span.label) for span in answer.spans} for answer in answers)
    return _row("WNUT-17, entities", f1(gold, with_tokens), f1(gold, raw))


def _spans(sentence: Sentence) -> FOUND:
    offsets = sentence.offsets or ()
    spans = spans_from_tags(sentence.tags or (), Scheme.IOB2)
    return {(offsets[span.start][0], offsets[span.end - 1][1], span.label) for span in spans}


def _row(task: str, tokens: float, raw: float) -> Row:
    return {"task": task, "gold tokens F1": tokens, "raw text F1": raw, "lost": tokens - raw}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    console = make_console()
    test = ewt(data, "test")
    row, learned = parts_of_speech(ewt(data, "train"), test)
    names = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    rows = [row, entities(*(wnut(data, name) for name in names))]
    bars = [Bar(f"points lost on raw text, {row['task']}", row["lost"], 1.0, at_least=False) for row in rows]
    sections = [
        token_section({"dev": ewt(data, "dev"), "test": test}, learned),
        Section("Feature CRF: gold tokens and raw text", rows, bars),
    ]
    for section in sections:
        section.show(console)
    write_json(RESULTS, {"machine": machine(["trellis"]), "sections": [section.to_json() for section in sections]})


if __name__ == "__main__":
    main()
