"""Hidden Markov models against hmmlearn: EM, Viterbi, agreement of parameters; and how well they tag and segment."""

import argparse
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import numpy as np
import numpy.typing as npt
from _harness import Bar, Row, Section, best_of_each, machine, make_console, write_json
from hmmlearn.hmm import CategoricalHMM as Theirs

from trellis import chain, corpus
from trellis.compat.hmmlearn.hmm import CategoricalHMM as Ours
from trellis.metrics import segmentation_scores
from trellis.models.hmm.estimation import HMMObjective
from trellis.models.hmm.model import HMM
from trellis.models.hmm.probabilities import Probabilities
from trellis.text import Sentence

# States, symbols, tokens: the shapes of the bars. Each comes as sentences, which is what taggers see, and as the long
# sequences that suit hmmlearn best, since its Python work is per sequence.
SHAPES = [(3, 2, 100_000), (12, 5_000, 200_000), (45, 20_000, 200_000)]
LENGTHS = {"sentences": 25, "long": 1000}
PACKAGES = ["trellis", "numpy", "hmmlearn"]
ITERATIONS = 10
EPILOG = """examples:
  python benchmarks/hmm.py                          all sections that need no data
  python benchmarks/hmm.py --data ../shared/data    and the accuracy on UD English-EWT and UD Chinese-GSD
  python benchmarks/hmm.py --quick --only em        shorter timings, one section
"""


@dataclass(frozen=True)
class Options:
    quick: bool
    data: Path | None

    def time(self, *functions: Callable[[], object]) -> list[float]:
        return best_of_each(*functions, seconds=0.2 if self.quick else 1.0, at_least=3 if self.quick else 7)


