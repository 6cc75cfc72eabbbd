"""Trainings that are killed at random moments: is a model lost, or another one learned than without the kill?

    make faults              30 kills, some minutes
    make faults KILLS=210    what the figures in docs/decisions are from

Each trial trains a feature CRF, an HMM by EM or a BiLSTM-CRF on a demo corpus in a process of its own, half of them in
a folder with an older model, and kills it (SIGKILL, every fifth time SIGTERM) after a random time, now and then twice.
After each kill the folder must hold the model that was there or the whole new one (after SIGTERM, the best so far).
The training is then started again, resumed
if there are checkpoints, and must leave the very bytes of an uninterrupted one and nothing else.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

import trellis
from trellis import corpus, demo
from trellis.cli import main as command_line
from trellis.models import HMM, NeuralTagger

SENTENCES = 240  # to learn from; enough for trainings of a few seconds
MODEL = "model.safetensors"
COMPARED = (MODEL, "config.toml")
BILSTM = (
    *("encoder.hidden=16", "encoder.words.size=16", "training.epochs=4", "training.checkpoint_every=4"),
    *("training.batch_size=16", "training.averaging=ema"),
)


def crf(folder: Path, older: bool, resume: bool) -> None:
    train("crf", folder, ("c2=0.3" if older else "c2=0.1", "max_iterations=60"), resume)


def bilstm(folder: Path, older: bool, resume: bool) -> None:
    train("bilstm-crf", folder, (*BILSTM, f"training.seed={7 if older else 1}"), resume)


def hmm(folder: Path, older: bool, resume: bool) -> None:
    """EM, since every other label is unknown; the command line has no way to say that."""
    sentences = demo.english().train[:SENTENCES]
    half = [[tag if i % 2 else None for i, tag in enumerate(s.tags or ())] for s in sentences]
    model = HMM(max_iterations=60, tolerance=0.0, alpha=0.5 if older else 0.1, smoothing="additive")
    model.fit([s.tokens for s in sentences], half, dev=demo.english().dev, folder=folder)


def train(model: str, folder: Path, settings: tuple[str, ...], resume: bool) -> None:
    files = [f"--{role}={folder.parents[1] / 'data' / f'english-{role}.conll'}" for role in ("train", "dev")]
    options = [*(f"--set={setting}" for setting in settings), *(["--resume"] if resume else []), "--quiet"]
    command_line(["train", "-m", model, *files, "--out", str(folder), *options])


FAMILIES: dict[str, Callable[[Path, bool, bool], None]] = {"crf": crf, "hmm (EM)": hmm, "bilstm-crf": bilstm}


@dataclass
class Family:
    """One kind of training: what it leaves when nothing happens to it, and how long it takes."""

    name: str
    whole: Path
    older: Path
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def run(self, folder: Path, *, older: bool = False, resume: bool = False) -> int:
        """Start a training in a child; its process number."""
        return start(partial(FAMILIES[self.name], folder, older, resume), folder.with_suffix(".log"))

    def expect(self, held: bool, problem: str) -> None:
        if not held:
            self.problems.append(f"{self.name}: {problem}")


def start(work: Callable[[], object], log: Path) -> int:
    """Fork a child that does the work and exits; what it says goes to a file."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """How a child ended: its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def prepare(name: str, place: Path) -> Family:
    """Train without interruption: the model to compare with, and an older one."""
    family = Family(name, place / f"{name} whole", place / f"{name} older", 0.0)
    assert ended(family.run(family.older, older=True)) == 0, family.older.with_suffix(".log").read_text()
    begin = time.perf_counter()
    assert ended(family.run(family.whole)) == 0, family.whole.with_suffix(".log").read_text()
    family.seconds = time.perf_counter() - begin
    again = place / f"{name} again"
    assert ended(family.run(again)) == 0
    family.expect(contents(again) == contents(family.whole), "two uninterrupted trainings differ")
    return family


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in COMPARED if (folder / name).exists()}


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def trial(family: Family, folder: Path, rng: random.Random) -> None:
    """One training that is killed once or twice and then left alone."""
    if rng.random() < 0.5:
        shutil.copytree(family.older, folder)
    if not kill(family, folder, rng):
        return  # it was faster than the signal
    while rng.random() < 0.3 and kill(family, folder, rng):
        family.counts["second kills"] += 1
    resume = resumable(folder)
    family.counts["resumed" if resume else "started again"] += 1
    code = ended(family.run(folder, resume=resume))
    family.expect(code == 0, f"{folder.name}: starting again gave exit code {code}")
    equal = contents(folder) == contents(family.whole)
    family.counts["other bytes"] += not equal
    family.expect(equal, f"{folder.name}: the model or its settings differ from those of an uninterrupted training")
    family.expect(names(folder) == names(family.whole), f"{folder.name}: left {names(folder)}")


