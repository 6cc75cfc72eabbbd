"""A server in a process of its own, as a shell would start it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
            try:
                status, content = self.ask(path, value)
                if wanted(content):
                    return status, content
            except OSError:
                pass
            assert time.monotonic() < end, f"{path} did not become what was wanted"
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and what it said."""
        self.process.send_signal(how)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, self.said()

    def said(self) -> str:
        """What it has written to standard error so far."""
        self.errors.seek(0)
        return self.errors.read()


def running(*arguments: object) -> AbstractContextManager[Running]:
    """A server on a free port."""
    return started([sys.executable, "-c", PROGRAM, "serve", *map(str, arguments), "--port", "0"])


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