@dataclass(frozen=True)
class Problem:
    """A corpus of symbols with the frequencies of words, and a starting point for EM."""

    X: npt.NDArray[np.int64]  # [N, 1]
    lengths: npt.NDArray[np.int64]  # [B]
    start: tuple[npt.NDArray[np.float64], ...]

    @staticmethod
    def make(L: int, V: int, N: int, mean: int) -> "Problem":
        random = np.random.default_rng(L * V)
        sizes = random.integers(mean // 2, mean * 3 // 2 + 1, 2 * N // mean)
        sizes = sizes[: np.searchsorted(np.cumsum(sizes), N)]
        lengths = np.append(sizes, N - sizes.sum())
        shares = 1.0 / (np.arange(V) + 2.7)  # Zipf's law
        X = random.choice(V, size=(N, 1), p=shares / shares.sum())
        parts = (random.dirichlet(np.ones(L)), random.dirichlet(np.ones(L), L), random.dirichlet(np.ones(V), L))
        return Problem(X, lengths, parts)

    def model(self, kind: type, **options: object) -> Ours | Theirs:
        L, V = self.start[2].shape
        model = kind(L, n_features=V, init_params="", tol=-np.inf, **options)
        model.startprob_, model.transmat_, model.emissionprob_ = (part.copy() for part in self.start)
        return model

    def iteration(self, kind: type, **options: object) -> Callable[[], object]:
        """A fit of one iteration, always from the same start."""
        return lambda: self.model(kind, n_iter=1, **options).fit(self.X, self.lengths)

    def step(self) -> Callable[[], object]:
        """One iteration of our EM alone, without the work that is done once before the first."""
        L, V = self.start[2].shape
        objective = HMMObjective(self.X.ravel(), self.lengths, L, V)
        weights = Probabilities.checked(*self.start).flat()
        return lambda: objective.maximise(weights, objective.expect(weights)[1])


def once(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def em(options: Options) -> Section:
    """One iteration of EM on one thread."""
    chain.set_num_threads(1)
    rows: list[Row] = []
    for shape in SHAPES:
        for name, mean in LENGTHS.items():
            problem = Problem.make(*shape, mean)
            ours, scaling = options.time(problem.iteration(Ours), problem.iteration(Theirs, implementation="scaling"))
            default = once(problem.iteration(Theirs))
            rows.append(
                {
                    "states": shape[0],
                    "symbols": shape[1],
                    "tokens": shape[2],
                    "sequences": name,
                    "trellis ms": 1e3 * ours,
                    "scaling ms": 1e3 * scaling,
                    "default ms": 1e3 * default,
                    "x scaling": scaling / ours,
                    "x default": default / ours,
                }
            )
    bars = [bar for row in rows if row["sequences"] == "sentences" for bar in _em_bars(row)]
    note = "hmmlearn's default implementation was timed once; the others are the best of several turns"
    return Section("EM iteration, one thread", rows, bars, note)


def _em_bars(row: Row) -> list[Bar]:
    name = f"{row['states']} states"
    return [Bar(f"{name}, times scaling", row["x scaling"], 5), Bar(f"{name}, times default", row["x default"], 30)]


def threads(options: Options) -> Section:
    """Two threads against one. On a busy machine the second core may not be free; the note says how much of it was."""
    rows: list[Row] = []
    for shape in SHAPES:
        run = Problem.make(*shape, LENGTHS["sentences"]).step()
        one, two = options.time(*(lambda n=n, run=run: with_threads(n, run) for n in (1, 2)))
        rows.append({"states": shape[0], "one ms": 1e3 * one, "two ms": 1e3 * two, "speedup": one / two})
    bars = [Bar(f"{row['states']} states, two threads", row["speedup"], 1.7) for row in rows]
    note = f"two threads that only sort numbers did {free_cores():.2f} times the work of one at the end of this section"
    return Section("EM iteration, two threads", rows, bars, note)


def with_threads(count: int, run: Callable[[], object]) -> None:
    chain.set_num_threads(count)
    run()


def free_cores() -> float:
    """Work done by two threads in the time one takes for its own; NumPy sorts without the interpreter's lock."""
    numbers = np.random.default_rng(0).random(3_000_000)

    def both() -> None:
        workers = [Thread(target=np.sort, args=(numbers,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    alone, together = best_of_each(lambda: np.sort(numbers), both, seconds=1.0, at_least=3)
    return 2 * alone / together


def viterbi(options: Options) -> Section:
    """Decoding on one thread."""
    chain.set_num_threads(1)
    rows: list[Row] = []
    for shape in SHAPES:
        for name, mean in LENGTHS.items():
            problem = Problem.make(*shape, mean)
            ours, theirs = (problem.model(kind) for kind in (Ours, Theirs))
            fast, slow = options.time(
                lambda: ours.predict(problem.X, problem.lengths),  # noqa: B023
                lambda: theirs.predict(problem.X, problem.lengths),  # noqa: B023
            )
            times = {"trellis ms": 1e3 * fast, "hmmlearn ms": 1e3 * slow, "times": slow / fast}
            rows.append({"states": shape[0], "symbols": shape[1], "tokens": shape[2], "sequences": name, **times})
    bars = [Bar(f"{row['states']} states, Viterbi", row["times"], 5) for row in rows if row["sequences"] == "sentences"]
    return Section("Viterbi, one thread", rows, bars)


def agreement(options: Options) -> Section:
    """The greatest difference between the parameters of both after each of ten iterations."""
    rows: list[Row] = []
    for shape in SHAPES[: 2 if options.quick else 3]:
        problem = Problem.make(*shape, LENGTHS["sentences"])
        models = [problem.model(Ours, n_iter=1), problem.model(Theirs, n_iter=1, implementation="scaling")]
        worst = 0.0
        for _ in range(ITERATIONS):
            for model in models:
                model.fit(problem.X, problem.lengths)
            worst = max(worst, *(_difference(models, part) for part in ("startprob_", "transmat_", "emissionprob_")))
        rows.append({"states": shape[0], "symbols": shape[1], "iterations": ITERATIONS, "greatest difference": worst})
    bars = [
        Bar(f"{row['states']} states, 1e8 times the difference", 1e8 * row["greatest difference"], 1, False)
        for row in rows
    ]
    return Section("Probabilities after each iteration", rows, bars)


def _difference(models: list[Ours | Theirs], part: str) -> float:
    return float(np.abs(getattr(models[0], part) - getattr(models[1], part)).max())


def accuracy(options: Options) -> Section:
    """Tagging and segmenting real text, where a tag depends on the one before it (order 1) or on two (order 2)."""
    assert options.data is not None
    chain.set_num_threads(1)
    english = [options.data / "ud_english_ewt" / f"en_ewt-ud-{part}.conllu" for part in ("train", "dev", "test")]
    chinese = [
        options.data / "ud_chinese_gsd" / f"udc-simplified-v1.4-{part}.conll" for part in ("train", "dev", "test")
    ]
    segmented = [read(path, format="conllu", tags="form") for path in chinese]
    rows = [
        *_scores("EWT UPOS accuracy", [read(path) for path in english], tag_accuracy, options),
        *_scores("EWT XPOS accuracy", [read(path, tags="xpos") for path in english], tag_accuracy, options),
        *_scores("GSD segmentation F1", segmented, word_f1, options),
    ]
    bars = [Bar("EWT UPOS dev accuracy", rows[0]["dev"], 92.0)]
    note = "tokens/s: predict on the dev part, from tokens to labels, one thread"
    return Section("Supervised, order 1 and 2", rows, bars, note)


def read(path: Path, **options: str) -> list[Sentence]:
    return list(corpus.read(path, **options))


def _scores(
    name: str,
    parts: list[list[Sentence]],
    score: Callable[[list[Sentence], list[Sentence]], float],
    options: Options,
) -> list[Row]:
    train, dev, test = parts
    rows: list[Row] = []
    for order in (1, 2):
        begin = time.perf_counter()
        model = HMM(order=order).fit(train)
        training = time.perf_counter() - begin
        (seconds,) = options.time(lambda model=model: model.predict(dev))
        rows.append(
            {
                "task": name,
                "order": order,
                "dev": 100 * score(dev, model.tag(dev)),
                "test": 100 * score(test, model.tag(test)),
                "states": len(model.histories_),
                "training s": training,
                "tokens/s": sum(map(len, dev)) / seconds,
            }
        )
    return rows


def tag_accuracy(gold: list[Sentence], found: list[Sentence]) -> float:
    pairs = [a == b for x, y in zip(gold, found, strict=True) for a, b in zip(x.tags or (), y.tags or (), strict=True)]
    return sum(pairs) / len(pairs)


def word_f1(gold: list[Sentence], found: list[Sentence]) -> float:
    words = [[corpus.words_from_sentence(sentence) for sentence in part] for part in (gold, found)]
    return segmentation_scores(*words).words.f1


SECTIONS = {"em": em, "threads": threads, "viterbi": viterbi, "agreement": agreement, "accuracy": accuracy}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shorter timings")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--data", type=Path, help="folder with ud_english_ewt and ud_chinese_gsd")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "hmm.json")
    arguments = parser.parse_args()
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    options = Options(arguments.quick, arguments.data)
    console = make_console()
    sections = []
    for name in arguments.only:
        if name == "accuracy" and options.data is None:
            console.print("accuracy: skipped, since --data was not given")
            continue
        sections.append(SECTIONS[name](options))
        sections[-1].show(console)
    report = {"benchmark": "hmm", "machine": machine(PACKAGES), "settings": {"quick": options.quick}}
    write_json(arguments.json, report | {"sections": [section.to_json() for section in sections]})
    missed = [bar for section in sections for bar in section.bars if not bar.met]
    console.print(f"{len(missed)} bars missed; figures in {arguments.json}")


if __name__ == "__main__":
    main()
