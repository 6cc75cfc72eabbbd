"""A feature CRF whose sentences are on disk: memory and time of one copy of a corpus and of ten.

    python benchmarks/out_of_core.py ../shared/data/ud_english_ewt

Each training is a process of its own. Total memory is its peak resident set, mapped pages of the scratch file included;
RssAnon is the part that is not backed by a file, sampled every 10 ms. Times are CPU times: of an iteration, the first
quartile; of everything before the first iteration ends, the sum.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

from _harness import Bar, Row, Section, machine, make_console, write_json

RESULTS = Path(__file__).parent / "results" / "out_of_core.json"


def memory(name: str) -> float:
    """A figure of /proc/self/status, in MB. `ru_maxrss` would count the process that started this one as well."""
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) / 1024


class AnonymousMemory(threading.Thread):
    """The highest RssAnon of this process so far, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0.0

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, memory("RssAnon"))
            time.sleep(0.01)


def train(path: Path, out_of_core: bool, iterations: int) -> Row:
    """What one training takes; in a process of its own."""
    from trellis import CRF, corpus

    anonymous = AnonymousMemory()
    anonymous.start()
    begin, times = time.process_time(), []
    stream = corpus.iterate(path)
    model = CRF(features="pos", max_iterations=iterations, out_of_core=out_of_core, scratch=str(path.parent))
    model.fit(stream if out_of_core else list(stream), progress=lambda step: times.append(time.process_time()))
    taken = sorted(b - a for a, b in pairwise(times))
    return {
        "seconds per iteration": taken[len(taken) // 4],
        "seconds before": times[0] - begin,
        "peak memory, MB": memory("VmHWM"),
        "peak RssAnon, MB": anonymous.peak,
        "loss": model.history_.loss,
    }


def write_copies(ewt: Path, path: Path, copies: int) -> int:
    """The training part this many times; returns how many tokens that is."""
    from trellis import corpus

    text = next(ewt.glob("*train*.conllu")).read_text(encoding="utf-8")
    path.write_text(text * copies, encoding="utf-8")
    return copies * sum(map(len, corpus.read(next(ewt.glob("*train*.conllu")))))


def measure(ewt: Path, iterations: int, copies: int) -> Section:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count, where in ((1, "memory"), (1, "disk"), (copies, "disk")):
            path = Path(folder, f"{count}.conllu")
            tokens = write_copies(ewt, path, count)
            command = [sys.executable, __file__, str(path), "--child", where, "--iterations", str(iterations)]
            row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            each = {"µs per token and iteration": row.pop("seconds per iteration") / tokens * 1e6}
            each["µs per token before"] = row.pop("seconds before") / tokens * 1e6
            rows.append({"copies": count, "sentences in": where, **each, **row})
    one, many = rows[0], rows[-1]
    bars = [
        Bar(f"{name}, {copies} copies on disk to one in memory", many[name] / one[name], limit, at_least=False)
        for name, limit in (
            ("peak memory, MB", 1.5),
            ("peak RssAnon, MB", 1.5),
            ("µs per token and iteration", 1.3),
            ("µs per token before", 1.3),
        )
    ]
    return Section(f"UD English-EWT, parts of speech, {iterations} iterations", rows, bars)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("english", type=Path, help="folder of UD English-EWT")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--child", choices=("memory", "disk"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(train(options.english, options.child == "disk", options.iterations)))
        return
    section = measure(options.english, options.iterations, options.copies)
    section.show(make_console())
    write_json(options.json, {"machine": machine(("trellis", "numpy")), "sections": [section.to_json()]})


if __name__ == "__main__":
    main()
