"""What the training of a feature CRF costs by its parts, and whether two processes take what that predicts.

    python benchmarks/scale.py --data ../shared/data/ud_english_ewt [--iterations 25] [--links 1000:0.5 100:5 20:50]

A cost model of one iteration of L-BFGS, with N tokens, W weights, P processes of one thread, E evaluations per
iteration, a link of R bits per second and D seconds one way:

    seconds(P) = E * (a * N / P + bytes(P) * 8 * W / R + log2(P) * exchanges * D) + b * W
    bytes(P) = (8 + received) * log2(P)

Weights go to all others along a tree, and sums of derivatives come back along one to the first process.
`a` (seconds per token) and `b` (seconds per weight, of the optimizer) are CPU times of one process alone. `received`
(bytes per weight that the first process gets) and `exchanges` (per evaluation) are counted with two processes, on a
link between two network namespaces that is as fast as the kernel. Then
the link is made slow: `--links` are Mbit/s and milliseconds (Linux, as root). Predictions are of runs with two
processes, which had no part in `a` and `b`. Seconds are the median of iterations; a busy machine makes them longer,
which the load average tells. The last table is these figures at 10^10 tokens. Writes benchmarks/results/scale.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from _harness import Row, Section, machine, make_console, write_json
from _network import LINKS, Exchanges, Link, is_possible, joined, within

from trellis import chain, corpus
from trellis.distributed import together
from trellis.models import CRF
from trellis.models.crf.training import CRFObjective
from trellis.training.process_group import SummedObjective, are_several

RESULTS = Path(__file__).parent / "results" / "scale.json"
WARM_UP = 5
"""Iterations that do not count: the first ones search for a step length."""
REMEMBERED = 10
"""Iterations after which L-BFGS holds all that it remembers."""
PARTS = (8, 4, 2, 1)
FAR = 10**10
ITERATIONS = 100
NET = 10e9


@dataclass
class Clock:
    """The evaluations of the objective in this process: how many, and their seconds and CPU seconds."""

    count: int = 0
    wall: float = 0.0
    cpu: float = 0.0

    def watch(self) -> None:
        kind: Any = SummedObjective if are_several() else CRFObjective
        evaluate = kind.evaluate

        def timed(objective: Any, weights: Any, gradient: Any) -> float:
            wall, cpu = time.monotonic(), time.process_time()
            loss = evaluate(objective, weights, gradient)
            self.count += 1
            self.wall += time.monotonic() - wall
            self.cpu += time.process_time() - cpu
            return loss

        kind.evaluate = timed


@dataclass
class Mark:
    """Where a training is after an iteration."""

    wall: float
    cpu: float
    evaluations: int
    evaluation_wall: float
    evaluation_cpu: float
    sent: int
    received: int
    exchanges: int


def passed_bytes(way: str) -> int:
    """What went over the link of the first namespace in one direction, tx or rx."""
    count = Path("/sys/class/net") / LINKS[0] / "statistics" / f"{way}_bytes"
    return int(count.read_text()) if count.exists() else 0


def work(data: str, iterations: int, part: int, copies: int, min_freq: float, delay: float) -> None:
    """One process of a training; the first one prints what it measured."""
    chain.set_num_threads(1)
    sentences = corpus.read(Path(data) / "en_ewt-ud-train.conllu").sentences[::part] * copies
    clock, exchanges, marks = Clock(), Exchanges(delay), []
    clock.watch()
    exchanges.watch()

    def progress(_: object) -> None:
        now = (time.monotonic(), time.process_time(), clock.count, clock.wall, clock.cpu)
        marks.append(asdict(Mark(*now, passed_bytes("tx"), passed_bytes("rx"), exchanges.count)))

    with together() as team:
        model = CRF(features="pos", c2=0.1, max_iterations=iterations, epsilon=0.0, delta=0.0, min_freq=min_freq)
        model.fit(sentences[team.rank :: team.count], progress=progress)
        if team.rank == 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            found = {"tokens": sum(map(len, sentences)), "weights": len(model.parameters_.weights), "peak": peak}
            print(json.dumps({**found, "marks": marks}))


def started(arguments: list[str], rank: int, count: int, far: bool) -> subprocess.Popen[str]:
    before, network = within(rank) if far else ([], {})
    ours = {"WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"}
    command = [*before, sys.executable, __file__, "--work", *arguments]
    return subprocess.Popen(command, env={**os.environ, **ours, **network}, stdout=subprocess.PIPE, text=True)


@dataclass(frozen=True)
class Run:
    """What the first process of a training found."""

    tokens: int
    weights: int
    peak: int
    marks: list[dict[str, float]]

    @classmethod
    def of(
        cls,
        data: Path,
        iterations: int,
        part: int = 1,
        copies: int = 1,
        min_freq: float = 0.0,
        *,
        link: Link | None = None,
    ) -> Run:
        """Train in one process, or in two that a link joins."""
        delay = 0.0 if link is None else link.delay
        arguments = list(map(str, (data, iterations, part, copies, min_freq, delay)))
        count = 1 if link is None else 2
        running = [started(arguments, rank, count, link is not None) for rank in range(count)]
        outputs = [process.communicate()[0] for process in running]
        if any(process.returncode for process in running):
            raise SystemExit("a training failed: see above")
        return cls(**json.loads(outputs[0]))

    def median(self, name: str) -> float:
        """Of the iterations after the first ones."""
        values = [mark[name] for mark in self.marks]
        return statistics.median(b - a for a, b in zip(values[WARM_UP:], values[WARM_UP + 1 :], strict=False))

    def mean(self, name: str) -> float:
        first, last = self.marks[WARM_UP], self.marks[-1]
        return (last[name] - first[name]) / (len(self.marks) - 1 - WARM_UP)


@dataclass(frozen=True)
class Costs:
    """The figures of the model."""

    per_token: float
    per_weight: float
    evaluations: float
    received: float = 8.0
    exchanges: float = 3.0

    @classmethod
    def of(cls, run: Run) -> Costs:
        evaluations = run.mean("evaluations")
        per_token = run.median("evaluation_cpu") / run.tokens / round(run.median("evaluations"))
        rest = run.median("cpu") - run.median("evaluation_cpu")
        return cls(per_token, rest / run.weights, evaluations)

    def seconds(self, tokens: float, weights: float, processes: int, link: Link) -> float:
        """Of one iteration."""
        network, rounds = 0.0, math.ceil(math.log2(processes))
        if link.rate is not None:
            passed = (8 + self.received) * rounds
            network = 8 * passed * weights / link.rate + rounds * self.exchanges * link.delay
        return self.evaluations * (self.per_token * tokens / processes + network) + self.per_weight * weights


def growth_of(data: Path) -> tuple[list[Row], float]:
    """Features of a part of the corpus, and by which power of its size their number grows."""
    runs = [Run.of(data, 1, part) for part in PARTS]
    rows: list[Row] = [{"tokens": run.tokens, "features": run.weights} for run in runs]
    sizes = [(math.log(run.tokens), math.log(run.weights)) for run in runs]
    return rows, statistics.linear_regression(*zip(*sizes, strict=True)).slope


def predicted(data: Path, iterations: int, links: list[Link]) -> tuple[list[Row], Costs, Run]:
    """Runs with one and two processes, and what the costs of one process make of two."""
    alone = Run.of(data, iterations)
    costs = Costs.of(alone)
    rows: list[Row] = [_row(alone, 1, None, costs)]
    for link in links:
        with joined(link):
            run = Run.of(data, iterations, link=link)
        if link.rate is None:
            evaluations = run.mean("evaluations")
            received, exchanges = (run.mean(name) / evaluations for name in ("received", "exchanges"))
            costs = replace(costs, received=received / run.weights, exchanges=exchanges)
        rows.append(_row(run, 2, link, costs))
    return rows, costs, alone


def _row(run: Run, processes: int, link: Link | None, costs: Costs) -> Row:
    said = costs.seconds(run.tokens, run.weights, processes, link or Link())
    measured = run.median("wall")
    row: Row = {
        "processes": processes,
        "link": "-" if link is None else str(link),
        "evaluations": run.mean("evaluations"),
    }
    row |= {
        "CPU s of the first": run.median("cpu"),
        "MB sent": run.mean("sent") / 1e6,
        "received": run.mean("received") / 1e6,
    }
    return row | {"predicted s": said, "measured s": measured, "off": measured / said - 1, "load": os.getloadavg()[0]}


def memory_of(data: Path, alone: Run) -> tuple[float, float]:
    """Bytes of memory per token that is held, and per feature."""
    more, fewer = Run.of(data, REMEMBERED, copies=3), Run.of(data, REMEMBERED, min_freq=3.0)
    per_token = (more.peak - alone.peak) / (more.tokens - alone.tokens)
    return per_token, (alone.peak - fewer.peak) / (alone.weights - fewer.weights)


def far_away(costs: Costs, near: Run, power: float, per_token: float, per_feature: float) -> list[Row]:
    """A corpus of 10^10 tokens, by the same figures."""
    link, rows = Link(NET, 1e-4), []
    every = near.weights * (FAR / near.tokens) ** power
    for what, weights in (("all features", every), ("the most frequent 10^8", 1e8), ("the most frequent 10^7", 1e7)):
        for processes in (64, 512):
            seconds = costs.seconds(FAR, weights, processes, link)
            computing = costs.evaluations * costs.per_token * FAR / processes
            serial = costs.per_weight * weights
            rows.append(
                {
                    "features": what,
                    "processes": processes,
                    "s/iteration": seconds,
                    "computing": computing / seconds,
                    "optimizer": serial / seconds,
                    "network": 1 - (computing + serial) / seconds,
                    f"hours, {ITERATIONS} iterations": ITERATIONS * seconds / 3600,
                    "GB, features": per_feature * weights / 1e9,
                    "GB, sentences": per_token * FAR / processes / 1e9,
                }
            )
    return rows


def links_of(given: list[str]) -> list[Link]:
    pairs = (item.partition(":") for item in given)
    return [Link(), *(Link(1e6 * float(rate), float(delay or 0) / 1000) for rate, _, delay in pairs)]


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        data, *numbers = sys.argv[2:]
        work(data, *map(int, numbers[:3]), *map(float, numbers[3:]))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--iterations", type=int, default=25, help=f"at least {REMEMBERED}")
    parser.add_argument("--links", nargs="*", default=["1000:0.5", "100:5", "20:50"], help="Mbit/s:milliseconds")
    given = parser.parse_args()
    if given.iterations < REMEMBERED:
        parser.error(f"--iterations must be at least {REMEMBERED}, got {given.iterations}")
    links = links_of(given.links) if is_possible() else []
    rows, costs, alone = predicted(given.data, given.iterations, links)
    grown, power = growth_of(given.data)
    per_token, per_feature = memory_of(given.data, alone)
    note = (
        f"{1 / costs.per_token:,.0f} tokens per second and core and evaluation; optimizer {1e9 * costs.per_weight:.1f} "
        f"ns per feature; {costs.received:.1f} bytes received per feature and {costs.exchanges:.1f} exchanges per "
        f"evaluation; memory of the first process {per_token:.0f} bytes per token and {per_feature:.0f} per feature"
    )
    if not links:
        note += ". No link: that needs Linux, root, ip and tc"
    sections = [
        Section(f"Training of {alone.tokens:,} tokens, {alone.weights:,} features", rows, note=note),
        Section("Features of a corpus", grown, note=f"they grow by the power {power:.2f} of its tokens"),
        Section(
            "10^10 tokens, 10 Gbit/s between processes of one core, by these figures",
            far_away(costs, alone, power, per_token, per_feature),
        ),
    ]
    console = make_console()
    for section in sections:
        section.show(console)
    figures = {**asdict(costs), "power": power, "bytes_per_token": per_token, "bytes_per_feature": per_feature}
    about = machine(["trellis-crf", "torch"])
    write_json(RESULTS, {"machine": about, "costs": figures, "sections": [one.to_json() for one in sections]})


if __name__ == "__main__":
    main()
