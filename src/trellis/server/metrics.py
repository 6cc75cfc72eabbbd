"""Figures for Prometheus: requests by address and status, batches, tokens, the queue; never texts."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from trellis.server.batcher import BatchRecord

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder where the figures of several processes meet."""
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)


class Metrics:
    """The figures of one server; of all processes, if there are several."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        """`waiting` says how many tokens wait."""
        own = CollectorRegistry()
        self._registry, self._waiting = own, waiting
        self._requests = Counter("trellis_requests", "Requests.", ("path", "status"), registry=own)
        self._seconds = Histogram(
            "trellis_request_seconds", "From a request to its answer.", ("path",), buckets=_SECONDS, registry=own
        )
        self._tokens = Counter("trellis_tokens", "Tokens that models answered.", registry=own)
        self._batch_tokens = Histogram("trellis_batch_tokens", "Tokens of a batch.", buckets=_TOKENS, registry=own)
        self._batch_jobs = Histogram("trellis_batch_requests", "Requests in a batch.", buckets=_TOKENS, registry=own)
        self._batch_seconds = Histogram("trellis_batch_seconds", "Time of a batch.", buckets=_SECONDS, registry=own)
        self._queued = Gauge("trellis_queued_tokens", "Tokens that wait.", registry=own, multiprocess_mode="livesum")
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._reloads = Counter("trellis_reloads", "Models that were replaced while serving.", registry=own)

    def batch(self, record: BatchRecord) -> None:
        """Count a batch."""
        self._queued.set(self._waiting())
        self._tokens.inc(record.tokens)
        self._batch_tokens.observe(record.tokens)
        self._batch_jobs.observe(record.jobs)
        self._batch_seconds.observe(record.seconds)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = path, status
        if key not in self._known:
            self._known[key] = self._requests.labels(path, str(status)), self._seconds.labels(path)
        count, times = self._known[key]
        count.inc()
        times.observe(seconds)

    def reloaded(self, count: int) -> None:
        """Count models that were replaced."""
        self._reloads.inc(count)

    def text(self) -> bytes:
        """All figures, as Prometheus reads them."""
        self._queued.set(self._waiting())
        if FOLDER not in os.environ:
            return generate_latest(self._registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)


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
