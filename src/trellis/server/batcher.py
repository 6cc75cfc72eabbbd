"""The token batcher: requests become batches for the one thread that runs the models.

    answer = batcher.submit(job)    at once, or the problem `overloaded`
    await answer                    what the job makes of the answers to all its parts; cancelled, it leaves the queue

As soon as the thread is free it takes the next batch itself: everything that gathered while it worked, up to the tokens
of a batch. An idle thread is woken when the event loop has put in all requests that it found at a time, and a moment
later if the batch before had more of them. The loop never waits for the thread, nor the thread for the loop.

The queue is bounded in tokens: a request that would lift it above the high mark is refused, and so is every other until
it has fallen to the low mark. The marks are lower for a slow model, so that what is accepted can be answered in time.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeVar

from trellis.server.limits import ServerLimits
from trellis.server.problems import RequestError, problem_of

PACE = 20_000
"""Tokens per second by which long requests fall behind short ones."""
A = TypeVar("A")
B = TypeVar("B")


class Inference(Hashable, Protocol):
    """What parts are asked for; those of equal inferences are answered together."""

    def answer(self, parts: Sequence[Any]) -> list[Any]:
        """The answer to each part; called in the batcher's thread."""

    def sentences(self, part: Any) -> Sequence[Any]:
        """Each sentence of a part as a part of its own, to find the one that cannot be answered."""


class JobPart(NamedTuple):
    """Some sentences of a job, which a model answers in one go."""

    content: Any
    tokens: int
    first: int = 0
    """The number of its first sentence in the request."""


