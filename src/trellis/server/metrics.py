"""Figures for Prometheus: requests by address and status, batches, tokens, the queue; never texts."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter as Counted
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from trellis.server.batcher import BatchRecord

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder where the figures of several processes meet."""
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)


class Times(Histogram):
    """A histogram that counts many values at a time."""

    def observe_many(self, amounts: Sequence[float]) -> None:
        """Count each; by private fields of the histogram, if this version of prometheus-client has them."""
        if len(amounts) == 1 or not all(hasattr(self, name) for name in ("_upper_bounds", "_buckets", "_sum")):
            for amount in amounts:
                self.observe(amount)
            return
        found = Counted(bisect_left(self._upper_bounds, amount) for amount in amounts)
        for bucket, count in found.items():
            self._buckets[bucket].inc(count)
        self._sum.inc(sum(amounts))


class Metrics:
    """The figures of one server; of all processes, if there are several."""

    def __init__(self) -> None:
        own = CollectorRegistry()
        self._registry = own
        self._requests = Counter("trellis_requests", "Requests.", ("path", "status"), registry=own)
        self._seconds = Times(
            "trellis_request_seconds", "From a request to its answer.", ("path",), buckets=_SECONDS, registry=own
        )
        self._tokens = Counter("trellis_tokens", "Tokens that models answered.", registry=own)
        self._batch_tokens = Histogram("trellis_batch_tokens", "Tokens of a batch.", buckets=_TOKENS, registry=own)
        self._batch_jobs = Histogram("trellis_batch_requests", "Requests in a batch.", buckets=_TOKENS, registry=own)
        self._batch_seconds = Histogram("trellis_batch_seconds", "Time of a batch.", buckets=_SECONDS, registry=own)
        self._queued = Gauge("trellis_queued_tokens", "Tokens that wait.", registry=own, multiprocess_mode="livesum")
        self._waiting: Callable[[], int] = int
        self._known: dict[tuple[str, int], tuple[Counter, Times]] = {}
        self._reloads = Counter("trellis_reloads", "Models that were replaced while serving.", registry=own)

    def watch_queue(self, tokens: Callable[[], int]) -> None:
        """Where the number of waiting tokens comes from."""
        self._waiting = tokens

    def batch(self, record: BatchRecord) -> None:
        """Count a batch."""
        self._queued.set(self._waiting())
        self._tokens.inc(record.tokens)
        self._batch_tokens.observe(record.tokens)
        self._batch_jobs.observe(record.jobs)
        self._batch_seconds.observe(record.seconds)

    def request(self, path: str, status: int, *seconds: float) -> None:
        """Count a request, or several."""
        key = path, status
        if key not in self._known:
            self._known[key] = self._requests.labels(path, str(status)), self._seconds.labels(path)
        count, times = self._known[key]
        count.inc(len(seconds))
        times.observe_many(seconds)

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
