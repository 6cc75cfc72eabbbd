"""BiLSTM-CRF against Flair's SequenceTagger and a plain implementation with pytorch-crf's layer, on the CPU.

All sides have the same sentences, vectors, dimensions, batch size and number of epochs, and run one after the other;
then Trellis runs with its own defaults. Flair needs other versions of some libraries, so it runs in its own virtual
environment: created in --flair-venv if it is missing, or given by --flair-python.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _harness import Bar, Row, Section, best_of, machine, make_console, write_json
from _plain import Labelled, Plain

import trellis
from trellis import chain, corpus
from trellis.metrics import entity_scores
from trellis.vectors import read_vectors

HIDDEN = 100  # in each direction
BATCH = 10
FILES = {"train": "wnut17train.conll", "dev": "emerging.dev.conll", "test": "emerging.test.annotated"}
FLAIR = ["flair==0.15.1", "gensim"]
PACKAGES = ["trellis", "numpy", "torch", "pytorch-crf"]
EPILOG = """examples:
  python benchmarks/neural.py ../shared/data/wnut17 --vectors glove.6B.50d.txt
  python benchmarks/neural.py ../shared/data/wnut17 --vectors glove.6B.50d.txt --epochs 3 --without-flair
"""


@dataclass(frozen=True)
class Data:
    train: Labelled
    dev: Labelled
    test: Labelled
    vectors: str  # a file with the vectors of all words of the three parts

    @staticmethod
    def read(folder: Path, vectors: Path, out: Path) -> "Data":
        """The corpus, and a file of the vectors that it needs: rivals read all 400,000 words, which takes a minute."""
        parts = {
            part: [(list(sentence.tokens), list(sentence.tags or ())) for sentence in corpus.read(folder / name)]
            for part, name in FILES.items()
        }
        data = Data(**parts, vectors=str(out))
        words = data.words
        found = read_vectors(vectors, words | {word.lower() for word in words}, lower_fallback=False)
        lines = [f"{word} {' '.join(map(str, found.array[row]))}\n" for word, row in found.rows.items()]
        out.write_text(f"{len(lines)} {found.size}\n{''.join(lines)}", encoding="utf-8", newline="\n")
        return data

    @property
    def words(self) -> set[str]:
        return {token for part in (self.train, self.dev, self.test) for tokens, _ in part for token in tokens}

    def f1(self, predicted: list[list[str]]) -> float:
        """Per cent, on the dev part, counted the same way for everyone."""
        return 100 * entity_scores([tags for _, tags in self.dev], predicted).micro.f1


@dataclass
class Run:
    """What one side did."""

    name: str
    epochs: list[float]
    """Seconds of each epoch of training, without evaluation."""
    cpu: list[float]
    """The same in CPU seconds: the figure to compare if the machine is also doing other work."""
    tagging: dict[str, float]
    """Seconds for the test part, by batch size."""
    f1: float
    """Of the dev part, with the weights of the best epoch."""
    extra: dict[str, float] = field(default_factory=dict)

    def row(self, data: Data, batch: int | str) -> Row:
        tokens = sum(len(tokens) for tokens, _ in data.test)
        return {
            "system": self.name,
            "s / epoch": min(self.epochs),
            "CPU s": min(self.cpu),
            "sentences / s": len(data.train) / min(self.epochs),
            "tagging tokens / s": tokens / self.tagging[str(batch)],
            "dev F1": round(self.f1, 2),
        }


def run_trellis(name: str, data: Data, epochs: int, seed: int, repeats: int, **settings: Any) -> Run:
    """Timed without dev, since evaluation is not training; then run again with dev, to keep the best epoch.

    The first epoch is left out of the times, since it includes the set-up.
    """
    settings["training"] = {"epochs": epochs, "seed": seed} | settings.get("training", {})
    X, y = map(list, zip(*data.train, strict=True))
    ends: list[tuple[float, float]] = []
    without_dev = trellis.NeuralTagger(**settings)
    without_dev.fit(X, y, progress=lambda step: ends.append((step.seconds, time.process_time())))
    model = trellis.NeuralTagger(**settings).fit(X, y, dev=tuple(map(list, zip(*data.dev, strict=True))))
    test = [tokens for tokens, _ in data.test]
    taken = best_of(lambda: model.predict(test), seconds=0.0, at_least=repeats)
    f1 = data.f1(model.predict([tokens for tokens, _ in data.dev]))
    seconds, cpu = ([b - a for a, b in pairwise(times)] for times in zip(*ends, strict=True))
    return Run(name, seconds, cpu, {"own": taken}, f1, extra={"crf": crf_seconds(without_dev, data)})


def same_network(data: Data) -> dict[str, Any]:
    """Words only, with their vectors unchanged, and batches of ten."""
    words = {"vectors": data.vectors, "tune": False}
    encoder = {"words": words, "characters": {"kind": "none"}, "hidden": 2 * HIDDEN}
    return {"encoder": encoder, "training": {"batch_size": BATCH}, "learn_scheme": "data"}


def crf_seconds(model: Any, data: Data) -> float:
    """Time of the CRF's loss and gradient for all training sentences, in batches as in training, best of several."""
    head, size, states = model.model_.network.head, model.config.training.batch_size, model.states_
    tags = [states.encode(np.asarray(model.tagset_.encode(own)), np.array([len(own)])) for _, own in data.train]
    batches = [tags[at : at + size] for at in range(0, len(tags), size)]
    ready = [
        (
            torch.randn(sum(map(len, batch)), len(states), requires_grad=True),
            np.array([len(own) for own in batch]),
            torch.tensor(np.concatenate(batch)),
        )
        for batch in batches
    ]

    def epoch() -> None:
        for emissions, lengths, labels in ready:
            emissions.grad = None
            head.losses(emissions, lengths, labels).sum().backward()

    return best_of(epoch, seconds=0.5, at_least=3)


