"""A server in a process of its own, as a shell would start it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

PROGRAM = "from trellis.cli import main; main()"
PATIENCE = 60.0


@dataclass
class Running:
    process: subprocess.Popen[str]
    port: int
    url: str
    errors: IO[str]

    def raw(self, *data: bytes, answers: int = 1, half_close: bool = False, seconds: float = 1.0) -> bytes:
        """What comes back for these bytes until the server closes, or for some seconds without a byte.

        Those count from the moment when so many answers have begun. Of several pieces, each is sent when the one before
        has been answered.
        """
        found = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as sock, suppress(OSError):
            for piece in data[:-1]:
                sock.sendall(piece)
                found += sock.recv(65536)
            sock.sendall(data[-1])
            if half_close:
                sock.shutdown(socket.SHUT_WR)
            while True:
                sock.settimeout(seconds if found.count(b"HTTP/1.1 ") >= answers else PATIENCE)
                piece = sock.recv(65536)
                if not piece:
                    break
                found += piece
        return found

    def workers(self) -> list[int]:
        """The processes that answer."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def ask(self, path: str, value: Any = None, *, timeout: float = PATIENCE) -> tuple[int, Any]:
        """Status and content of an answer; with a value it is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            body = None if value is None else json.dumps(value)
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request("GET" if body is None else "POST", path, body, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        return response.status, json.loads(content) if "json" in response.headers["content-type"] else content

    def until(self, path: str, wanted: Any, value: Any = None) -> Any:
        """Ask until the answer is as wanted."""
        end = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError):
                status, content = self.ask(path, value)
                if wanted(content):
                    return status, content
            assert time.monotonic() < end, f"{path} did not become what was wanted"
            time.sleep(0.01)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and what it said."""
        self.process.send_signal(how)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, self.said()

    def said(self) -> str:
        """What it has written to standard error so far."""
        self.errors.seek(0)
        return self.errors.read()


def until(wanted: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.01)


def running(*arguments: object, before: str = "") -> AbstractContextManager[Running]:
    """A server on a free port; `before` is a program that it runs first."""
    program = f"{before}\n{PROGRAM}"
    return started([sys.executable, "-c", program, "serve", *map(str, arguments), "--port", "0"])


def serving(runner: str, model: Path, limits: str = "", key: str | None = None) -> AbstractContextManager[Running]:
    """A server with its own limits, run by granian or by uvicorn."""
    program = f"""
from trellis.server import ModelRegistry, ServerLimits, ServerSettings, create_app
from trellis.server.runner import free_port, run
from trellis.server.security import Keys
registry = ModelRegistry({{"ner": {str(model)!r}}})
settings = ServerSettings(ServerLimits({limits}), keys=Keys({[key] if key else []}))
port = free_port("127.0.0.1", 0)
print(f"http://127.0.0.1:{{port}}", flush=True)
if {runner!r} == "granian":
    run(registry, settings, "127.0.0.1", port)
else:
    import uvicorn
    # Whatever else is installed: httptools, uvloop.
    uvicorn.run(create_app(registry, settings), port=port, log_level="error", http="h11", loop="asyncio")
"""
    return started([sys.executable, "-c", program])


@contextmanager
def started(command: Sequence[str], place: Path | None = None) -> Iterator[Running]:
    """A server that says at which address it listens."""
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe that nobody reads would stop the server once it is full
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=place)
    try:
        assert process.stdout is not None
        found = None
        for line in process.stdout:
            found = re.search(r"(http://\S+):(\d+)", line)
            if found:
                break
        server = Running(process, int(found[2]) if found else 0, f"{found[1]}:{found[2]}" if found else "", errors)
        assert found, server.said()
        server.until("/readyz", lambda content: content["status"] == "ready")
        yield server
    finally:
        process.kill()
        process.communicate()
        errors.close()
