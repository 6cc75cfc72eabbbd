"""Several threads on one object, which ThreadSanitizer watches in ``make sanitize``: answers are those of one alone."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from trellis import CRF, HMM, _native
from trellis.chain import ChainScores, set_num_threads

THREADS, CALLS = 4, 6


@pytest.fixture(autouse=True)
def _two_threads() -> Any:
    before = _native.num_threads()
    set_num_threads(2)
    yield
    set_num_threads(before)


def at_once(call: Callable[[int], Any]) -> list[Any]:
    """The results of call(0), call(1), ..., several of them at the same time."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, range(THREADS * CALLS)))


def corpus(sentences: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    random = np.random.default_rng(seed)
    words = [[f"word{number}" for number in random.integers(0, 300, random.integers(1, 30))] for _ in range(sentences)]
    tags = [["B" if word.endswith(("1", "3")) else "I" if word.endswith("5") else "O" for word in one] for one in words]
    return words, [
        ["B" if tag == "I" and (t == 0 or one[t - 1] == "O") else tag for t, tag in enumerate(one)] for one in tags
    ]


def dicts(words: list[list[str]]) -> list[list[dict[str, Any]]]:
    return [
        [
            {"word": word, "last": word[-1], "first": t == 0, "length": float(len(word)), "long": word * 9}
            for t, word in enumerate(one)
        ]
        for one in words
    ]


@pytest.mark.parametrize("family", [CRF, HMM])
def test_one_tagger(family: Any) -> None:
    words, tags = corpus(150)
    tagger = family().fit(words, tags)
    parts = [words[first : first + 40] for first in range(0, 120, 30)]
    expected = [tagger.predict(part) for part in parts]
    assert at_once(lambda i: tagger.predict(parts[i % 4])) == [expected[i % 4] for i in range(THREADS * CALLS)]


def test_one_tagger_of_dicts() -> None:
    words, tags = corpus(150)
    tagger = CRF(features="given").fit(dicts(words), tags)
    inputs = [dicts(words[first : first + 40]) for first in range(0, 120, 30)]
    expected = [tagger.predict(part) for part in inputs]
    assert at_once(lambda i: tagger.predict(inputs[i % 4])) == [expected[i % 4] for i in range(THREADS * CALLS)]


def test_dicts_that_another_thread_changes() -> None:
    """Dicts are read under the interpreter's lock: what a change frees is not read any more."""
    words, tags = corpus(150)
    tagger = CRF(features="given").fit(dicts(words), tags)
    tokens, sentences = [], dicts(words)
    for sentence in sentences:
        tokens += sentence
    stop = threading.Event()

    def change() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            for token in tokens:
                token["word"], token[f"new{number % 50}"] = f"word{number}", float(number)
                if len(token) > 40:
                    token.clear()

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        try:
            for _ in range(40):
                assert [len(found) for found in tagger.predict(sentences)] == [len(one) for one in words]
        finally:
            stop.set()
        changing.result()


def test_one_chain() -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(0, 40, 50)
    scores = ChainScores(random.normal(size=(lengths.sum(), 7)), lengths, random.normal(size=(7, 7)))
    expected = scores.log_partition()
    for found in at_once(lambda i: scores.log_partition() if i % 2 else scores.viterbi().scores * 0 + expected):
        np.testing.assert_array_equal(found, expected)


def test_one_layer() -> None:
    random = np.random.default_rng(0)
    H, D = 24, 16
    layer = _native.StoredLstm(
        random.normal(size=(8 * H, D)).astype(np.float32),
        np.zeros(8 * H, np.float32),
        random.normal(size=(2, 4 * H, H)).astype(np.float32),
    )
    lengths = random.integers(1, 30, 40)
    features = random.normal(size=(lengths.sum(), D)).astype(np.float32)

    def states(_: int) -> Any:
        out = np.empty((len(features), 2 * H), np.float32)
        layer.run(features, None, lengths, 2, out)
        return out

    expected = states(0)
    for found in at_once(states):
        np.testing.assert_array_equal(found, expected)


def objective(single: bool) -> tuple[_native.Objective, Any]:
    words, tags = corpus(400)
    attributes = _native.Attributes()
    data = _native.compile_features(dicts(words), attributes, True)
    labels = np.array([["B", "I", "O"].index(tag) for one in tags for tag in one], np.int64)
    found = _native.Objective(data, len(attributes), 3, labels, None, None, None, single)
    found.choose_states(0.0, False)
    everything = np.ones(9, np.uint8)
    found.set_transitions(
        everything, everything[:3], everything[:3], np.arange(9, dtype=np.int32), np.arange(9, dtype=np.int32), 9
    )
    return found, np.random.default_rng(1).normal(size=found.size)


@pytest.mark.parametrize("single", [False, True])
def test_one_objective(single: bool) -> None:
    shared, weights = objective(single)

    def evaluate(i: int) -> Any:
        gradient = np.empty(shared.size)
        status, _, loss = shared.evaluate(weights * (1 + i % 3), gradient if i % 2 else None)
        assert status == 0
        return loss, gradient.copy() if i % 2 else None

    alone = [evaluate(i) for i in range(6)]
    for i, (loss, gradient) in enumerate(at_once(evaluate)):
        expected_loss, expected_gradient = alone[i % 6]
        assert loss == expected_loss
        if gradient is not None:
            np.testing.assert_array_equal(gradient, expected_gradient)


def test_one_e_step() -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 40, 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    symbols = random.integers(0, 50, offsets[-1])
    corpus = _native.Expectation(symbols, offsets, None, np.ones(60), 5, 50)
    models = [random.dirichlet(np.ones(50), 5).T.copy() for _ in range(3)]

    def run(i: int) -> Any:
        start, steps, emitted, logs = np.empty(5), np.empty((5, 5)), np.empty((50, 5)), np.empty(60)
        uniform = np.full((5, 5), 0.2)
        corpus.run(uniform[0], uniform, np.ones(5), models[i % 3], start, steps, emitted, logs)
        return start, steps, emitted, logs

    alone = [run(i) for i in range(3)]
    for i, found in enumerate(at_once(run)):
        for one, expected in zip(found, alone[i % 3], strict=True):
            np.testing.assert_array_equal(one, expected)
