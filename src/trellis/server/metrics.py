"""Figures for Prometheus: requests by address and status, batches, tokens, the queue; never texts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trellis.server.batcher import BatchRecord

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder where the figures of several processes meet."""
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_NO_ANSWER = 499  # the client went away, or the server ended
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)


class Metrics:
    """The figures of one server; of all processes, if there are several."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        """`waiting` says how many tokens wait."""
        registry = self._registry = CollectorRegistry()
        self._waiting = waiting
        self._requests = Counter("trellis_requests", "Requests.", ("path", "status"), registry=registry)
        self._seconds = Histogram(
            "trellis_request_seconds", "From a request to its answer.", ("path",), buckets=_SECONDS, registry=registry
        )
        self._tokens = Counter("trellis_tokens", "Tokens that models answered.", registry=registry)
        self._batch_tokens = Histogram("trellis_batch_tokens", "Tokens of a batch.", buckets=_TOKENS, registry=registry)
        self._batch_jobs = Histogram(
            "trellis_batch_requests", "Requests in a batch.", buckets=_TOKENS, registry=registry
        )
        self._batch_seconds = Histogram(
            "trellis_batch_seconds", "Time of a batch.", buckets=_SECONDS, registry=registry
        )
        self._queued = Gauge(
            "trellis_queued_tokens", "Tokens that wait.", registry=registry, multiprocess_mode="livesum"
        )
        self.reloads = Counter("trellis_reloads", "Models that were replaced while serving.", registry=registry)

    def batch(self, record: BatchRecord) -> None:
        self._queued.set(self._waiting())
        self._tokens.inc(record.tokens)
        self._batch_tokens.observe(record.tokens)
        self._batch_jobs.observe(record.jobs)
        self._batch_seconds.observe(record.seconds)

    def request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """All figures, as Prometheus reads them."""
        self._queued.set(self._waiting())
        if FOLDER not in os.environ:
            return generate_latest(self._registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)


class RequestCounter:
    """Middleware that counts every answer, also those of other middleware; unknown addresses are counted together."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Collection[str]) -> None:
        self._app, self._metrics, self._paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        status, begin, path = _NO_ANSWER, time.perf_counter(), scope["path"]

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            known = path if path in self._paths else "other"
            self._metrics.request(known, status, time.perf_counter() - begin)


def forget_dead_workers() -> None:
    """Called by a worker when it starts: gauges of workers that have died do not count any more."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    for file in Path(folder).glob("*.worker"):
        try:
            os.kill(int(file.stem), 0)
        except ProcessLookupError:
            mark_process_dead(int(file.stem))  # type: ignore[no-untyped-call]
            with suppress(FileNotFoundError):
                file.unlink()
    (Path(folder) / f"{os.getpid()}.worker").touch()
