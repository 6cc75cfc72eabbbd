"""The order in which parts of requests come to a model, as in fair queueing.

A part is what a model answers in one go: a few sentences of a request, with their number of tokens. Each has a key, the
time when it would be ready if its request had the model to itself:

    key of part i = time of arrival + tokens of parts 0..i / PACE

The smallest key comes first. Short requests overtake long ones, whose parts spread out. Keys never change, so nobody
waits forever. Parts of equal inferences (same model, same options) share a batch.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

PACE = 20_000
"""Tokens per second by which long requests fall behind short ones."""


class Inference(Hashable, Protocol):
    """What parts are asked for; those of equal inferences are answered together."""

    def answer(self, parts: Sequence[Any]) -> list[Any]:
        """The answer to each part; called in the batcher's thread."""

    def sentences(self, part: Any) -> Sequence[Any]:
        """Each sentence of a part as a part of its own, to find the one that cannot be answered."""


class JobPart(NamedTuple):
    """Some sentences of a job."""

    content: Any
    tokens: int
    first: int = 0
    """The number of its first sentence in the request."""


class BatchJob(NamedTuple):
    """A request as the batcher takes it."""

    inference: Inference
    parts: Sequence[JobPart]
    finish: Callable[[list[Any]], Any]
    """Makes the answer of the answers to all parts; called in the batcher's thread."""
    seconds: float
    """In which the answer must be there; who asks keeps the time."""


class QueuedJob:
    """A job from its place in the queue to its answer."""

    __slots__ = ("answer", "answers", "job", "missing", "waiting")

    def __init__(self, job: BatchJob, answer: asyncio.Future[Any]) -> None:
        self.job, self.answer = job, answer
        self.answers: list[Any] = [None] * len(job.parts)
        self.missing = len(job.parts)
        """How many parts have no answer."""
        self.waiting = sum([part.tokens for part in job.parts])
        """Tokens of the parts that wait; 0 once the job has left the queue."""


QueuedPart = tuple[QueuedJob, int, JobPart]
"""A job, and one of its parts with its number."""


class FairQueue:
    """Parts that wait, by inference and key; not for several threads at a time."""

    def __init__(self) -> None:
        self._heaps: dict[Inference, list[tuple[float, int, QueuedPart]]] = {}
        self._numbers = count()
        self.tokens = 0
        """Of all parts that wait."""

    def add(self, job: QueuedJob, now: float) -> None:
        """Let all parts of a job wait."""
        heap = self._heaps.setdefault(job.job.inference, [])
        key = now
        for i, part in enumerate(job.job.parts):
            key += part.tokens / PACE
            heapq.heappush(heap, (key, next(self._numbers), (job, i, part)))
        self.tokens += job.waiting

    def remove(self, job: QueuedJob) -> None:
        """Forget a job; its parts are skipped when their turn comes."""
        self.tokens -= job.waiting
        job.waiting = 0

    def take(self, most: int) -> list[QueuedPart]:
        """The next parts of one inference, with at most so many tokens unless the first has more."""
        batch: list[QueuedPart] = []
        while not batch and self._heaps:
            inference = min(self._heaps, key=lambda own: self._heaps[own][0][:2])
            heap = self._heaps[inference]
            while heap:
                job, _, part = heap[0][2]
                if job.waiting:
                    if batch and part.tokens > most:
                        break
                    batch.append(heap[0][2])
                    job.waiting -= part.tokens
                    self.tokens -= part.tokens
                    most -= part.tokens
                heapq.heappop(heap)
            if not heap:
                del self._heaps[inference]
        return batch