def run_plain(data: Data, epochs: int, seed: int, repeats: int) -> Run:
    torch.manual_seed(seed)
    plain = Plain.make(data.words, data.train, data.vectors, HIDDEN)
    optimizer = torch.optim.AdamW([p for p in plain.network.parameters() if p.requires_grad], lr=2e-3)
    seconds, cpu, best = [], [], 0.0
    for _ in range(epochs):
        begin = time.process_time()
        seconds.append(timed(lambda: plain.train_epoch(data.train, BATCH, optimizer)))
        cpu.append(time.process_time() - begin)
        best = max(best, data.f1(plain.predict(data.dev, 32)))
    tagging = {
        str(size): min(timed(lambda size=size: plain.predict(data.test, size)) for _ in range(repeats))
        for size in (BATCH, 32)
    }
    return Run("nn.LSTM + pytorch-crf", seconds, cpu, tagging, best)


def timed(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def flair_python(given: Path | None, venv: Path) -> Path:
    """The interpreter that has Flair: the given one, or that of a virtual environment made for it."""
    if given is not None:
        return given
    python = venv / "bin" / "python"
    if not python.exists():
        constraints = Path(__file__).parent.parent / "constraints.txt"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints), "torch", *FLAIR]
        subprocess.run(pip, check=True)
    return python


def run_flair(python: Path, data: Data, epochs: int, seed: int, repeats: int, threads: int) -> Run:
    job = asdict(data) | {
        "hidden": HIDDEN,
        "batch": BATCH,
        "epochs": epochs,
        "tag_batches": [BATCH, 32],
        "repeats": repeats,
        "seed": seed,
        "threads": threads,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        command = [str(python), str(Path(__file__).with_name("_flair.py")), str(path)]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"Flair failed:\n{done.stderr[-2000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    return Run(
        f"Flair {result['version']}", result["epochs"], result["cpu"], result["tagging"], data.f1(result["tags"])
    )


