"""Components of spaCy beside bare Trellis, by CPU time of one process, with the same answers read.

    python benchmarks/spacy_pipe.py ../shared/data

DATA is a folder with wnut17 and ud_english_ewt. Two questions, each asked in turns so that a busy moment hits all:

- Ready Docs to entities (or tags) with probabilities: the component's `pipe`, and bare `annotate` with its answers
  read, from ready lists of tokens, and from the tokens of the same Docs.
- Raw texts to the same: `nlp.pipe` beside Trellis with its own tokenizer, and beside spaCy's tokenizer, which makes the
  Docs, followed by bare `annotate`.
"""

import gc
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spacy
from _harness import Bar, Row, Section, machine, make_console, write_json
from annotate import ewt, wnut
from spacy.tokens import Doc

from trellis import chain

RESULTS = Path(__file__).parent / "results" / "spacy_pipe.json"
ROUNDS = 15
Ask = Callable[[list[Any]], object]


def in_turns(make: Callable[[], list[Any]], asked: dict[str, Ask]) -> dict[str, float]:
    """CPU seconds of the fastest of several calls of each, with new documents for each call."""
    best = dict.fromkeys(asked, math.inf)
    for _ in range(ROUNDS):
        for name, ask in asked.items():
            docs = make()
            gc.collect()
            begin = time.process_time()
            kept = ask(docs)
            best[name] = min(best[name], time.process_time() - begin)
            del kept
    return best


def read(tagger: Any, sentences: list[Any]) -> object:
    """Bare Trellis, with everything read that the component writes to documents."""
    found = tagger.annotate(sentences)
    if tagger.tagset_.scheme == "plain":
        return [(one.tags, one.probabilities) for one in found]
    return [one.token_spans for one in found]


def asked(tagger: Any, sentences: list[Any]) -> object:
    """Bare Trellis that computes no more than the component writes: no probabilities of tokens for names."""
    if tagger.tagset_.scheme == "plain":
        return read(tagger, sentences)
    return tagger.posterior(sentences).spans()


def words_of(doc: Doc) -> list[str]:
    return [token.text for token in doc]


def measure(factory: str, tagger: Any, test: list[Any], place: Path) -> tuple[list[Row], list[Row]]:
    tagger.save(place)
    nlp, bare = spacy.blank("en"), spacy.blank("en")
    component = nlp.add_pipe(factory, config={"model": str(place)})
    tokens = [list(sentence.tokens) for sentence in test]
    texts, count = [" ".join(words) for words in tokens], sum(map(len, tokens))
    own = component.tagger
    ready = in_turns(
        lambda: [Doc(nlp.vocab, words=words) for words in tokens],
        {
            "bare, lists of tokens": lambda docs: read(own, tokens),
            "bare, tokens of the Docs, only what is written": lambda docs: asked(own, [words_of(doc) for doc in docs]),
            "bare, tokens of the Docs": lambda docs: read(own, [words_of(doc) for doc in docs]),
            "the component's pipe": lambda docs: list(component.pipe(docs)),
        },
    )
    raw = in_turns(
        list,
        {
            "bare, Trellis' tokenizer": lambda _: [one.spans for one in own(texts)],
            "spaCy's Docs alone": lambda _: list(bare.pipe(texts)),
            "spaCy's Docs, then bare": lambda _: read(own, [words_of(doc) for doc in bare.pipe(texts)]),
            "nlp.pipe": lambda _: list(nlp.pipe(texts)),
        },
    )
    return rows(factory, ready, count), rows(factory, raw, count)


def rows(factory: str, times: dict[str, float], count: int) -> list[Row]:
    """Nanoseconds per token, and how many times as fast the last one is."""
    last = list(times.values())[-1]
    return [
        {"component": factory, "what": what, "ns / token": 1e9 * own / count, "speed of the last, of this": own / last}
        for what, own in times.items()
    ]


def main() -> None:
    folder, ready, raw = Path(sys.argv[1]), list[Row](), list[Row]()
    chain.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        for factory, make in (("trellis_ner", wnut), ("trellis_tagger", ewt)):
            found = measure(factory, *make(folder), Path(place) / "model.safetensors")
            ready += found[0]
            raw += found[1]
    bars = [
        Bar(f"{row['component']} over {row['what']}", row["speed of the last, of this"], 0.9)
        for row in (*ready, *raw)
        if row["what"] in ("bare, tokens of the Docs", "spaCy's Docs, then bare")
    ]
    sections = [Section("Ready Docs", ready, bars[:2]), Section("Raw texts", raw, bars[2:])]
    for section in sections:
        section.show(make_console())
    write_json(
        RESULTS, {"machine": machine(("trellis-crf", "spacy", "numpy")), "sections": [s.to_json() for s in sections]}
    )


if __name__ == "__main__":
    main()
