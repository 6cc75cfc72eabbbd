"""The short way of most requests: from the bytes of a body to those of its answer, without tasks, scopes or messages.

A protocol that gets a request for ``/v1/tag`` within a moment, with a head that was checked before, gives its body to
`Lane.ask`, and is called when the answer is there. Limits, deadline, queue and figures are those of all requests.
"""

from __future__ import annotations

from typing import Protocol

from trellis.server.problems import RequestError, reported
from trellis.server.queueing import QueuedJob
from trellis.server.shared import INLINE, Shared

_PATH = "/v1/tag"


class Sender(Protocol):
    """Who sends the answer to a client."""

    def __call__(self, body: bytes, problem: RequestError | None) -> None:
        """An answer, or a problem with its body."""


class Reply:
    """The place where the answer to a request goes: what a future is to others."""

    __slots__ = ("_begin", "_job", "_lane", "_send", "_size")

    def __init__(self, size: int, begin: float, send: Sender, lane: Lane) -> None:
        self._size, self._begin, self._lane = size, begin, lane
        self._send: Sender | None = send
        self._job: QueuedJob | None = None

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._send is None

    def set_result(self, result: bytes, /) -> None:
        """Send the answer."""
        send, self._send, self._job = self._send, None, None
        assert send is not None
        self._lane.answered(self._size, self._begin)
        send(result, None)

    def set_exception(self, exception: Exception, /) -> None:
        """Send the problem."""
        problem = reported(exception)
        self._end(problem.status)(problem.body(), problem)

    def awaits(self, job: QueuedJob) -> None:
        """Remember which job answers it, unless it is answered."""
        if self._send is not None:
            self._job = job

    def forgotten(self) -> QueuedJob | None:
        """The client has gone; the job that need not be done, if it is not."""
        job = self._job
        self._end(499)
        return job

    def _end(self, status: int) -> Sender:
        send, self._send = self._send, None
        self._job = None  # which holds this: no cycle stays behind
        assert send is not None
        self._lane.failed(self._size, self._begin, status)
        return send


class Lane:
    """Asks the models what comes the short way."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._batcher, self._bodies = shared, shared.batcher, shared.bodies
        self._put, self._read, self._now = shared.batcher.put, shared.reader.tag, shared.batcher.now
        self._begins: list[float] = []  # of requests that were answered, and are not counted yet
        self.alarms = shared.alarms
        self.longest = min(INLINE, shared.limits.body_bytes)
        """Bytes up to which a body is short enough to be read at once."""
        shared.batcher.then(self._count)

    def ask(self, body: bytes, send: Sender) -> Reply:
        """Have a request answered; `send` may be called before this returns."""
        size, bodies = len(body), self._bodies
        reply = Reply(size, self._now(), send, self)
        bodies.add(size)
        try:
            bodies.check()
            if self._batcher.refuses:
                self._batcher.admit()
            question, parts, finish, seconds = self._read(body)
            reply.awaits(self._put(question, parts, finish, seconds, reply))
        except Exception as error:
            reply.set_exception(error)
        return reply

    def forget(self, reply: Reply) -> None:
        """Do nothing more for a client that has gone."""
        job = reply.forgotten()
        if job is not None:
            self._batcher.leave(job)

    def answered(self, size: int, begin: float) -> None:
        """A request is answered; it is counted with the others of its batch."""
        self._bodies.free(size)
        self._begins.append(begin)

    def failed(self, size: int, begin: float, status: int) -> None:
        """A request is not answered."""
        self._bodies.free(size)
        self._shared.metrics.request(_PATH, status, self._now() - begin)

    def _count(self) -> None:
        begins, self._begins = self._begins, []
        now = self._now()
        if begins:
            self._shared.metrics.request(_PATH, 200, *[now - begin for begin in begins])
