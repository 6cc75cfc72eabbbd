"""The short way of most requests: from the bytes of a body to those of its answer, without tasks, scopes or messages.

A protocol that gets a request for ``/v1/tag`` within a moment, with a head that was checked before, gives its body to
`Lane.ask`, and is called when the answer is there. Requests for tags that come together go as a group. Limits, queue,
deadline and figures are those of all requests.
"""

from __future__ import annotations

from typing import Protocol

from trellis.server.gathering import Group, GroupQuestion, Member, first
from trellis.server.problems import RequestError, reported
from trellis.server.queueing import QueuedJob, QueuedPart
from trellis.server.requests import Gatherable, Prepared
from trellis.server.shared import INLINE, Shared
from trellis.server.shelf import ServedModel
from trellis.text import PackedTokens

_PATH = "/v1/tag"


class Sender(Protocol):
    """Who sends the answer to a client."""

    def __call__(self, body: bytes, problem: RequestError | None) -> None:
        """An answer, or a problem with its body."""


class Reply:
    """The place where the answer to a request goes: what a future is to others."""

    __slots__ = ("_begin", "_job", "_lane", "_send", "_size", "group", "packed", "tokens")

    def __init__(self, size: int, begin: float, send: Sender, lane: Lane) -> None:
        self._size, self._begin, self._lane = size, begin, lane
        self._send: Sender | None = send
        self._job: QueuedJob | None = None
        self.group: Group | None = None

    def joins(self, group: Group, packed: PackedTokens, tokens: int) -> None:
        """Be answered with others."""
        self.packed, self.tokens, self.group = packed, tokens, group
        group.add(self)

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._send is None

    def set_result(self, result: bytes, /) -> None:
        """Send the answer."""
        send, self._send, self._job, self.group = self._send, None, None, None
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
        self._job = self.group = None  # which hold this: no cycle stays behind
        assert send is not None
        self._lane.failed(self._size, self._begin, status)
        return send


class Lane:
    """Asks the models what comes the short way."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._batcher, self._bodies, self._reader = (
            shared,
            shared.batcher,
            shared.bodies,
            shared.reader,
        )
        self._group: Group | None = None  # of the requests that the event loop finds now
        self._begins: list[float] = []  # of requests that were answered, and are not counted yet
        self.alarms = shared.alarms
        self.longest = min(INLINE, shared.limits.body_bytes)
        """Bytes up to which a body is short enough to be read at once."""
        shared.batcher.then(self._count)

    def ask(self, body: bytes, send: Sender) -> Reply:
        """Have a request answered; `send` may be called before this returns."""
        size, bodies = len(body), self._bodies
        reply = Reply(size, self._batcher.now(), send, self)
        bodies.add(size)
        try:
            bodies.check()
            if self._batcher.refuses:
                self._batcher.admit()
            read = self._reader.tag_soon(body)
            if isinstance(read, Gatherable):
                self._gather(reply, read)
            else:
                self._put(reply, read)
        except Exception as error:
            reply.set_exception(error)
        return reply

    def forget(self, reply: Reply) -> None:
        """Do nothing more for a client that has gone."""
        group, job = reply.group, reply.forgotten()
        if group is not None:
            group.remove(reply)
            if group.job is not None:
                self._batcher.shrink(group.job, reply.tokens)
        elif job is not None:
            self._batcher.leave(job)

    def answered(self, size: int, begin: float) -> None:
        """A request is answered; it is counted with the others of its batch."""
        self._bodies.free(size)
        self._begins.append(begin)

    def failed(self, size: int, begin: float, status: int) -> None:
        """A request is not answered."""
        self._bodies.free(size)
        self._shared.metrics.request(_PATH, status, self._batcher.now() - begin)

    def _put(self, reply: Reply, read: Prepared) -> None:
        reply.awaits(self._batcher.put(read.question, read.parts, read.finish, read.seconds, reply))

    def _gather(self, reply: Reply, read: Gatherable) -> None:
        """Let a request go with others that ask the same, as soon as the event loop has found all of them."""
        model, seconds, packed, tokens = read
        group = self._group
        if group is not None and (group.model is not model or group.seconds != seconds or not self._fits(tokens)):
            self._send_group()
            group = None
        if group is None:
            self._batcher.admit(tokens)
            group = self._group = Group(model, seconds, self._ask_alone)
            self._batcher.soon(self._send_group)
        else:
            self._batcher.admit(tokens, group.tokens)
        reply.joins(group, packed, tokens)

    def _fits(self, tokens: int) -> bool:
        assert self._group is not None
        return self._group.tokens + tokens <= self._shared.limits.batch_tokens

    def _send_group(self) -> None:
        """Put the group into the queue, if there is one."""
        group, self._group = self._group, None
        if group is None or not group.members:
            return
        part = QueuedPart(group, group.tokens, turn=group.longest)
        try:
            group.job = self._batcher.put(
                GroupQuestion.of(group.model), [part], first, group.seconds, group, requests=len(group.members)
            )
        except RequestError as error:
            group.set_exception(error)

    def _ask_alone(self, member: Member, model: ServedModel, seconds: float) -> None:
        assert isinstance(member, Reply)
        try:
            self._put(member, self._reader.alone(model, member.packed, seconds))
        except RequestError as error:
            member.set_exception(error)

    def _count(self) -> None:
        begins, self._begins = self._begins, []
        now = self._batcher.now()
        if begins:
            self._shared.metrics.request(_PATH, 200, *[now - begin for begin in begins])