def same_dimensions(data: Data, ours: Run, rivals: list[Run], threads: int) -> Section:
    rows = [ours.row(data, "own"), *(run.row(data, BATCH) for run in rivals)]
    bars = [Bar("share of a training step that is the CRF", crf_share(ours), 0.1, at_least=False)]
    if rivals[-1].name.startswith("Flair"):
        bars += [
            Bar("times Flair in training", ratio(rows, "sentences / s"), 4),
            Bar("times Flair in tagging", ratio(rows, "tagging tokens / s"), 4),
            Bar("dev F1, points above Flair", rows[0]["dev F1"] - rows[-1]["dev F1"], 0),
        ]
    title = f"Words only, 2 x {HIDDEN} hidden, batches of {BATCH}, {len(rivals[0].epochs)} epochs, {threads} threads"
    return Section(title, rows, bars, "Rivals tag in batches of 10 too; Trellis sorts by length into its own batches.")


def own_defaults(data: Data, ours: Run, rivals: list[Run], threads: int) -> Section:
    flair = rivals[-1] if rivals[-1].name.startswith("Flair") else None
    rows = [ours.row(data, "own"), *(run.row(data, 32) for run in rivals)]
    bars = [Bar("share of a training step that is the CRF", crf_share(ours), 0.1, at_least=False)]
    if flair is not None:
        bars += [
            Bar("times Flair in training", ratio(rows, "sentences / s"), 10),
            Bar("times Flair in tagging", ratio(rows, "tagging tokens / s"), 10),
            Bar("dev F1, points above Flair", rows[0]["dev F1"] - rows[-1]["dev F1"], 0),
        ]
    note = "Rivals as above, tagging in batches of 32. Trellis has characters and more hidden units by default."
    return Section(f"Trellis with its own defaults, {threads} threads", rows, bars, note)


def ratio(rows: list[Row], figure: str) -> float:
    return float(rows[0][figure] / rows[-1][figure])


def crf_share(run: Run) -> float:
    # Of the shorter time: on a busy machine an epoch takes more wall-clock time than it costs.
    return run.extra["crf"] / min(*run.epochs, *run.cpu)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of WNUT-17")
    parser.add_argument("--vectors", type=Path, required=True, help="GloVe 6B 50d as text, or any other vectors")
    parser.add_argument("--epochs", type=int, default=10, help="at least 2, the same for all sides")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=10, help="tagging passes; the fastest counts")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--flair-python", type=Path, help="an interpreter that has Flair")
    parser.add_argument("--flair-venv", type=Path, default=Path("benchmarks/.flair"), help="where else to install it")
    parser.add_argument("--without-flair", action="store_true")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/neural.json"))
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.epochs < 2:
        raise SystemExit("--epochs must be at least 2")
    torch.set_num_threads(options.threads)
    chain.set_num_threads(options.threads)
    common = {"epochs": options.epochs, "seed": options.seed, "repeats": options.repeats}
    with tempfile.TemporaryDirectory() as folder:
        data = Data.read(options.data, options.vectors, Path(folder) / "vectors.txt")
        rivals = [run_plain(data, **common)]
        if not options.without_flair:
            python = flair_python(options.flair_python, options.flair_venv)
            rivals.append(run_flair(python, data, **common, threads=options.threads))
        same = run_trellis("Trellis, same network", data, **common, **same_network(data))
        words = {"words": {"vectors": data.vectors}}
        defaults = run_trellis("Trellis, defaults", data, **common, encoder=words)
    sections = [
        same_dimensions(data, same, rivals, options.threads),
        own_defaults(data, defaults, rivals, options.threads),
    ]
    console = make_console()
    for section in sections:
        section.show(console)
    write_json(options.json, {"machine": machine(PACKAGES), "sections": [section.to_json() for section in sections]})


if __name__ == "__main__":
    main()
