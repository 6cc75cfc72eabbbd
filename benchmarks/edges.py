"""Features of transitions (`B01:%x[0,0]`): training with and without them, and against Wapiti if there is one.

    python benchmarks/edges.py ../shared/data/ud_english_ewt --wapiti PATH/wapiti

Wapiti is built from its source with `make`. Both read the same template file. Times are seconds of CPU per iteration of
L-BFGS on one thread, each in a process of its own: the difference between a longer and a shorter training. Wapiti gives
weights to all pairs of labels of each attribute, Trellis to those that occur; so a third row has weights for all of
them in Trellis, too.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _harness import Bar, Row, Section, machine, write_json
from feature_crf import read_pos
from rich.console import Console

STATES = """\
U00:%x[0,0]
U01:%x[-1,0]
U02:%x[1,0]
U03:%x[-2,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]
B
"""
EDGES = STATES + "B01:%x[0,0]\n"
_SHORT, _LONG = 3, 13  # iterations
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TRELLIS_NUM_THREADS"), "1")


def sentences(source: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Words and tags of the training part of a UD treebank, or of a file of columns, the last of which are tags."""
    if source.is_dir():
        return read_pos(source, "train")
    blocks = source.read_text(encoding="utf-8").strip().split("\n\n")
    rows = [[line.split() for line in block.splitlines()] for block in blocks]
    return [[row[0] for row in own] for own in rows], [[row[-1] for row in own] for own in rows]


def train_trellis(source: Path, template: Path, *, every: bool) -> dict[str, Any]:
    """Seconds of CPU per iteration, weights and peak memory; run in a process of its own."""
    from trellis import chain
    from trellis.models import CRF

    chain.set_num_threads(1)
    X, y = sentences(source)
    spent: list[float] = []
    model = CRF(features=str(template), max_iterations=_LONG, scheme="plain", all_possible_edges=every)
    model.fit(X, y, progress=lambda _: spent.append(time.process_time()))
    p = model.parameters_
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    weights = len(p.weights) + int(p.weighted.sum()) + (0 if p.edges is None else len(p.edges.weights))
    return {"seconds": (spent[-1] - spent[_SHORT - 1]) / (_LONG - _SHORT), "weights": weights, "memory": memory}


def train_wapiti(program: Path, source: Path, template: Path, folder: Path) -> dict[str, Any]:
    """The same of Wapiti."""
    data = folder / "train.txt"
    parts = ("\n".join(map("\t".join, zip(x, y, strict=True))) for x, y in zip(*sentences(source), strict=True))
    data.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    spent, log = [], ""
    for iterations in (_SHORT, _LONG):
        command = [str(program), "train", "-a", "l-bfgs", "-1", "0", "-2", "2", "-t", "1", "-i", str(iterations)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        command += ["-p", str(template), str(data), str(folder / "model")]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        spent.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    weights = next(int(line.split()[-1]) for line in log.splitlines() if "nb features" in line)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"seconds": (spent[1] - spent[0]) / (_LONG - _SHORT), "weights": weights, "memory": memory}


def in_process(*arguments: str) -> dict[str, Any]:
    """Run this file again as a worker; its last line is the result."""
    command = [sys.executable, __file__, "--worker", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | _ONE_THREAD)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(source: Path, program: Path | None, folder: Path) -> Section:
    templates = {"states": folder / "states", "edges": folder / "edges"}
    for name, text in (("states", STATES), ("edges", EDGES)):
        templates[name].write_text(text, encoding="utf-8")
    worker = ["trellis", str(source)]
    runs = {
        "Trellis, U and B": in_process(*worker, str(templates["states"])),
        "Trellis, and B01:%x[0,0]": in_process(*worker, str(templates["edges"])),
        "the same, all pairs of labels": in_process(*worker, str(templates["edges"]), "every"),
    }
    bars = []
    if program is not None:
        rival = ("wapiti", str(source), str(program), str(folder))
        runs["Wapiti, U and B"] = in_process(*rival, str(templates["states"]))
        runs["Wapiti, and B01:%x[0,0]"] = in_process(*rival, str(templates["edges"]))
        _, ours, _, _, theirs = runs.values()
        bars = [Bar("times Wapiti's speed per iteration, with B01:%x[0,0]", theirs["seconds"] / ours["seconds"], 5)]
    rows: list[Row] = [
        {
            "system": name,
            "CPU s / iteration": run["seconds"],
            "weights": run["weights"],
            "peak memory, MB": run["memory"],
        }
        for name, run in runs.items()
    ]
    return Section(f"Training on {source.name}: L-BFGS, one thread", rows, bars)


def worker(kind: str, source: str, *rest: str) -> None:
    if kind == "wapiti":
        program, folder, template = map(Path, rest)
        print(json.dumps(train_wapiti(program, Path(source), template, folder)))
    else:
        print(json.dumps(train_trellis(Path(source), Path(rest[0]), every="every" in rest)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="folders of UD treebanks, or files of columns, tags last")
    parser.add_argument("--wapiti", type=Path, help="the program")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/edges.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sections = [compare(source, options.wapiti, Path(folder)) for source in options.data]
    for section in sections:
        section.show(Console())
    write_json(options.json, {"machine": machine(("trellis", "numpy")), "sections": [s.to_json() for s in sections]})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
    else:
        main()
