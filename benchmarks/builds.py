"""Two builds of Trellis side by side: ``python benchmarks/builds.py FIRST SECOND``, each the Python of an environment.

Meant for the wheel that users install (the first) and the clone that developers build (the second), or for two versions
of the sources. Each side runs a case in one process, and the two take turns call by call, on one thread; what counts is
the processor time of the call, since other programs may keep the cores busy. Printed is the median time of the second
divided by that of the first: below 1, the second is faster. Cases that need torch are skipped where it is missing.
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
from functools import partial
from pathlib import Path
from typing import Any

ONE_THREAD = {"TRELLIS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SHAPES = [(8, 25, 5), (32, 30, 9), (64, 40, 9), (32, 50, 20), (64, 50, 50), (16, 500, 9), (256, 40, 17), (256, 500, 5)]
"""B, T, L of benchmarks/chain.py."""
Work = Callable[[], object]


def corpus(sentences: int, data: str | None) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences of --data, or random words with the frequencies of a language, and tags that depend on neighbours."""
    if data is not None:
        from feature_crf import read_pos

        X, y = read_pos(Path(data), "train")
        return X[:sentences], y[:sentences]
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


def many(work: Work, tokens: int) -> Work:
    """The work again and again, so that a call takes some hundredths of a second."""
    times = max(1, 200_000 // tokens)

    def repeated() -> None:
        for _ in range(times):
            work()

    return repeated


def chain(question: str, B: int, T: int, L: int) -> Work:
    import numpy as np

    from trellis import ChainScores

    random = np.random.default_rng(0)
    lengths = random.integers(T // 2, T + 1, B)
    shapes = ((lengths.sum(), L), (L, L), (L,), (L,))
    emissions, *rest = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    return many(lambda: getattr(ChainScores(emissions, lengths, *rest), question)(), lengths.sum())


def layer(method: str, B: int, T: int, L: int) -> Work:
    import torch

    from trellis.nn import CRF

    torch.set_num_threads(1)
    torch.manual_seed(0)
    crf = CRF(L)
    emissions = torch.randn(B, T, L, requires_grad=True)
    tags = torch.randint(L, (B, T))
    lengths = torch.randint(T // 2, T + 1, (B, 1))
    mask = torch.arange(T)[None] < lengths

    def step() -> None:
        emissions.grad = None
        if method == "nll":
            crf.nll(emissions, tags, mask=mask).sum().backward()
        else:
            with torch.no_grad():
                getattr(crf, method)(emissions, mask=mask)

    return many(step, int(lengths.sum()))


def crf_fit(data: str | None) -> Work:
    from trellis import CRF

    X, y = corpus(1500, data)
    return lambda: CRF(max_iterations=30).fit(X, y)


def crf_predict(data: str | None) -> Work:
    from trellis import CRF

    X, y = corpus(8000, data)
    tagger = CRF(max_iterations=10).fit(X[:1500], y[:1500])
    return lambda: tagger.predict(X)


def crf_open_and_predict(data: str | None) -> Work:
    """Text that the tagger has never seen, in a model that was just opened."""
    from tempfile import TemporaryDirectory

    from trellis import CRF

    X, y = corpus(8000, data)
    folder = TemporaryDirectory()
    path = Path(folder.name) / "model"
    CRF(max_iterations=10).fit(X[:1500], y[:1500]).save(path)
    return lambda: (folder, CRF.load(path).predict(X))


def drop_in_fit(data: str | None) -> Work:
    from trellis.compat.sklearn_crfsuite import CRF

    X, y = corpus(1500, data)
    features = dicts(X)
    return lambda: CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=30).fit(features, y)


def drop_in_predict(data: str | None) -> Work:
    from trellis.compat.sklearn_crfsuite import CRF

    X, y = corpus(4000, data)
    features = dicts(X)
    tagger = CRF(algorithm="lbfgs", max_iterations=10).fit(features[:1500], y[:1500])
    return lambda: tagger.predict(features)


def hmm(data: str | None) -> Work:
    from trellis import HMM

    X, y = corpus(4000, data)
    return lambda: HMM().fit(X, y).predict(X)


def hmm_em(L: int, V: int, mean: int) -> Work:
    """An E-step of benchmarks/hmm.py."""
    import numpy as np

    from trellis import _native

    random = np.random.default_rng(0)
    lengths = random.integers(mean // 2, mean * 3 // 2 + 1, 100_000 // mean)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shares = 1.0 / (np.arange(V) + 2.7)
    symbols = random.choice(V, size=offsets[-1], p=shares / shares.sum())
    steps = _native.Expectation(symbols, offsets, None, np.ones(len(lengths)), L, V)
    emissions = random.dirichlet(np.ones(V), L).T.copy()
    start, transitions = random.dirichlet(np.ones(L)), random.dirichlet(np.ones(L), L)
    out = np.empty(L), np.empty((L, L)), np.empty((V, L)), np.empty(len(lengths))
    return lambda: steps.run(start, transitions, np.ones(L), emissions, *out)


def bilstm() -> Work:
    """The layer that tags without torch."""
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
    return lambda: net.run(features, None, lengths, 1, states)


def bilstm_fit(data: str | None) -> Work:
    import torch

    from trellis import NeuralTagger

    torch.set_num_threads(1)
    X, y = corpus(400, data)
    return lambda: NeuralTagger(training={"epochs": 2, "seed": 0}).fit(X, y)


def bilstm_predict(data: str | None, *, with_torch: bool) -> Work:
    """Without torch, the model that the tests keep; with it, one that was just trained."""
    import trellis

    X, y = corpus(2000, data)
    if not with_torch:
        tagger = trellis.load(Path(__file__).parents[1] / "tests" / "models" / "data" / "bilstm-crf.safetensors")
        return lambda: tagger.predict(X)
    import torch

    torch.set_num_threads(1)
    trained = trellis.NeuralTagger(training={"epochs": 1, "seed": 0}).fit(X[:400], y[:400])
    return lambda: trained.predict(X)


def cases(data: str | None) -> dict[str, Callable[[], Work]]:
    """Each case by name, as a function that prepares it."""
    made: dict[str, Callable[[], Work]] = {}
    for shape in SHAPES:
        name = "-".join(map(str, shape))
        made |= {f"layer-{method}-{name}": partial(layer, method, *shape) for method in ("nll", "viterbi", "decode")}
        made |= {f"chain-{asked}-{name}": partial(chain, asked, *shape) for asked in ("marginals", "viterbi")}
    for fit in (crf_fit, crf_predict, crf_open_and_predict, drop_in_fit, drop_in_predict, hmm):
        made[fit.__name__] = partial(fit, data)
    for L, V in ((3, 2), (12, 5000), (45, 20_000)):
        made |= {f"hmm_em-{L}-{mean}": partial(hmm_em, L, V, mean) for mean in (25, 1000)}
    made |= {"bilstm": bilstm, "bilstm_fit": partial(bilstm_fit, data)}
    made["bilstm_predict"] = partial(bilstm_predict, data, with_torch=False)
    made["bilstm_predict_torch"] = partial(bilstm_predict, data, with_torch=True)
    return made


def answer(name: str, data: str | None, instructions: str | None) -> None:
    """What the process of one side does: a line with the seconds of a call for each line that it reads."""
    from trellis import _native

    if instructions and not _native.use_instruction_set(instructions):
        sys.exit(f"this machine has no {instructions}")
    try:
        work = cases(data)[name]()
    except ModuleNotFoundError as missing:
        print(json.dumps(missing.name), flush=True)
        return
    work()
    print(json.dumps(None), flush=True)
    for _ in sys.stdin:
        begin = time.process_time()
        work()
        print(json.dumps(time.process_time() - begin), flush=True)


def compare(pythons: list[str], name: str, options: list[str], seconds: float, rounds: int) -> list[list[float]] | str:
    """Seconds of each call of both sides by turns, or the package that is missing."""
    command = [os.path.abspath(__file__), "--answer", name, *options]
    sides = [
        subprocess.Popen(
            [os.path.abspath(python), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", env=os.environ | ONE_THREAD,
        )
        for python in pythons
    ]  # fmt: skip

    def line(side: subprocess.Popen[str]) -> Any:
        assert side.stdout is not None
        if not (text := side.stdout.readline()):
            sys.exit(f"{name} ended early")
        return json.loads(text)

    def call(side: subprocess.Popen[str]) -> float:
        assert side.stdin is not None
        side.stdin.write("\n")
        side.stdin.flush()
        return float(line(side))

    missing = [package for side in sides if (package := line(side)) is not None]
    times: list[list[float]] = [[], []]
    end = time.monotonic() + seconds
    while not missing and (len(times[0]) < rounds or time.monotonic() < end):
        for i in (0, 1) if len(times[0]) % 2 else (1, 0):
            times[i].append(call(sides[i]))
    for side in sides:
        side.communicate()
    return str(missing[0]) if missing else times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="*", metavar="PYTHON", help="FIRST and SECOND")
    parser.add_argument("--seconds", type=float, default=8, help="for each case")
    parser.add_argument("--rounds", type=int, default=5, help="calls of each side, at least")
    parser.add_argument("--cases", nargs="*", default=[""], help="beginnings of their names; default: all")
    parser.add_argument("--data", help="folder of UD English-EWT; default: sentences at random")
    parser.add_argument("--instructions", choices=["avx512", "avx2", "baseline"], help="default: the best there is")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        return answer(given.answer, given.data, given.instructions)
    if len(given.python) != 2:
        parser.error("two Pythons are needed")
    options = ["--data", os.path.abspath(given.data)] if given.data else []
    options += ["--instructions", given.instructions] if given.instructions else []
    print(f"{'':28}{'first':>10}{'second':>10}{'second/first':>14}{'best':>8}{'calls':>7}")
    for name in cases(given.data):
        if not name.startswith(tuple(given.cases)):
            continue
        times = compare(given.python, name, options, given.seconds, given.rounds)
        if isinstance(times, str):
            print(f"{name:28} skipped: {times} is missing")
            continue
        (first, second), (low, lowest) = ([f(side) for side in times] for f in (statistics.median, min))
        ratios = f"{second / first:14.3f}{lowest / low:8.3f}"
        print(f"{name:28}{1e3 * first:8.2f}ms{1e3 * second:8.2f}ms{ratios}{len(times[0]):7}", flush=True)
    return None


if __name__ == "__main__":
    main()
