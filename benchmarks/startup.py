"""How long the command line takes to start: `trellis --help`, and `trellis tag` of one line with a feature CRF.

    python benchmarks/startup.py ../shared/data/ud_chinese_gsd

Each command is a process of its own; the best of several runs counts. Python has compiled all modules before, as pip
does when it installs a package, whatever PYTHONDONTWRITEBYTECODE says here. Beside them: Python that imports NumPy.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _harness import Bar, Row, Section, machine, make_console, write_json
from feature_crf import read_pos

from trellis import chain, corpus
from trellis.models import CRF

RESULTS = Path(__file__).parent / "results" / "startup.json"
ROUNDS = 15


def children() -> float:
    """CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def best(command: list[str], place: Path) -> tuple[float, float]:
    """Wall and CPU seconds of the fastest run, after one that compiles."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(place / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    runs = []
    for _ in range(1 + ROUNDS):
        begin, used = time.perf_counter(), children()
        subprocess.run(command, check=True, capture_output=True, env=environment)
        runs.append((time.perf_counter() - begin, children() - used))
    return min(wall for wall, _ in runs[1:]), min(cpu for _, cpu in runs[1:])


def section(folder: Path, place: Path) -> Section:
    train = [corpus.sentence_from_words(words) for words in read_pos(folder, "train")[0]]
    chain.set_num_threads(2)
    CRF(features="seg", max_iterations=30).fit(train).save(place / "model")
    (place / "text").write_text("".join(train[0].tokens) + "\n", encoding="utf-8")
    trellis = [sys.executable, "-m", "trellis"]
    commands = {
        "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
        "trellis --help": [*trellis, "--help"],
        "trellis tag, feature CRF": [*trellis, "tag", str(place / "model"), str(place / "text"), "--quiet"],
    }
    times = {name: best(command, place) for name, command in commands.items()}
    rows: list[Row] = [{"command": name, "wall, s": wall, "CPU, s": cpu} for name, (wall, cpu) in times.items()]
    limits = {"trellis --help": 0.15, "trellis tag, feature CRF": 0.35}
    bars = [Bar(f"seconds, {name}", times[name][0], limit, at_least=False) for name, limit in limits.items()]
    size = (place / "model").stat().st_size / 1e6
    note = f"The model segments Chinese and has {size:.1f} MB."
    return Section(f"Start of the command line, best of {ROUNDS}", rows, bars, note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chinese", type=Path, help="folder of UD Chinese-GSD")
    folder = parser.parse_args().chinese
    with tempfile.TemporaryDirectory() as place:
        found = section(folder, Path(place))
    found.show(make_console())
    write_json(RESULTS, {"machine": machine(("trellis-crf", "numpy", "typer")), "sections": [found.to_json()]})


if __name__ == "__main__":
    main()
