"""The token batcher: requests become batches for the one thread that runs the models.

    job = batcher.submit(question, parts, finish, seconds)      at once, or `OverloadedError`
    answer = await job.answer                                   what `finish` makes of the answers of all its parts

A part is what a model answers in one go: one sentence, with its number of tokens. Parts of equal questions (same model,
same options) share batches. An idle thread takes what there is; while it works, requests gather, and the next batch is
made of them. If requests come together, an idle thread lingers a moment for more; and behind a running batch a second
one waits only if it is full, so that the thread never waits for the event loop under load, and batches stay large.

Which part is next is decided as in fair queueing. Each has a key, the time when it would be ready if its request had
the thread to itself:

    key of part i = time of arrival + tokens of parts 0..i / PACE

The smallest key comes first: short requests overtake long ones, whose parts spread out. Keys never change, so nobody
waits forever.

The queue is bounded in tokens: a request that would lift it above the high mark is refused, and so is every other until
it has fallen to the low mark. A job whose client has gone, or whose time is over, leaves the queue at once.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import Any, Protocol

from trellis.server.limits import ServerLimits
from trellis.server.problems import OverloadedError, TooLateError, UnavailableError, problem_of

PACE = 20_000
"""Tokens per second by which long requests fall behind short ones."""


class Question(Hashable, Protocol):
    """What parts are asked; those of equal questions are answered together."""

    def answer(self, parts: Sequence[Any]) -> list[Any]:
        """The answer to each part; called in the batcher's thread."""


@dataclass(frozen=True, slots=True)
class QueuedPart:
    """One sentence of a job."""

    content: Any
    tokens: int


@dataclass(eq=False, slots=True)
class QueuedJob:
    """A request, from its place in the queue to its answer."""

    question: Question
    parts: Sequence[QueuedPart]
    finish: Callable[[list[Any]], Any]
    answer: asyncio.Future[Any]
    waiting: int
    """Tokens of the parts that still wait."""
    answers: list[Any] = field(default_factory=list)
    missing: int = 0
    """Parts without an answer."""

    def take(self, index: int, answer: Any) -> bool:
        """Keep the answer to one part; whether there is now something to tell the client."""
        self.answers[index] = answer
        self.missing -= 1
        return self.missing == 0 or isinstance(answer, Exception)


Entry = tuple[float, int, QueuedJob, int]
"""Key, number of arrival, job, and which of its parts."""
Taken = tuple[QueuedJob, int, QueuedPart]
"""A job, and one of its parts with its number."""
Told = tuple[QueuedJob, Any]
"""A job and its answer or error."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What a batch was, for those who watch."""

    parts: int
    jobs: int
    tokens: int
    seconds: float


