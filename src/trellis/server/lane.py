"""The short way of most requests: from the bytes of a body to those of its answer, without tasks, scopes or messages.

A protocol that gets a request for ``/v1/tag`` within a moment, with a head that was checked before, gives its body to
`Lane.ask`, and is called when the answer is there. Limits, deadline, queue and figures are those of all requests.
"""

from __future__ import annotations

from collections.abc import Callable
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

    __slots__ = ("_begin", "_job", "_send", "_settle", "_size")

    def __init__(self, size: int, begin: float, send: Sender, settle: Callable[[int, float, int], None]) -> None:
        self._size, self._begin, self._settle = size, begin, settle
        self._send: Sender | None = send
        self._job: QueuedJob | None = None

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._send is None

    def set_result(self, result: bytes, /) -> None:
        """Send the answer."""
        self._end(200)(result, None)

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
        self._settle(self._size, self._begin, status)
        return send


class Lane:
    """Asks the models what comes the short way."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self.alarms = shared, shared.alarms

    def takes(self, size: int) -> bool:
        """Whether a body is short enough to be read at once."""
        return size <= min(INLINE, self._shared.limits.body_bytes)

    def ask(self, body: bytes, send: Sender) -> Reply:
        """Have a request answered; `send` may be called before this returns."""
        shared = self._shared
        reply = Reply(len(body), shared.batcher.now(), send, self._settle)
        shared.bodies.add(len(body))
        try:
            shared.bodies.check()
            shared.batcher.admit()
            asked = shared.reader.tag(body)
            reply.awaits(shared.batcher.put(asked.question, asked.parts, asked.finish, asked.seconds, reply))
        except Exception as error:
            reply.set_exception(error)
        return reply

    def forget(self, reply: Reply) -> None:
        """Do nothing more for a client that has gone."""
        job = reply.forgotten()
        if job is not None:
            self._shared.batcher.leave(job)

    def _settle(self, size: int, begin: float, status: int) -> None:
        self._shared.bodies.free(size)
        self._shared.metrics.request(_PATH, status, self._shared.batcher.now() - begin)
