"""Every test under tests/ that uses hypothesis, at random, until the time is up: ``python -m tests.fuzz``.

Workers are pytest processes that go through these tests in rounds, each round with a seed and an order of its own.
The budget holds for everything: a test that is still running at its end is cut short. The report says which tests ran,
how often and on how many examples, and the seed of each round. What fails is printed with its example and how to run
it again, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GRACE = 0.1  # the share of the budget in which no test is begun


@dataclass(frozen=True)
class Begun:
    """A test that a worker begins, with the seed of the round."""

    test: str
    seed: int


@dataclass(frozen=True)
class Ended:
    """A test that has ended, on how many examples, and the text of its failure where it failed."""

    test: str
    seed: int
    examples: int
    failure: str | None


class Rounds:
    """A pytest plugin that runs the collected tests again and again, until a moment in time."""

    def __init__(self, seeds: Iterator[int], until: float, report: Connection) -> None:
        self._seeds, self._until, self._report = seeds, until, report
        self._examples, self._failure = 0, None

    def pytest_collection_finish(self, session: Any) -> None:
        """Count examples, where a test is called with one; the cases of a parametrized test share a handle."""
        for handle in {id(item.obj.hypothesis): item.obj.hypothesis for item in session.items}.values():
            handle.inner_test = self._counted(handle.inner_test)

    def _counted(self, test: Any) -> Any:
        @functools.wraps(test)
        def counted(*arguments: Any, **options: Any) -> Any:
            self._examples += 1
            return test(*arguments, **options)

        return counted

    def pytest_runtestloop(self, session: Any) -> bool:
        """In place of pytest's own loop."""
        from hypothesis import core

        if session.testsfailed:
            raise session.Interrupted("some tests cannot be collected")
        for seed in self._seeds if session.items else ():
            core.global_force_seed = seed  # as --hypothesis-seed does
            items = random.Random(seed).sample(session.items, len(session.items))
            for item, following in zip(items, [*items[1:], None], strict=True):
                if time.time() > self._until:
                    return True
                self._run(item, following, seed)
        return True

    def _run(self, item: Any, following: Any, seed: int) -> None:
        self._report.send(Begun(item.nodeid, seed))
        self._examples, self._failure = 0, None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        self._report.send(Ended(item.nodeid, seed, self._examples, self._failure))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep what failed, with the example that hypothesis found."""
        if report.failed:
            sections = (text for name, text in report.sections if name == "Hypothesis")
            self._failure = "\n".join([report.longreprtext, *sections])


def work(seeds: Iterator[int], until: float, selection: list[str], report: Connection, log: str) -> None:
    """What a worker process does; its exit code is that of pytest, where failures that were reported count for none."""
    import pytest

    os.setsid()  # so that it can be ended with all that its tests have started
    out = os.open(log, os.O_WRONLY)
    os.dup2(out, 1), os.dup2(out, 2)
    options = ["-m", "hypothesis", "--hypothesis-profile=fuzz", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = int(pytest.main([*options, *selection], plugins=[Rounds(seeds, until, report)]))
    sys.stdout.flush()
    os._exit(0 if code == pytest.ExitCode.TESTS_FAILED else code)


@dataclass
class Worker:
    """A worker as the parent sees it."""

    process: Any
    reports: Connection
    log: str
    running: Begun | None = None


@dataclass
class Findings:
    """What was tried, and what failed."""

    runs: Counter[str] = field(default_factory=Counter)
    examples: Counter[str] = field(default_factory=Counter)
    rounds: Counter[int] = field(default_factory=Counter)
    failed: set[str] = field(default_factory=set)

    def add(self, ended: Ended) -> None:
        """Count a test, and print its first failure."""
        self.runs[ended.test] += 1
        self.examples[ended.test] += ended.examples
        self.rounds[ended.seed] += 1
        if ended.failure is not None and ended.test not in self.failed:
            self.fail(Begun(ended.test, ended.seed), ended.failure)

    def fail(self, where: Begun, text: str) -> None:
        """Print a failure, and how to run it again."""
        self.failed.add(where.test)
        options = f"--hypothesis-profile=fuzz --hypothesis-seed={where.seed}"
        again = f"PYTHONHASHSEED={os.environ['PYTHONHASHSEED']} pytest {options} '{where.test}'"
        print(f"\nFAILED {where.test}\n{text}\nagain: {again}\n", flush=True)


def start(seeds: Iterator[int], until: float, selection: list[str]) -> Worker:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    log = tempfile.NamedTemporaryFile(prefix="fuzz-", suffix=".log", delete=False).name  # noqa: SIM115
    process = context.Process(target=work, args=(seeds, until, selection, sender, log))
    process.start()
    sender.close()
    return Worker(process, receiver, log)


def listen(team: list[Worker], findings: Findings, end: float, first: bool) -> None:
    """Gather reports until all workers are done, or the time is up, or with `first` until something fails."""
    talking = {worker.reports: worker for worker in team}
    while talking and (left := end - time.time()) > 0 and not (first and findings.failed):
        for reports in wait(list(talking), timeout=left):
            worker = talking[reports]  # type: ignore[index]
            try:
                message = worker.reports.recv()
            except EOFError:
                del talking[worker.reports]
                continue
            worker.running = message if isinstance(message, Begun) else None
            if isinstance(message, Ended):
                findings.add(message)


def stop(worker: Worker, findings: Findings) -> None:
    """End a worker that is still running; one that has ended by itself must have ended well."""
    worker.process.join(timeout=1)
    if worker.process.is_alive():
        if worker.running is not None:
            print(f"cut short: {worker.running.test}, seed {worker.running.seed}")
        os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.join()
    elif code := worker.process.exitcode:
        where = worker.running or Begun("a worker, before its first test", 0)
        text = Path(worker.log).read_text(errors="replace")[-20_000:]
        findings.fail(where, f"{text}\nthe process ended with code {code}")
    os.unlink(worker.log)


def print_findings(findings: Findings, seconds: float) -> None:
    files: dict[str, list[str]] = {}
    for test in findings.runs:
        files.setdefault(test.partition("::")[0], []).append(test)
    for file, tests in sorted(files.items()):
        runs, examples = (sum(own[test] for test in tests) for own in (findings.runs, findings.examples))
        print(f"{file:50} {len(tests):4} tests {runs:5} runs {examples:9,} examples")
    for seed, runs in sorted(findings.rounds.items()):
        print(f"round with seed {seed}: {runs} tests")
    print(
        f"{len(findings.failed)} failed; {len(findings.runs)} tests, {len(findings.rounds)} rounds, "
        f"{findings.runs.total()} runs, {findings.examples.total():,} examples in {seconds:.0f} s"
    )
    if not findings.runs and not findings.failed:
        print("nothing was tried: the time was up before the first test had ended")


def fuzz(seconds: float, workers: int, seed: int, selection: list[str], first: bool) -> int:
    """Run workers until the budget is spent; 1 where something failed, else 0."""
    begin = time.time()
    os.environ["PYTHONHASHSEED"] = str(seed)
    print(f"fuzzing for {seconds:.0f} s with {workers} workers from seed {seed}", flush=True)
    until, findings = begin + (1 - GRACE) * seconds, Findings()
    team = [start(count(seed + i, workers), until, selection) for i in range(workers)]
    try:
        listen(team, findings, begin + seconds, first)
    finally:
        for worker in team:
            stop(worker, findings)
    print_findings(findings, time.time() - begin)
    return 1 if findings.failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--first", action="store_true", help="end with the first failure")
    parser.add_argument("selection", nargs="*", help="files or tests, where not all are wanted")
    given = parser.parse_args()
    os.chdir(ROOT)
    return fuzz(given.seconds, given.workers, given.seed, given.selection, given.first)


if __name__ == "__main__":
    sys.exit(main())
