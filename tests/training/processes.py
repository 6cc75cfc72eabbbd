"""Processes that train together, started as torchrun starts them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# gloo prints to standard output from threads of its own, in the middle of what others print there.
_ALONE = "import os, sys\nsys.stdout = os.fdopen(os.dup(1), 'w')\nos.dup2(2, 1)\n"


def start(code: str, count: int, *arguments: str) -> list[subprocess.Popen]:
    """Python code in this many processes that can find each other."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    ours = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, "-c", _ALONE + code, *arguments],
            cwd=ROOT,
            env={**os.environ, **ours, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def finish(processes: list[subprocess.Popen]) -> list[tuple[int, str, str]]:
    """Exit code, standard output and standard error of each."""
    said = [process.communicate(timeout=300) for process in processes]
    return [(process.returncode, *own) for process, own in zip(processes, said, strict=True)]


def run(code: str, count: int, *arguments: str) -> list[str]:
    """What each of them printed; all must succeed."""
    outcomes = finish(start(code, count, *arguments))
    for returncode, _, errors in outcomes:
        assert returncode == 0, errors
    return [out for _, out, _ in outcomes]