class Batcher:
    """The queue and its thread; all methods are called in the event loop."""

    def __init__(self, limits: ServerLimits, watch: Callable[[BatchRecord], None] | None = None) -> None:
        self._limits, self._watch = limits, watch
        self._lanes: dict[Question, list[Entry]] = {}
        self._numbers = count()
        self._jobs: set[QueuedJob] = set()
        self._thread: Executor = ThreadPoolExecutor(1, thread_name_prefix="trellis-model")
        self._running = 0
        self._crowded = False
        self._timer: asyncio.Handle | None = None
        self._refusing = self._stopping = False
        self._speed = float(PACE)
        self._changed = asyncio.Event()
        self.queued = 0
        """Tokens that wait."""

    def submit(
        self, question: Question, parts: Sequence[QueuedPart], finish: Callable[[list[Any]], Any], seconds: float
    ) -> QueuedJob:
        """Put a request into the queue; its answer, or its error, comes within `seconds`."""
        tokens = sum(part.tokens for part in parts)
        self._admit(tokens)
        loop = asyncio.get_running_loop()
        job = QueuedJob(question, parts, finish, loop.create_future(), tokens, [None] * len(parts), len(parts))
        self._jobs.add(job)
        timer = loop.call_later(seconds, self._expire, job, seconds)
        job.answer.add_done_callback(lambda _: self._leave(job, timer))
        self._enqueue(job, loop.time())
        if not parts:
            self._tell([(job, finish([]))])
        self._look()
        return job

    async def room(self) -> None:
        """Wait until the queue has fallen to its low mark: for those who can wait instead of being refused."""
        while self.queued > self._limits.low_tokens and not self._stopping:
            self._changed.clear()
            await self._changed.wait()

    async def drain(self) -> None:
        """Refuse new requests, and wait until all others are answered."""
        self._stopping = True
        while self._jobs:
            self._changed.clear()
            await self._changed.wait()

    def close(self) -> None:
        """Let the thread end with its batch; whoever still waits is told."""
        self._stopping = True
        for job in tuple(self._jobs):
            self._tell([(job, UnavailableError("the server is stopping"))])
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _admit(self, tokens: int) -> None:
        if self._stopping:
            raise UnavailableError("the server is stopping", retry_after=1)
        limits = self._limits
        self._refusing = self._refusing and self.queued > limits.low_tokens
        # A request of any allowed size fits into an empty queue, though its k best may weigh more than the mark.
        if self._refusing or (self.queued and self.queued + tokens > limits.high_tokens):
            self._refusing = True
            wait = math.ceil(max(0, self.queued - limits.low_tokens) / self._speed)
            problem = f"{self.queued} tokens wait already: expected at most {limits.high_tokens} with this request"
            raise OverloadedError(problem, retry_after=min(max(wait, 1), 60))

    def _enqueue(self, job: QueuedJob, now: float) -> None:
        self.queued += job.waiting
        lane = self._lanes.setdefault(job.question, []) if job.parts else []
        for i, tokens in enumerate(accumulate(part.tokens for part in job.parts)):
            heapq.heappush(lane, (now + tokens / PACE, next(self._numbers), job, i))

    def _expire(self, job: QueuedJob, seconds: float) -> None:
        self._tell([(job, TooLateError(f"there was no answer within {seconds:g} seconds", retry_after=1))])

    def _leave(self, job: QueuedJob, timer: asyncio.TimerHandle) -> None:
        """Forget a job that is answered, late or cancelled; what of it is still in the queue is skipped later."""
        timer.cancel()
        self._jobs.discard(job)
        self.queued -= job.waiting
        job.waiting, job.parts = 0, ()
        self._changed.set()

    def _look(self) -> None:
        """Start what may start now, or say when to look again."""
        while self._running < 2 and self.queued >= self._limits.batch_tokens and self._start():
            pass
        if self._running == 0 and self._lanes and self._timer is None:
            delay = self._limits.linger if self._crowded else 0.0
            self._timer = asyncio.get_running_loop().call_later(delay, self._lingered)

    def _lingered(self) -> None:
        self._timer = None
        if self._running == 0:
            self._start()

    def _start(self) -> bool:
        """Give the thread the next batch, if there is one."""
        batch = self._next_batch()
        if batch:
            self._running += 1
            self._crowded = len({id(job) for job, _, _ in batch}) > 1
            done = asyncio.get_running_loop().run_in_executor(self._thread, _work, batch)
            done.add_done_callback(self._finished)
        return bool(batch)

    def _next_batch(self) -> list[Taken]:
        """Parts of the question whose first part has the smallest key, up to the tokens of a batch."""
        batch: list[Taken] = []
        tokens = 0
        while not batch and self._lanes:
            question = min(self._lanes, key=lambda own: self._lanes[own][0][:2])
            lane = self._lanes[question]
            while lane and (taken := _first(lane, self._limits.batch_tokens - tokens if batch else None)) is not None:
                batch += taken
                for job, _, part in taken:
                    tokens += part.tokens
                    job.waiting -= part.tokens
                heapq.heappop(lane)
            if not lane:
                del self._lanes[question]
        self.queued -= tokens
        return batch

    def _finished(self, done: asyncio.Future[tuple[list[Told], BatchRecord]]) -> None:
        self._running -= 1
        if done.cancelled():
            return
        told, record = done.result()
        self._speed = 0.9 * self._speed + 0.1 * record.tokens / max(record.seconds, 1e-6)
        self._tell(told)
        self._changed.set()
        if self._watch is not None:
            self._watch(record)
        self._look()

    def _tell(self, told: list[Told]) -> None:
        for job, answer in told:
            if job.answer.done():
                continue
            if isinstance(answer, Exception):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)


def _first(lane: list[Entry], room: int | None) -> list[Taken] | None:
    """The first part of a lane, as a list that is empty if its job has left; None if there is no room for it."""
    _, _, job, index = lane[0]
    if job.answer.done():
        return []
    part = job.parts[index]
    return [(job, index, part)] if room is None or part.tokens <= room else None


def _work(batch: list[Taken]) -> tuple[list[Told], BatchRecord]:
    """Answer a batch, in the thread; a job is finished here too, as its answer may be long."""
    begin = time.perf_counter()
    alive = [taken for taken in batch if not taken[0].answer.done()]
    told = []
    answers = _answers(alive[0][0].question, [part.content for _, _, part in alive]) if alive else []
    for (job, i, _), answer in zip(alive, answers, strict=True):
        if job.take(i, answer) and not job.answer.done():
            told.append((job, _finished_job(job, i, answer)))
    tokens, jobs = sum(part.tokens for _, _, part in alive), {id(job) for job, _, _ in alive}
    return told, BatchRecord(len(alive), len(jobs), tokens, time.perf_counter() - begin)


def _answers(question: Question, parts: list[Any]) -> list[Any]:
    """Answers or errors: where a batch fails, each part is asked alone, so that others are not harmed."""
    try:
        return question.answer(parts)
    except Exception as error:
        if len(parts) == 1:
            return [error]
        return [_answers(question, [part])[0] for part in parts]


def _finished_job(job: QueuedJob, index: int, answer: Any) -> Any:
    if isinstance(answer, Exception):
        problem = problem_of(answer)
        if len(job.answers) > 1 and problem is not answer:
            problem.input = index
        problem.__cause__ = answer
        return problem
    try:
        return job.finish(job.answers)
    except Exception as error:
        problem = problem_of(error)
        problem.__cause__ = error
        return problem