@dataclass(eq=False, slots=True)
class BatchJob:
    """A request as the batcher takes it; each is submitted once."""

    inference: Inference
    parts: Sequence[JobPart]
    finish: Callable[[list[Any]], Any]
    """Makes the answer of the answers to all parts; called in the batcher's thread."""
    seconds: float
    """The seconds in which the answer must be there; the caller keeps the time."""
    waiting: int = field(init=False)
    """Tokens of the parts that wait; 0 once the job has left the queue."""
    answers: list[Any] = field(init=False)
    """The answer to each part; None while it is missing."""
    missing: int = field(init=False)
    future: asyncio.Future[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = sum([part.tokens for part in self.parts])
        self.answers, self.missing = [None] * len(self.parts), len(self.parts)


QueuedPart = tuple[BatchJob, int, JobPart]
"""A job, and one of its parts with its number."""


class FairQueue:
    """The order in which parts come to a model; not for several threads at a time.

    Each part has a key, the time when it would be ready if its request had the model to itself:

        key of part i = time of arrival + tokens of parts 0..i / PACE

    The smallest key comes first. Short requests overtake long ones, whose parts spread out. Keys never change, so
    nobody waits forever. Parts of equal inferences (same model, same options) share a batch.
    """

    def __init__(self) -> None:
        self._heaps: dict[Inference, list[tuple[float, int, QueuedPart]]] = {}
        self._numbers = count()
        self.tokens = 0
        """The tokens of all parts that wait."""

    def add(self, job: BatchJob, now: float) -> None:
        """Let all parts of a job wait."""
        heap = self._heaps.setdefault(job.inference, [])
        key = now
        for i, part in enumerate(job.parts):
            key += part.tokens / PACE
            heapq.heappush(heap, (key, next(self._numbers), (job, i, part)))
        self.tokens += job.waiting

    def remove(self, job: BatchJob) -> None:
        """Forget a job; its parts are skipped when their turn comes."""
        self.tokens -= job.waiting
        job.waiting = 0

    def take(self, most: int) -> list[QueuedPart]:
        """The next parts of one inference, with at most so many tokens unless the first has more."""
        batch: list[QueuedPart] = []
        while not batch and self._heaps:
            inference = min(self._heaps, key=lambda key: self._heaps[key][0][:2])
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


class BatchRecord(NamedTuple):
    """What a batch was, for metrics."""

    jobs: int
    tokens: int
    seconds: float


class Batcher:
    """The queue and its thread; all public methods are called in the event loop."""

    def __init__(self, limits: ServerLimits, watch: Callable[[BatchRecord], None] | None = None) -> None:
        self._limits, self._watch = limits, watch
        self._queue, self._lock = FairQueue(), threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trellis-model")
        self._busy = self._waking = False  # whether a batch was given to the thread, or is about to be
        self._linger: asyncio.TimerHandle | None = None
        self._arrived, self._company = 0, 1  # requests since the last batch, and those of the last batch
        self._jobs: set[BatchJob] = set()
        self._calls: set[asyncio.Future[Any]] = set()  # of `in_thread`
        self._refusing = self._draining = self._stopping = False
        self._changed = asyncio.Event()
        self.set_speed(math.inf)

    @property
    def queued(self) -> int:
        """Tokens that wait."""
        return self._queue.tokens

    def submit(self, job: BatchJob) -> asyncio.Future[Any]:
        """Put a request into the queue; cancelling the future withdraws it."""
        loop = asyncio.get_running_loop()
        job.future = loop.create_future()
        self._check(job.waiting, closed=self._stopping)
        if not job.parts:
            self._tell([(job, job.finish([]))])
            return job.future
        job.future.add_done_callback(lambda done: self._leave([job]) if done.cancelled() else None)
        self._jobs.add(job)
        with self._lock:
            self._queue.add(job, loop.time())
            self._arrived += 1
        if not self._busy and not self._waking:
            self._waking = True
            loop.call_soon(self._wake, loop)  # after the requests that came together with this one
        return job.future

    def in_thread(self, function: Callable[[A], B], argument: A) -> asyncio.Future[B]:
        """What a function returns, called in the model's thread between two batches.

        Tokens that are decoded there are in the caches of the core that needs them: to fetch them from the core of the
        event loop would take half as long as a feature CRF needs to tag them.
        """
        if self._draining:
            raise _stopping()
        call = asyncio.get_running_loop().run_in_executor(self._thread, function, argument)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    def admit(self) -> None:
        """Refuse a request if too many tokens wait: before it is read, which costs more than to refuse it."""
        self._check(1, closed=self._draining)

    def _check(self, tokens: int, *, closed: bool) -> None:
        if closed:
            raise _stopping()
        queued = self._queue.tokens
        self._refusing = self._refusing and queued > self._low
        # A request of any allowed size fits into an empty queue, though its k best may weigh more than the mark.
        if self._refusing or (queued and queued + tokens > self._high):
            self._refusing = True
            wait = math.ceil(max(0, queued - self._low) / self._speed)
            message = f"{queued} tokens wait already: expected at most {self._high} with this request"
            raise RequestError("overloaded", message, retry_after=min(max(wait, 1), 60))

    async def submit_patiently(self, job: BatchJob) -> asyncio.Future[Any]:
        """Put a request into the queue when that has fallen to its low mark, instead of being refused."""
        while True:
            while self.queued > self._low and not self._stopping:
                self._changed.clear()
                await self._changed.wait()
            try:
                return self.submit(job)
            except RequestError as error:
                if error.code != "overloaded":
                    raise
                await asyncio.sleep(0.01)

    async def drain(self) -> None:
        """Refuse new requests, and wait until all others are answered, also those that are just being read."""
        self._draining = True
        while self._calls:
            await asyncio.wait(self._calls)
        self._stopping = True
        while self._jobs:
            await asyncio.wait([job.future for job in self._jobs])

    def close(self) -> None:
        """Let the thread end with its batch; requests that still wait get an error."""
        self._draining = self._stopping = True
        self._tell([(job, _stopping()) for job in self._jobs])
        self._thread.shutdown(wait=False, cancel_futures=True)

    def set_speed(self, tokens_per_second: float) -> None:
        """Bound the queue by the speed of the model: at most what it tags in half the timeout of a request may wait."""
        limits = self._limits
        self._speed = tokens_per_second
        self._high = int(min(limits.high_tokens, max(self._speed * limits.seconds / 2, limits.batch_tokens)))
        self._low = min(limits.low_tokens, self._high // 2)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a batch: at once if as many requests wait as the batch before had, otherwise after a moment."""
        self._waking = False
        full = self._queue.tokens >= self._limits.batch_tokens
        if full or self._arrived >= self._company:
            self._begin(loop)
        elif self._linger is None:
            self._linger = loop.call_later(self._limits.linger, self._begin, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._queue.tokens and not self._busy:
            self._busy = True
            self._thread.submit(self._run_batch, loop)

    def _run_batch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer a batch in the thread; called again while more waits."""
        with self._lock:
            self._arrived = 0
            batch = self._queue.take(self._limits.batch_tokens)
        answers, record = _answered(batch)
        with self._lock:
            self._company = max(1, record.jobs)
            self._busy = more = bool(self._queue.tokens)
        with suppress(RuntimeError):  # the thread or the loop is closed, and nobody waits
            if more:
                self._thread.submit(self._run_batch, loop)
            loop.call_soon_threadsafe(self._tell, answers, record)

    def _leave(self, jobs: Sequence[BatchJob]) -> None:
        """Forget jobs that are answered or not wanted any more."""
        for job in jobs:
            self._jobs.discard(job)
            if job.waiting:
                with self._lock:
                    self._queue.remove(job)
        self._changed.set()

    def _tell(self, answers: list[tuple[BatchJob, Any]], record: BatchRecord | None = None) -> None:
        """Give answers or errors to those who wait for them."""
        self._leave([job for job, _ in answers])
        for job, answer in answers:
            if job.future.done():
                continue
            if isinstance(answer, Exception):
                job.future.set_exception(answer)
            else:
                job.future.set_result(answer)
        if record is not None:
            speed = record.tokens / max(record.seconds, 1e-6)
            self.set_speed(speed if math.isinf(self._speed) else 0.9 * self._speed + 0.1 * speed)
            if self._watch is not None:
                self._watch(record)


def _stopping() -> RequestError:
    return RequestError("unavailable", "the server is stopping", retry_after=1)


def _answered(batch: list[QueuedPart]) -> tuple[list[tuple[BatchJob, Any]], BatchRecord]:
    """Jobs that a batch completes, with their answers or errors, which are made in the thread, as they may be long."""
    begin = time.perf_counter()
    completed: list[tuple[BatchJob, Any]] = []
    answers = _ask(batch[0][0].inference, [part.content for _, _, part in batch]) if batch else []
    for (job, i, part), answer in zip(batch, answers, strict=True):
        if not job.answers:
            continue  # a part of it was refused before
        job.answers[i] = answer
        job.missing -= 1
        if isinstance(answer, Exception):
            completed.append((job, _refusal(job, part, answer)))
        elif not job.missing and not job.future.done():
            try:
                completed.append((job, job.finish(job.answers)))
            except Exception as error:
                completed.append((job, problem_of(error)))
    for job, _ in completed:
        # Tokens and tags are freed in the thread that made them, and not later in that of the event loop.
        job.parts, job.answers, job.finish = (), [], list
    tokens = sum(part.tokens for _, _, part in batch)
    return completed, BatchRecord(len({id(job) for job, _, _ in batch}), tokens, time.perf_counter() - begin)


def _ask(inference: Inference, parts: Sequence[Any]) -> list[Any]:
    """Answers or errors: where a batch fails, each part is asked alone, so that others are not harmed."""
    try:
        answers = inference.answer(parts)
        assert len(answers) == len(parts)
        return answers
    except Exception as error:
        if len(parts) == 1:
            return [error]
        return [_ask(inference, [part])[0] for part in parts]


def _refusal(job: BatchJob, part: JobPart, error: Exception) -> RequestError:
    """The problem of a part, with the number of the sentence at fault if the job has several."""
    sentences = job.inference.sentences(part.content)
    number = part.first if len(job.answers) > 1 and len(sentences) == 1 else None
    if len(sentences) > 1:
        for i, sentence in enumerate(sentences):
            (answer,) = _ask(job.inference, [sentence])
            if isinstance(answer, Exception):
                number, error = part.first + i, answer
                break
    problem = problem_of(error)
    if problem is not error:
        problem.input = number
    return problem
