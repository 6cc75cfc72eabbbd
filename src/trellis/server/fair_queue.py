"""The order in which parts of requests come to a model, as in fair queueing.

A part is what a model answers in one go: a few sentences of a request, with their number of tokens. Each has a key, the
time when it would be ready if its request had the model to itself:

    key of part i = time of arrival + tokens of parts 0..i / PACE

The smallest key comes first, and with it the next parts of its request as long as the batch has room: requests of up to
a batch are answered one after another, and not all at the end. Short requests overtake long ones, whose parts spread
out. Keys never change, so nobody waits forever. Parts of equal questions (same model, same options) share a batch.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

PACE = 20_000
"""Tokens per second by which long requests fall behind short ones."""


class Question(Hashable, Protocol):
    """What parts are asked; those of equal questions are answered together."""

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

    question: Question
    parts: Sequence[JobPart]
    finish: Callable[[list[Any]], Any]
    """Makes the answer of the answers to all parts; called in the batcher's thread."""
    seconds: float
    """In which the answer must be there; who asks keeps the time."""


class QueuedJob:
    """A job from its place in the queue to its answer."""

    __slots__ = ("answer", "answers", "begun", "job", "missing", "parts", "waiting")

    def __init__(self, job: BatchJob, answer: asyncio.Future[Any]) -> None:
        self.job, self.answer = job, answer
        self.parts = job.parts
        """Empty once the job has left the queue before they were all begun."""
        self.waiting = 0
        """Tokens of the parts that still wait."""
        self.begun = 0
        """How many parts do not wait any more."""
        self.missing = len(job.parts)
        """How many parts have no answer."""
        self.answers: list[Any] = [None] * len(job.parts)

    def take(self, index: int, answer: Any) -> bool:
        """Keep the answer to one part; whether there is now something to tell the client."""
        self.answers[index] = answer
        self.missing -= 1
        return self.missing == 0 or isinstance(answer, Exception)


Taken = tuple[QueuedJob, int, JobPart]
"""A job, and one of its parts with its number."""


class FairQueue:
    """Parts that wait, by question and key; not for several threads at a time."""

    def __init__(self) -> None:
        self._by_question: dict[Question, list[tuple[float, int, QueuedJob, int]]] = {}
        self._numbers = count()
        self.tokens = 0
        """Of all parts that wait."""

    def add(self, job: QueuedJob, now: float) -> None:
        """Let all parts of a job wait."""
        heap = self._by_question.setdefault(job.job.question, [])
        tokens = 0
        for i, part in enumerate(job.parts):
            tokens += part.tokens
            heapq.heappush(heap, (now + tokens / PACE, next(self._numbers), job, i))
        job.waiting = tokens
        self.tokens += tokens

    def remove(self, job: QueuedJob) -> None:
        """Forget a job; its entries in the heap are skipped when their turn comes."""
        self.tokens -= job.waiting
        job.waiting, job.parts = 0, ()

    def take(self, most: int) -> list[Taken]:
        """The next parts of one question, with at most so many tokens unless the first has more."""
        batch: list[Taken] = []
        while not batch and self._by_question:
            question = min(self._by_question, key=lambda own: self._by_question[own][0][:2])
            heap = self._by_question[question]
            while heap and (not batch or _fits(*heap[0][2:], most)):
                most -= self._move(*heapq.heappop(heap)[2:], most, batch)
            if not heap:
                del self._by_question[question]
        return batch

    def _move(self, job: QueuedJob, index: int, room: int, batch: list[Taken]) -> int:
        """Put a part into a batch, and those after it that fit; the tokens that they have.

        Nothing, if the job has left, or if the part went with one before it.
        """
        tokens = 0
        while job.begun == index < len(job.parts) and (not batch or tokens + job.parts[index].tokens <= room):
            batch.append((job, index, job.parts[index]))
            tokens += job.parts[index].tokens
            job.begun = index = index + 1
        job.waiting -= tokens
        self.tokens -= tokens
        return tokens


def _fits(job: QueuedJob, index: int, room: int) -> bool:
    return index < job.begun or index >= len(job.parts) or job.parts[index].tokens <= room