def kill(family: Family, folder: Path, rng: random.Random) -> bool:
    """Kill a training at a random moment, and look at what it leaves; False if it had ended by then."""
    before = contents(folder).get(MODEL)
    gently = family.name != "hmm (EM)" and rng.random() < 0.2
    child = family.run(folder, resume=resumable(folder))
    time.sleep(rng.uniform(0.0, family.seconds))
    os.kill(child, signal.SIGTERM if gently else signal.SIGKILL)
    code = ended(child)
    if code == 0:
        return False
    family.counts["SIGTERM" if gently else "SIGKILL"] += 1
    expected = (143, -signal.SIGTERM) if gently else (-signal.SIGKILL,)  # before its handler is there, a signal kills
    family.expect(code in expected, f"{folder.name}: the exit code is {code}")
    look(family, folder, before, gently)
    return True


def look(family: Family, folder: Path, before: bytes | None, gently: bool) -> None:
    """After a kill: the model that was there or the whole new one, and checkpoints that are not given up.

    A signal that lets the training end in good order may leave the best model so far.
    """
    model = contents(folder).get(MODEL)
    kept = model in (before, contents(family.whole)[MODEL])
    if gently and model is not None and not kept:
        kept = ended(start(lambda: trellis.load(folder), folder.with_suffix(".log"))) == 0
    family.counts["models lost"] += not kept
    family.expect(kept, f"{folder.name}: the model that was there is lost, or a part of one is in its place")
    if resumable(folder):
        there = names(folder)
        code = ended(family.run(folder))
        family.expect(code == 1, f"{folder.name}: an unfinished training was not refused, exit code {code}")
        gone = {name for name in set(there) - set(names(folder)) if not Path(name).name.startswith(".")}
        family.expect(not gone, f"{folder.name}: refused, and yet gone: {gone}")


def resumable(folder: Path) -> bool:
    return next(folder.glob("checkpoints/checkpoint-*.safetensors"), None) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    load_all()
    with tempfile.TemporaryDirectory(prefix="trellis-faults-") as temporary:
        work = Path(temporary)
        (work / "runs").mkdir()
        (work / "data").mkdir()
        for role in ("train", "dev"):
            corpus.write(work / "data" / f"english-{role}.conll", getattr(demo.english(), role)[:SENTENCES])
        families = [prepare(name, work / "runs") for name in FAMILIES]
        for family in families:
            say(f"{family.name}: an uninterrupted training takes {family.seconds:.1f} s")
        run_trials(families, work / "runs", given.kills, random.Random(given.seed))
        report(families)
    sys.exit(any(family.problems for family in families))


def load_all() -> None:
    """Have torch load here what it loads late, and not in every child; with one thread, forks stay safe."""
    trellis.set_num_threads(1)
    torch.set_num_threads(1)
    NeuralTagger(training={"epochs": 1}).fit(demo.english().train[:4])


def run_trials(families: list[Family], place: Path, kills: int, rng: random.Random) -> None:
    number = 0
    while (done := sum(signals(family) for family in families)) < kills:
        family = families[number % len(families)]
        folder = place / str(number)
        trial(family, folder, rng)
        if not any(f"{number}:" in problem for problem in family.problems):
            shutil.rmtree(folder, ignore_errors=True)
        number += 1
        if number % 10 == 0:
            say(f"{done} kills")


def signals(family: Family) -> int:
    return family.counts["SIGKILL"] + family.counts["SIGTERM"]


def report(families: list[Family]) -> None:
    columns = ("SIGKILL", "SIGTERM", "second kills", "resumed", "started again", "models lost", "other bytes")
    say(f"{'':12}" + "".join(f"{column:>15}" for column in columns))
    for family in families:
        say(f"{family.name:12}" + "".join(f"{family.counts[column]:>15}" for column in columns))
    for problem in (problem for family in families for problem in family.problems):
        say(problem)
    lost, other = (sum(family.counts[name] for family in families) for name in ("models lost", "other bytes"))
    count = sum(map(signals, families))
    wrong = sum(len(family.problems) for family in families)
    say(f"{count} kills, {lost} models lost, {other} with other bytes, {wrong} problems")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
