"""Servers in processes of their own for `benchmarks/serve.py`, their clients, and what they cost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Pair = tuple[str, str]
"""The body of a request, and the end of the answer to it."""


@contextmanager
def server(place: Path, *options: object) -> Iterator[tuple[int, int]]:
    """Port and process of a server."""
    command = [sys.executable, "-m", "trellis", "serve", f"model={place}", "--port", "0", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        port = int(line.split("http://")[1].split()[0].rpartition(":")[2])
        try:
            while not _answers_at(port):
                time.sleep(0.05)
            yield port, process.pid
        finally:
            process.terminate()


@contextmanager
def litserve(place: Path) -> Iterator[int]:
    """Port of a LitServe; it consists of several processes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(HERE / "_litserve.py"), str(port), str(place)]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while process.poll() is None and not _answers_at(port):
                time.sleep(0.2)
            yield port
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _answers_at(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def load(port: int, clients: int, seconds: float, pairs: Sequence[Pair], place: Path, *more: object) -> dict[str, Any]:
    """What clients in a process of their own saw."""
    file = place.with_suffix(".json")
    file.write_text(json.dumps(pairs))
    command = [
        sys.executable,
        str(HERE / "_load.py"),
        str(port),
        str(clients),
        str(seconds),
        str(file),
        *map(str, more),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def memory(process: int, *, proportional: bool = False) -> float:
    """Resident megabytes of a process and its children; proportional ones count a shared page in part."""
    file, name = ("smaps_rollup", "Pss:") if proportional else ("status", "VmRSS:")
    lines = Path(f"/proc/{process}/{file}").read_text().splitlines()
    own = float(next(line for line in lines if line.startswith(name)).split()[1]) / 1024
    return own + sum(memory(child, proportional=proportional) for child in children(process))


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def post_lines(port: int, body: bytes) -> bytes:
    """The answer to JSON Lines, read while they are sent."""
    head = (
        "POST /v1/tag?probabilities=false HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sending = threading.Thread(target=sock.sendall, args=(head.encode() + body,))
        sending.start()
        with sock.makefile("rb") as stream:
            while stream.readline().strip():
                pass
            pieces = []
            while size := int(stream.readline(), 16):
                pieces.append(stream.read(size))
                stream.readline()
        sending.join()
    return b"".join(pieces)


def processor_seconds(process: int) -> float:
    """The time that all threads of a process and its children have computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(processor_seconds, children(process)))
