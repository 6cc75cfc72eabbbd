"""Two builds of Trellis side by side: ``python benchmarks/wheel.py FIRST SECOND``, each the Python of an environment.

Meant for the wheel that users install (the first) and the clone that developers build (the second), or for two versions
of the sources. Each case runs in a process of its own, first and second by turns; what counts is the processor time of
the work itself, on one thread, since other programs may keep the cores busy. Printed is the median time of the second
divided by that of the first: below 1, the second is faster. Cases that need torch are left out where it is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ONE_THREAD = {"TRELLIS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
Work = Callable[[], object]


def corpus(sentences: int) -> tuple[list[list[str]], list[list[str]]]:
    """Words with the frequencies of a language, and tags that depend on them and on their neighbours."""
    import numpy as np

    random = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    sizes = random.integers(1, 12, 20_000)
    words = ["".join(letters[np.minimum(random.geometric(0.12, size) - 1, 25)]) for size in sizes]
    words = [word.title() if i % 7 == 3 else str(i) if i % 31 == 5 else word for i, word in enumerate(words)]
    X, y = [], []
    for length in random.integers(1, 45, sentences):
        numbers = np.minimum(random.zipf(1.3, length), 20_000) - 1
        before = [0, *numbers[:-1]]
        tags = [f"T{(number * 7 + last * 3) % 17}" for number, last in zip(numbers, before, strict=True)]
        X.append([words[number] for number in numbers])
        y.append(tags)
    return X, y


def dicts(X: list[list[str]]) -> list[list[dict[str, Any]]]:
    """The features of the sklearn-crfsuite tutorial."""

    def around(one: list[str], t: int) -> dict[str, Any]:
        word = one[t]
        found: dict[str, Any] = {"bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:]}
        found |= {"word[-2:]": word[-2:], "word.isupper()": word.isupper()}
        found |= {"word.istitle()": word.istitle(), "word.isdigit()": word.isdigit()}
        if t > 0:
            found |= {"-1:word.lower()": one[t - 1].lower(), "-1:word.istitle()": one[t - 1].istitle()}
        else:
            found["BOS"] = True
        if t + 1 < len(one):
            found |= {"+1:word.lower()": one[t + 1].lower(), "+1:word.istitle()": one[t + 1].istitle()}
        else:
            found["EOS"] = True
        return found

    return [[around(one, t) for t in range(len(one))] for one in X]


def chain() -> Work:
    import numpy as np

    from trellis import ChainScores

    random = np.random.default_rng(0)
    lengths = random.integers(1, 60, 400)
    scores = random.normal(size=(lengths.sum(), 17)).astype(np.float32)
    transitions = random.normal(size=(17, 17)).astype(np.float32)

    def work() -> None:
        for _ in range(150):
            answers = ChainScores(scores, lengths, transitions)
            answers.marginals()
            answers.viterbi()

    return work


def layer() -> Work:
    import torch

    from trellis.nn import CRF

    torch.set_num_threads(1)
    torch.manual_seed(0)
    crf = CRF(17)
    emissions = torch.randn(32, 60, 17, requires_grad=True)
    tags = torch.randint(17, (32, 60))
    mask = torch.arange(60)[None] < torch.randint(1, 61, (32, 1))

    def work() -> None:
        for _ in range(1500):
            crf.nll(emissions, tags, mask=mask).sum().backward()

    return work


def crf_fit() -> Work:
    from trellis import CRF

    X, y = corpus(1500)
    return lambda: CRF(max_iterations=30).fit(X, y)


def crf_predict() -> Work:
    from trellis import CRF

    X, y = corpus(1500)
    tagger = CRF(max_iterations=10).fit(X, y)
    many = corpus(8000)[0]
    return lambda: [tagger.predict(many) for _ in range(5)]


def drop_in_fit() -> Work:
    from trellis.compat.sklearn_crfsuite import CRF

    X, y = corpus(1500)
    features = dicts(X)
    return lambda: CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=30).fit(features, y)


def drop_in_predict() -> Work:
    from trellis.compat.sklearn_crfsuite import CRF

    X, y = corpus(1500)
    tagger = CRF(algorithm="lbfgs", max_iterations=10).fit(dicts(X), y)
    many = dicts(corpus(8000)[0])
    return lambda: [tagger.predict(many) for _ in range(5)]


def hmm() -> Work:
    from trellis import HMM

    X, y = corpus(6000)

    def work() -> None:
        HMM().fit(X, y).predict(X)

    return work


def hmm_em() -> Work:
    import numpy as np

    from trellis import _native

    random = np.random.default_rng(0)
    lengths = random.integers(1, 60, 2000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps = _native.Expectation(random.integers(0, 5000, offsets[-1]), offsets, None, np.ones(2000), 20, 5000)
    emissions = random.dirichlet(np.ones(5000), 20).T.copy()
    uniform = np.full((20, 20), 0.05)
    out = np.empty(20), np.empty((20, 20)), np.empty((5000, 20)), np.empty(2000)

    def work() -> None:
        for _ in range(30):
            steps.run(uniform[0], uniform, np.ones(20), emissions, *out)

    return work


def bilstm() -> Work:
    import numpy as np

    from trellis import _native

    random = np.random.default_rng(0)
    H, D = 128, 100
    weights = random.normal(size=(8 * H, D)).astype(np.float32) / 10
    recurrent = random.normal(size=(2, 4 * H, H)).astype(np.float32) / 10
    net = _native.StoredLstm(weights, np.zeros(8 * H, np.float32), recurrent)
    lengths = random.integers(1, 60, 200)
    features = random.normal(size=(lengths.sum(), D)).astype(np.float32)
    states = np.empty((lengths.sum(), 2 * H), np.float32)

    def work() -> None:
        for _ in range(8):
            net.run(features, None, lengths, 1, states)

    return work


def bilstm_fit() -> Work:
    import torch

    from trellis import NeuralTagger

    torch.set_num_threads(1)
    X, y = corpus(400)
    return lambda: NeuralTagger(training={"epochs": 2, "seed": 0}).fit(X, y)


CASES = {case.__name__: case for case in (chain, layer, crf_fit, crf_predict, drop_in_fit, drop_in_predict, hmm, hmm_em,
                                          bilstm, bilstm_fit)}  # fmt: skip


def measure(name: str) -> None:
    """Seconds of processor time of a case, the best of three after one that is not counted, as JSON."""
    try:
        work = CASES[name]()
    except ModuleNotFoundError as missing:
        print(json.dumps({"missing": missing.name}))
        return
    times = []
    for _ in range(4):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    print(json.dumps({"seconds": min(times[1:])}))


def measured(python: str, name: str) -> float | None:
    command = [os.path.abspath(python), os.path.abspath(__file__), "--case", name]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=os.environ | ONE_THREAD, check=False)
    if done.returncode:
        sys.exit(f"{python}, {name}:\n{done.stderr}")
    found: float | None = json.loads(done.stdout.splitlines()[-1]).get("seconds")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", nargs="?")
    parser.add_argument("second", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        return measure(given.case)
    if not given.second:
        parser.error("two Pythons are needed")
    print(f"{'':16}{'first':>10}{'second':>10}{'second/first':>14}")
    for name in given.cases:
        pairs = [(measured(given.first, name), measured(given.second, name)) for _ in range(given.rounds)]
        times = [(first, second) for first, second in pairs if first is not None and second is not None]
        if not times:
            print(f"{name:16} left out: torch is missing")
            continue
        first, second = (statistics.median(side) for side in zip(*times, strict=True))
        print(f"{name:16}{first:9.3f}s{second:9.3f}s{second / first:14.3f}", flush=True)
    return None


if __name__ == "__main__":
    main()
