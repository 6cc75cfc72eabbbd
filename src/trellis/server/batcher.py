"""The token batcher: requests become batches for the one thread that runs the models.

    answer = batcher.submit(job)    at once, or the problem `overloaded`
    await answer                    what the job makes of the answers to all its parts; cancelled, it leaves the queue

The thread takes the next batch itself as soon as it is free: everything that gathered while it worked, up to the
tokens of a batch, in the order of `trellis.server.fair_queue`. An idle thread is woken when the event loop has put in
all requests that it found at a time, and waits a moment longer if the batch before had more of them.
The event loop never waits for the thread, and the thread never for the loop.

The queue is bounded in tokens: a request that would lift it above the high mark is refused, and so is every other until
it has fallen to the low mark. The marks are lower for a slow model, so that what is accepted can be answered in time.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from trellis.server.fair_queue import BatchJob, FairQueue, Inference, JobPart, QueuedJob, QueuedPart
from trellis.server.limits import ServerLimits
from trellis.server.problems import RequestError, problem_of

Told = tuple[QueuedJob, Any]
"""A job and its answer or error."""


class BatchRecord(NamedTuple):
    """What a batch was, for metrics."""

    jobs: int
    tokens: int
    seconds: float


class Batcher:
    """The queue and its thread; all public methods are called in the event loop."""

    def __init__(self, limits: ServerLimits, watch: Callable[[BatchRecord], None] | None = None) -> None:
        self._limits, self._watch = limits, watch
        self._queue, self._lock = FairQueue(), threading.Condition(threading.Lock())
        self._idle = self._waking = False
        self._arrived, self._company = 0, 1  # requests since the last batch, and those of the last batch
        self._thread: threading.Thread | None = None
        self._jobs: set[QueuedJob] = set()
        self._refusing = self._stopping = self._closed = False
        self._changed = asyncio.Event()
        self.set_speed(math.inf)

    @property
    def queued(self) -> int:
        """Tokens that wait."""
        return self._queue.tokens

    @property
    def idle(self) -> bool:
        """Whether the thread waits for requests."""
        return self._idle

    def submit(self, job: BatchJob) -> asyncio.Future[Any]:
        """Put a request into the queue; whoever does not want the answer any more cancels it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        queued = QueuedJob(job, answer)
        self.admit(queued.waiting)
        if not job.parts:
            self._tell([(queued, job.finish([]))])
            return answer
        answer.add_done_callback(lambda done: self._leave([queued]) if done.cancelled() else None)
        self._jobs.add(queued)
        with self._lock:
            self._queue.add(queued, loop.time())
            self._arrived += 1
        if self._idle and not self._waking:
            self._waking = True
            loop.call_soon(self._wake)  # after the requests that came together with this one
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, args=(loop,), name="trellis-model", daemon=True)
            self._thread.start()
        return answer

    def admit(self, tokens: int = 1) -> None:
        """Refuse so many tokens if too many wait; also before a request is read, which costs more than to refuse it."""
        if self._stopping:
            raise RequestError("unavailable", "the server is stopping", retry_after=1)
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
        """Refuse new requests, and wait until all others are answered."""
        self._stopping = True
        while self._jobs:
            self._changed.clear()
            await self._changed.wait()

    def close(self) -> None:
        """Let the thread end with its batch; whoever still waits is told."""
        self._stopping = True
        self._tell([(job, RequestError("unavailable", "the server is stopping")) for job in self._jobs])
        with self._lock:
            self._closed = True
            self._lock.notify()

    def set_speed(self, tokens_per_second: float) -> None:
        """Set the high and the low mark: no more may wait than a slow model answers in half the time of a request."""
        limits = self._limits
        self._speed = tokens_per_second
        self._high = int(min(limits.high_tokens, max(self._speed * limits.seconds / 2, limits.batch_tokens)))
        self._low = min(limits.low_tokens, self._high // 2)

    def _wake(self) -> None:
        self._waking = False
        with self._lock:
            self._lock.notify()

    def _leave(self, jobs: Iterable[QueuedJob]) -> None:
        """Forget jobs that are answered or not wanted any more."""
        for job in jobs:
            self._jobs.discard(job)
            if job.waiting:
                with self._lock:
                    self._queue.remove(job)
        self._changed.set()

    def _tell(self, told: list[Told], record: BatchRecord | None = None) -> None:
        """Give answers to those who wait for them."""
        self._leave([job for job, _ in told])
        for job, answer in told:
            if job.answer.done():
                continue
            if isinstance(answer, Exception):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)
        if record is not None:
            speed = record.tokens / max(record.seconds, 1e-6)
            self.set_speed(speed if math.isinf(self._speed) else 0.9 * self._speed + 0.1 * speed)
            if self._watch is not None:
                self._watch(record)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread: batch after batch until it is closed."""
        while not self._closed:
            batch = self._next()
            if batch:
                told, record = answered(batch)
                self._company = record.jobs
                with suppress(RuntimeError):  # the loop is closed, and nobody waits
                    loop.call_soon_threadsafe(self._tell, told, record)

    def _next(self) -> list[QueuedPart]:
        """What waits now; if nothing does, what comes next, and with it as much as came last time, if that is soon."""
        with self._lock:
            if not self._queue.tokens:
                self._idle = True
                self._lock.wait_for(lambda: self._queue.tokens or self._closed)
                self._lock.wait_for(self._has_company, self._limits.linger)
                self._idle = False
            self._arrived = 0
            return self._queue.take(self._limits.batch_tokens)

    def _has_company(self) -> bool:
        full = self._queue.tokens >= self._limits.batch_tokens
        return full or self._arrived >= self._company or self._closed


def answered(batch: list[QueuedPart]) -> tuple[list[Told], BatchRecord]:
    """The answers of a batch. A job is finished here too, in the thread, as its answer may be long."""
    begin = time.perf_counter()
    answers = _answers(batch[0][0].job.inference, [part.content for _, _, part in batch])
    told: list[Told] = []
    for (job, i, part), answer in zip(batch, answers, strict=True):
        job.answers[i] = answer
        job.missing -= 1
        if (job.missing == 0 or isinstance(answer, Exception)) and not job.answer.done():
            told.append((job, _finished(job, part, answer)))
    tokens = sum(part.tokens for _, _, part in batch)
    return told, BatchRecord(len({id(job) for job, _, _ in batch}), tokens, time.perf_counter() - begin)


def _answers(inference: Inference, parts: list[Any]) -> list[Any]:
    """Answers or errors: where a batch fails, each part is asked alone, so that others are not harmed."""
    try:
        found = inference.answer(parts)
        assert len(found) == len(parts)
        return found
    except Exception as error:
        if len(parts) == 1:
            return [error]
        return [_answers(inference, [part])[0] for part in parts]


def _finished(job: QueuedJob, part: JobPart, answer: Any) -> Any:
    """The answer to a job, or its problem with the number of the sentence at fault."""
    if not isinstance(answer, Exception):
        try:
            return job.job.finish(job.answers)
        except Exception as error:
            return problem_of(error)
    sentences = job.job.inference.sentences(part.content)
    if len(sentences) == 1:
        return _about(answer, part.first if len(job.answers) > 1 else None)
    for i, sentence in enumerate(sentences):
        alone = _answers(job.job.inference, [sentence])[0]
        if isinstance(alone, Exception):
            return _about(alone, part.first + i)
    return problem_of(answer)


def _about(error: Exception, number: int | None) -> RequestError:
    """The problem of one sentence."""
    problem = problem_of(error)
    if problem is not error:
        problem.input = number
    return problem
