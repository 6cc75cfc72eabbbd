"""The order in which parts of requests come to a model, as in fair queueing.

A part is what a model answers in one go: a few sentences of a request, with their number of tokens. Each has a key, the
time when it would be ready if its request had the model to itself:

    key of part i = time of arrival + tokens of parts 0..i / PACE

The smallest key comes first, and with it the next parts of its request as long as the batch has room: requests of up to
a batch are answered one after another, and not all at the end. Short requests overtake long ones, whose parts spread
out. Keys never change, so nobody waits forever. Parts of equal questions (same model, same options) share a batch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

from trellis.server.alarms import Alarm

PACE = 20_000
"""Tokens per second by which long requests fall behind short ones."""


class Question(Hashable, Protocol):
    """What parts are asked; those of equal questions are answered together."""

    def answer(self, parts: Sequence[Any]) -> list[Any]:
        """The answer to each part; called in the batcher's thread."""

    def sentences(self, part: Any) -> Sequence[Any]:
        """Each sentence of a part as a part of its own, to find the one that cannot be answered."""


class QueuedPart(NamedTuple):
    """Some sentences of a job."""

    content: Any
    tokens: int
    first: int = 0
    """The number of its first sentence in the request."""
    turn: int = 0
    """Tokens that decide on its turn, where that are not all of it."""


class AnswerPlace(Protocol):
    """Where the answer to a request goes: a future, or something that costs less."""

    def done(self) -> bool:
        """Whether it is there, or nobody waits for it."""

    def set_result(self, result: Any, /) -> None:
        """The answer."""

    def set_exception(self, exception: Exception, /) -> None:
        """The error instead of it."""


class QueuedJob(Alarm):
    """A request, from its place in the queue to its answer; it rings when its time, `seconds` in all, is over.

    `parts` is empty once the job has left the queue before they were all begun, `waiting` the tokens of those that
    still wait, `begun` the number of those that do not, `missing` of those without an answer, `requests` how many
    clients it is for.
    """

    __slots__ = (
        "_expire",
        "answer",
        "answers",
        "begun",
        "finish",
        "missing",
        "parts",
        "question",
        "requests",
        "seconds",
        "waiting",
    )

    def __init__(
        self,
        question: Question,
        parts: Sequence[QueuedPart],
        finish: Callable[[list[Any]], Any],
        answer: AnswerPlace,
        when: float,
        seconds: float,
        expire: Callable[[QueuedJob], None],
        requests: int = 1,
    ) -> None:
        self.question, self.finish, self.answer = question, finish, answer
        self.parts: Sequence[QueuedPart] = parts
        self.when, self.seconds, self._expire = when, seconds, expire
        self.waiting, self.begun, self.requests = 0, 0, requests
        self.missing = len(parts)
        self.answers: list[Any] = [None] * len(parts)

    def ring(self) -> None:
        """Tell that it is too late."""
        self._expire(self)

    def take(self, index: int, answer: Any) -> bool:
        """Keep the answer to one part; whether there is now something to tell the client."""
        self.answers[index] = answer
        self.missing -= 1
        return self.missing == 0 or isinstance(answer, Exception)


Taken = tuple[QueuedJob, int, QueuedPart]
"""A job, and one of its parts with its number."""


class FairQueue:
    """Parts that wait, by question and key; not for several threads at a time."""

    def __init__(self) -> None:
        self._lanes: dict[Question, list[tuple[float, int, QueuedJob, int]]] = {}
        self._numbers = count()
        self.tokens = 0
        """Of all parts that wait."""

    def add(self, job: QueuedJob, now: float) -> None:
        """Let all parts of a job wait."""
        lane = self._lanes.setdefault(job.question, [])
        tokens = 0
        for i, part in enumerate(job.parts):
            tokens += part.tokens
            heapq.heappush(lane, (now + (part.turn or tokens) / PACE, next(self._numbers), job, i))
        job.waiting = tokens
        self.tokens += tokens

    def remove(self, job: QueuedJob) -> None:
        """Forget a job; its places in the lanes are skipped when their turn comes."""
        self.tokens -= job.waiting
        job.waiting, job.parts = 0, ()

    def shrink(self, job: QueuedJob, tokens: int) -> None:
        """Forget some tokens of a job of one part, if it still waits."""
        if job.waiting:
            job.parts = [job.parts[0]._replace(tokens=job.parts[0].tokens - tokens)]
            job.waiting -= tokens
            self.tokens -= tokens

    def take(self, most: int) -> list[Taken]:
        """The next parts of one question, with at most so many tokens unless the first has more."""
        batch: list[Taken] = []
        while not batch and self._lanes:
            question = min(self._lanes, key=lambda own: self._lanes[own][0][:2])
            lane = self._lanes[question]
            while lane and (not batch or _fits(*lane[0][2:], most)):
                most -= self._move(*heapq.heappop(lane)[2:], most, batch)
            if not lane:
                del self._lanes[question]
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
