"""The token batcher: requests become batches for the one thread that runs the models.

    answer = batcher.submit(question, parts, finish, seconds)   at once, or `OverloadedError`
    await answer                                                what `finish` makes of the answers of all its parts

The thread takes the next batch itself as soon as it is free: everything that gathered while it worked, up to the
tokens of a batch, in the order of `trellis.server.queueing`. An idle thread is woken when the event loop has put in all
requests that it found at a time, and waits a moment longer if the batch before had more of them.
The event loop never waits for the thread, and the thread never for the loop.

The queue is bounded in tokens: a request that would lift it above the high mark is refused, and so is every other until
it has fallen to the low mark. The marks are lower for a slow model, so that what is accepted can be answered in time. A
job whose client has gone, or whose time is over, leaves the queue at once.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trellis.caching import cached
from trellis.server.alarms import AlarmSet
from trellis.server.limits import ServerLimits
from trellis.server.problems import OverloadedError, RequestError, TooLateError, UnavailableError, problem_of
from trellis.server.queueing import AnswerPlace, FairQueue, Question, QueuedJob, QueuedPart, Taken

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
    """The queue and its thread; all public methods are called in the event loop."""

    def __init__(self, limits: ServerLimits, watch: Callable[[BatchRecord], None] | None = None) -> None:
        self._limits, self._watch = limits, watch
        self._queue, self._mutex = FairQueue(), threading.Lock()  # the queue is touched under the lock only
        self._lock = threading.Condition(self._mutex)  # the same; to take it by this costs more
        self._idle = self._waking = False
        self._arrived, self._company = 0, 1  # requests since the last batch, and those of the last batch
        self._thread: threading.Thread | None = None
        self._jobs: AlarmSet[QueuedJob] = AlarmSet()
        self._refusing = self._stopping = self._closed = False
        self._measure(math.inf)
        self._then: list[Callable[[], None]] = []
        self._changed = asyncio.Event()

    @cached
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The one that it is used in: to ask for it each time costs a call of the system."""
        return asyncio.get_running_loop()

    def then(self, function: Callable[[], None]) -> None:
        """Call a function whenever answers were given."""
        self._then.append(function)

    def now(self) -> float:
        """The time by the clock of the event loop."""
        return self._loop.time()

    @property
    def queued(self) -> int:
        """Tokens that wait."""
        return self._queue.tokens

    def submit(
        self, question: Question, parts: Sequence[QueuedPart], finish: Callable[[list[Any]], Any], seconds: float
    ) -> asyncio.Future[Any]:
        """Put a request into the queue; its answer, or its error, comes within `seconds`."""
        answer = self._loop.create_future()
        job = self.put(question, parts, finish, seconds, answer)
        answer.add_done_callback(lambda _: self.leave(job))  # who cancels it wants no answer any more
        return answer

    def put(
        self,
        question: Question,
        parts: Sequence[QueuedPart],
        finish: Callable[[list[Any]], Any],
        seconds: float,
        answer: AnswerPlace,
        *,
        requests: int = 1,
    ) -> QueuedJob:
        """The same, with a place for the answer. Whoever does not want it any more lets the job leave."""
        self.admit(parts[0].tokens if len(parts) == 1 else sum([part.tokens for part in parts]))
        loop = self._loop
        now = loop.time()
        job = QueuedJob(question, parts, finish, answer, now + seconds, seconds, self._expire, requests)
        if not parts:
            self._tell([(job, finish([]))])
            return job
        self._jobs.set(loop, job)
        with self._mutex:
            self._queue.add(job, now)
            self._arrived += requests
        if self._idle and not self._waking:
            self._waking = True
            loop.call_soon(self._wake)  # after the requests that came together with this one
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, args=(loop,), name="trellis-model", daemon=True)
            self._thread.start()
        return job

    def shrink(self, job: QueuedJob, tokens: int) -> None:
        """Some tokens of a job of one part are not asked about any more."""
        if job.answer.done():
            self.leave(job)
            return
        with self._mutex:
            self._queue.shrink(job, tokens)

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function that puts requests, after those that the event loop has found by now."""
        self._waking = True
        self._loop.call_soon(self._wake, function)

    def leave(self, job: QueuedJob) -> None:
        """Forget a job whose answer nobody wants."""
        if job in self._jobs:
            self._leave([job])

    def _wake(self, before: Callable[[], None] | None = None) -> None:
        if before is not None:
            before()
        self._waking = False
        with self._lock:
            self._lock.notify()

    async def room(self) -> None:
        """Wait until the queue has fallen to its low mark: for those who can wait instead of being refused."""
        while self.queued > self._low and not self._stopping:
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
        self._tell([(job, UnavailableError("the server is stopping")) for job in self._jobs])
        with self._lock:
            self._closed = True
            self._lock.notify()

    @property
    def refuses(self) -> bool:
        """Whether requests were refused of late: then it is worth to `admit` one before it is read."""
        return self._refusing or self._stopping

    def admit(self, tokens: int = 1, gathered: int = 0) -> None:
        """Refuse so many tokens if too many wait; also before a request is read, which costs more than to refuse it.

        `gathered` are tokens that will be put soon.
        """
        if self._stopping:
            raise UnavailableError("the server is stopping", retry_after=1)
        queued = self._queue.tokens + gathered
        self._refusing = self._refusing and queued > self._low
        # A request of any allowed size fits into an empty queue, though its k best may weigh more than the mark.
        if self._refusing or (queued and queued + tokens > self._high):
            self._refusing = True
            wait = math.ceil(max(0, queued - self._low) / self._speed)
            problem = f"{queued} tokens wait already: expected at most {self._high} with this request"
            raise OverloadedError(problem, retry_after=min(max(wait, 1), 60))

    def _measure(self, speed: float) -> None:
        """Set the high and the low mark: no more may wait than a slow model answers in half the time of a request."""
        limits = self._limits
        self._speed = speed  # tokens per second, of late
        self._high = int(min(limits.high_tokens, max(speed * limits.seconds / 2, limits.batch_tokens)))
        self._low = min(limits.low_tokens, self._high // 2)

    def _expire(self, job: QueuedJob) -> None:
        self._tell([(job, TooLateError(f"there was no answer within {job.seconds:g} seconds", retry_after=1))])

    def _leave(self, jobs: Sequence[QueuedJob]) -> None:
        """Forget jobs that are answered, late or not wanted any more."""
        self._jobs.drop(jobs)
        with self._mutex:
            for job in jobs:
                if job.waiting:
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
        for function in self._then:
            function()
        if record is not None:
            speed = record.tokens / max(record.seconds, 1e-6)
            self._measure(speed if math.isinf(self._speed) else 0.9 * self._speed + 0.1 * speed)
            if self._watch is not None:
                self._watch(record)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread: batch after batch until it is closed."""
        while not self._closed:
            self._answer(self._next(), loop)

    def _answer(self, batch: list[Taken], loop: asyncio.AbstractEventLoop) -> None:
        if batch:
            told, record = answered(batch)
            self._company = record.jobs
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(self._tell, told, record)

    def _next(self) -> list[Taken]:
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


