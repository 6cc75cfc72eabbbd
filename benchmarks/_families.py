"""Corpora of any size and number of labels, and what fitting and tagging them costs each family."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

from trellis.models import CRF, HMM
from trellis.text import Sentence

LENGTH = 20  # tokens of a sentence
ITERATIONS = 8  # of the CRF


def sentences(tokens: int, L: int, seed: int) -> list[Sentence]:
    """Words by a law like Zipf's; each label has words of its own, and follows one of four others."""
    random, found = Random(seed), []
    for _ in range(tokens // LENGTH):
        label, words, tags = random.randrange(L), list[str](), list[str]()
        for _ in range(LENGTH):
            label = (3 * label + random.randrange(4)) % L
            rank = int(random.paretovariate(0.9)) % 5000
            words.append(f"w{rank}" if random.random() < 0.3 else f"{label}x{rank % 97}")
            tags.append(f"L{label}")
        found.append(Sentence(words, tags))
    return found


def crf() -> Any:
    return CRF(features="pos", scheme="plain", max_iterations=ITERATIONS, delta=0.0)


def hmm() -> Any:
    return HMM(scheme="plain")


def bilstm() -> Any:
    from trellis.models import NeuralTagger

    return NeuralTagger(training__epochs=1, scheme="plain")


FAMILIES: dict[str, Callable[[], Any]] = {"HMM": hmm, "CRF": crf, "BiLSTM-CRF": bilstm}


def cost(make: Callable[[], Any], tokens: int, L: int, rounds: int = 1) -> tuple[float, float]:
    """CPU microseconds per token to fit and to tag, the best of several."""
    train, test = sentences(tokens, L, seed=0), [list(one.tokens) for one in sentences(tokens, L, seed=1)]
    fits, tags = [], []
    for _ in range(rounds):
        begin = time.process_time()
        model = make().fit(train)
        fits.append(time.process_time() - begin)
        model.predict(test[:1])
        for _ in range(2):
            begin = time.process_time()
            model.predict(test)
            tags.append(time.process_time() - begin)
    return 1e6 * min(fits) / tokens, 1e6 * min(tags) / tokens
