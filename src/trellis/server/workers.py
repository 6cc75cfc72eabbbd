"""Processes, sockets and signals: one process that serves, or a parent that keeps several serving.

The parent opens the models once and forks, so that the workers share their memory; a worker opens a file again only
when it has changed. All of them accept from one socket. A worker that dies is replaced, and the others go on meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from types import FrameType
from typing import Any

import uvicorn

from trellis.errors import ConfigError
from trellis.server.app import ServerSettings, create_app
from trellis.server.protocol import patient_protocol
from trellis.server.shelf import ModelShelf

_LOG = logging.getLogger("trellis.server")
_SWITCH = 0.0005
"""Seconds after which a thread lets others run: the event loop must not wait long for the model's thread."""
_GARBAGE = 50_000
"""Objects that may gather until the garbage collector looks at them."""
_PATIENCE = 5.0
"""Seconds that a worker has beyond the longest request to end by itself."""


def listening(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen at {host}, port {port}: {error}") from None
    # Connections inherit it. Without it, answers of two packets wait 40 ms for the client's word on the first.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def run(shelf: ModelShelf, settings: ServerSettings, sock: socket.socket, workers: int = 1) -> None:
    """Serve until a signal comes, which is answered after the requests that are under way."""
    if workers == 1:
        serve_here(shelf, settings, sock)
    else:
        Parent(lambda parent: serve_here(shelf, settings, sock, parent), workers, settings.limits.seconds).run()


def serve_here(shelf: ModelShelf, settings: ServerSettings, sock: socket.socket, parent: int | None = None) -> None:
    """Serve in this process."""
    sys.setswitchinterval(_SWITCH)
    settle_memory()
    server = uvicorn.Server(uvicorn_config(shelf, settings))

    async def serve() -> None:
        watching = asyncio.ensure_future(_follow(parent, server))
        await server.serve(sockets=[sock])
        watching.cancel()

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(serve())


def settle_memory() -> None:
    """Let the garbage collector never look again at what exists now, which also would copy it for each worker.

    Requests leave no cycles behind, so it need not come often either: it took a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def uvicorn_config(shelf: ModelShelf, settings: ServerSettings) -> uvicorn.Config:
    """How uvicorn runs the application."""
    app = create_app(shelf, settings)
    return uvicorn.Config(
        app,
        http=patient_protocol(settings.limits, app),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # a line per malformed request would let anybody fill the disk
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(settings.limits.seconds + 1),
    )


async def _follow(parent: int | None, server: uvicorn.Server) -> None:
    """Stop if the parent is gone: nobody would start or stop this worker any more."""
    while parent is not None and not server.should_exit:
        await asyncio.sleep(1.0)
        server.should_exit = server.should_exit or os.getppid() != parent


class Parent:
    """Keeps a number of workers alive until it is told to stop."""

    def __init__(self, work: Callable[[int], None], count: int, seconds: float) -> None:
        self._work, self._count, self._patience = work, count, seconds + _PATIENCE
        self._context = multiprocessing.get_context("fork")
        self._workers: list[Any] = []
        self._stopping = False

    def run(self) -> None:
        """Start workers, replace those that die, and pass a signal on to all of them."""
        settle_memory()  # before the workers share it
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not self._stopping:
                self._bury()
                while len(self._workers) < self._count and not self._stopping:
                    self._start()
                wait([worker.sentinel for worker in self._workers], timeout=0.5)
            self._end()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self) -> None:
        worker = self._context.Process(target=self._child, args=(os.getpid(),))
        worker.start()
        self._workers.append(worker)

    def _child(self, parent: int) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self._work(parent)

    def _bury(self) -> None:
        """Forget the workers that have ended; one that cannot start must not keep the machine busy with trying."""
        ended = [worker for worker in self._workers if not worker.is_alive()]
        for worker in ended:
            _LOG.error("worker %s ended with code %s and is replaced", worker.pid, worker.exitcode)
            self._workers.remove(worker)
            time.sleep(0.1)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _end(self) -> None:
        for worker in self._workers:
            if worker.is_alive():
                worker.terminate()
        end = time.monotonic() + self._patience
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))
            if worker.is_alive():
                worker.kill()
                worker.join()