def answered(batch: list[Taken]) -> tuple[list[Told], BatchRecord]:
    """The answers of a batch. A job is finished here too, in the thread, as its answer may be long."""
    begin = time.perf_counter()
    answers = _answers(batch[0][0].question, [part.content for _, _, part in batch])
    told = [
        (job, _finished(job, part, answer))
        for (job, i, part), answer in zip(batch, answers, strict=True)
        if job.take(i, answer) and not job.answer.done()
    ]
    tokens, jobs = sum(part.tokens for _, _, part in batch), {id(job): job.requests for job, _, _ in batch}
    return told, BatchRecord(len(batch), sum(jobs.values()), tokens, time.perf_counter() - begin)


def _answers(question: Question, parts: list[Any]) -> list[Any]:
    """Answers or errors: where a batch fails, each part is asked alone, so that others are not harmed."""
    try:
        found = question.answer(parts)
        assert len(found) == len(parts)
        return found
    except Exception as error:
        if len(parts) == 1:
            return [error]
        return [_answers(question, [part])[0] for part in parts]


def _finished(job: QueuedJob, part: QueuedPart, answer: Any) -> Any:
    try:
        return _blamed(job, part, answer) if isinstance(answer, Exception) else job.finish(job.answers)
    except Exception as error:
        return _told(error, None)


def _blamed(job: QueuedJob, part: QueuedPart, error: Exception) -> RequestError:
    """The error of a part as a client is told it, with the number of the sentence that it is about."""
    sentences = job.question.sentences(part.content)
    if len(sentences) == 1:
        return _told(error, part.first if len(job.answers) > 1 else None)
    for i, sentence in enumerate(sentences):
        found = _answers(job.question, [sentence])[0]
        if isinstance(found, Exception):
            return _told(found, part.first + i)
    return _told(error, None)


def _told(error: Exception, index: int | None) -> RequestError:
    """The error as a client is told it; its cause is for the log."""
    problem = problem_of(error)
    if problem is not error:
        problem.__cause__, problem.input = error, index
    return problem
