"""Training of a BiLSTM-CRF beside other programs: how much of its quiet speed `trellis train` keeps.

    python benchmarks/busy.py --train DATA/wnut17/wnut17train.conll [--processes 2] [--epochs 3] [--spins 10000 0]

It starts the other processes itself, which only compute, one per core at the same priority, and ends them. Each row is
`trellis train --model bilstm-crf` in a process of its own, with the environment named: threads that wait at a barrier
as the command line lets them, as OpenMP does by itself (GOMP_SPINCOUNT 300000), or for as many rounds as `--spins`
says. A fair share beside one process per core is 50 %. It ends with one sentence through the model, quiet and busy.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BUSY = "while True: sum(range(1000))"
_LATENCY = """
import sys, time, trellis
from trellis.cli import wait_asleep
wait_asleep()
tagger = trellis.load(sys.argv[1])
words = 'She lives in New York with Paul Smith and his dog .'.split()
tagger.predict([words])
times = []
for _ in range(200):
    begin = time.perf_counter()
    tagger.predict([words])
    times.append(time.perf_counter() - begin)
print(1000 * sorted(times)[len(times) // 2], 1000 * sorted(times)[-20])
"""


@contextmanager
def company(processes: int) -> Iterator[None]:
    """Processes that only compute, until the end of the block."""
    started = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def speed(train: Path, epochs: int, spins: str | None, folder: Path) -> float:
    """Tokens per second of the epochs after the first, which pays for waking up."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    if spins is not None:
        env["GOMP_SPINCOUNT"] = spins
    command = [sys.executable, "-m", "trellis", "train", "--model", "bilstm-crf", "--train", str(train)]
    command += ["--set", f"training.epochs={epochs}", "--out", str(folder)]
    subprocess.run(command, check=True, env=env, capture_output=True)
    steps = json.loads((folder / "history.json").read_text(encoding="utf-8"))["steps"]
    return statistics.median(step["tokens_per_second"] for step in steps[1:])


def latency(folder: Path) -> tuple[float, float]:
    """Milliseconds for one sentence: the median, and what nine of ten stay below."""
    found = subprocess.run([sys.executable, "-c", _LATENCY, str(folder)], check=True, capture_output=True, text=True)
    median, high = found.stdout.split()
    return float(median), float(high)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--spins", nargs="*", default=["300000"], help="GOMP_SPINCOUNT of further rows")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the other processes are ended, too
    print("| threads wait | quiet tokens/s | busy tokens/s | kept |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for number, spins in enumerate((None, *given.spins)):
            folder = Path(name, str(number))
            quiet = speed(given.train, given.epochs, spins, folder / "quiet")
            with company(given.processes):
                time.sleep(0.5)
                busy = speed(given.train, given.epochs, spins, folder / "busy")
            said = "as `trellis` sets it" if spins is None else f"GOMP_SPINCOUNT={spins}"
            print(f"| {said} | {quiet:,.0f} | {busy:,.0f} | {busy / quiet:.0%} |", flush=True)
        model = Path(name, "0", "quiet")
        quiet_ms = latency(model)
        with company(given.processes):
            busy_ms = latency(model)
    print(f"One sentence: quiet {quiet_ms[0]:.1f} ms (9 of 10 below {quiet_ms[1]:.1f}), ", end="")
    print(f"busy {busy_ms[0]:.1f} ms (9 of 10 below {busy_ms[1]:.1f})")


if __name__ == "__main__":
    main()
