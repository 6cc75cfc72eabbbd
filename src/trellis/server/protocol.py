"""uvicorn's HTTP protocol with patience that ends: a request's head must come in time, and must not be too long.

Without these bounds a client could keep connections for itself by sending a byte now and then (slow loris) or by not
reading its answers, or fill the memory with headers or with requests that it does not wait for. Requests that come at
once, with a head that was checked before, go the short way of `trellis.server.lane`.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trellis.server.alarms import Call
from trellis.server.app import Application
from trellis.server.chunks import ChunkEnd
from trellis.server.joined import JoinedTransport
from trellis.server.lane import Lane, Reply
from trellis.server.limits import ServerLimits
from trellis.server.malformed import check_version, malformed
from trellis.server.partings import Watch
from trellis.server.problems import HeadTooLongError, NotHTTPError, RequestError, UnavailableError
from trellis.server.wire import HEAD_END, LONGEST, AnswerHeads, HeadForm, KnownHeads, closing

_MOMENT = 0.02  # seconds that a known head waits for its body
_AT_A_TIME = 32 * 2**10  # bytes of a body in chunks until others have their turn: tiny chunks take long
_LINGER = 0.5  # seconds in which a client whose connection ends with a problem may read it
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


class PatientProtocol(HttpToolsProtocol):
    """The protocol of one connection; a subclass says with which limits and for which application."""

    limits: ClassVar[ServerLimits]
    lane: ClassVar[Lane]
    known: ClassVar[KnownHeads]
    heads: ClassVar[AnswerHeads]

    _in_head, _begun = True, False  # a head is expected, or has begun
    _left = 0  # bytes of a body that are still to come, if that is known
    _head_size = 0
    _between = 0  # bytes of a body in chunks since the last of a chunk: they may be headers too
    _tail = b""  # the last bytes of a head that is not complete
    _head_timer: asyncio.TimerHandle | None = None
    _first: bytes | None = None  # what came first of a request, until its head is complete
    _unread: asyncio.TimerHandle | None = None  # rings if the client does not read
    _is_deaf = False  # nothing more is taken from this connection
    _watch: Watch | None = None  # the client sends nothing more, but may wait for answers

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        joined = JoinedTransport(transport, self.loop, self.limits.seconds)
        super().connection_made(joined)  # type: ignore[arg-type]
        self._plain_transport = transport
        self._reply: Reply | None = None  # to the request that goes the short way, one at a time
        self._rest = b""  # what came before that was answered
        self._alarm: Call | None = None
        self._chunks = ChunkEnd()  # of a body without a length
        self._form: HeadForm | None = None  # the head that went the short way last
        self._waiting = b""  # the beginning of a request that may go the short way
        self._leaving, self._latest = False, 0.0
        if len(self.connections) > self.limits.connections:
            self._tell(UnavailableError("too many connections are open", retry_after=1))
            transport.close()
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """The next bytes: a whole request that goes the short way, or any part of another one."""
        if self._is_deaf:
            return
        if self._reply is not None or self._rest or self._is_answering():  # the client does not wait for its answer
            self._rest += data
            self.flow.pause_reading()
            return
        if self._waiting:
            data = self._forget_waiting() + data
        found = self._body_in(data) if self._at_beginning() else None
        if found is None or len(data) > found[1] or found[1] - found[0] > self.lane.longest:
            self._receive(data)
        elif len(data) < found[1]:  # many clients send head and body one after the other
            self._waiting = data
            self._alarm = self.lane.alarms.call(self.loop, self.loop.time() + _MOMENT, self._give_up)
        else:
            if self._head_timer is not None:
                self._forget_timer()
            reply = self.lane.ask(data[found[0] :], self._answer)
            self._reply = None if reply.done() else reply

    def _body_in(self, data: bytes) -> tuple[int, int] | None:
        """Where the body is of a request whose head was checked before: mostly it is that of the request before."""
        found = None if self._form is None else self._form.body(data)
        if found is None:
            found = self.known.body(data)
            self._form = None if found is None else self.known.form(data)
        return found

    def _forget_waiting(self) -> bytes:
        """What waited for the rest of its request."""
        waiting, self._waiting = self._waiting, b""
        if self._alarm is not None:
            self.lane.alarms.cancel(self._alarm)
            self._alarm = None
        return waiting

    def _give_up(self) -> None:
        """Go the ordinary way with what does not come whole."""
        self._receive(self._forget_waiting())

    def _at_beginning(self) -> bool:
        """Whether nothing of a request has come, all others are answered, and the client reads the answers."""
        if not self._in_head or self._begun or self._head_size or self.flow.write_paused:
            return False
        return self.cycle is None or bool(self.cycle.response_complete)

    def _is_answering(self) -> bool:
        """Whether a request that came whole the ordinary way is not answered yet."""
        cycle = self.cycle
        return cycle is not None and not (cycle.response_complete or cycle.more_body)

    def _is_within(self) -> bool:
        """Whether a request has begun, and more of it should come."""
        if self._is_deaf:
            return False
        unfinished = self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete
        return self._begun or bool(self._waiting) or unfinished

    def _receive(self, data: bytes) -> None:
        """Give the bytes to uvicorn, until they make a request: what follows waits for its answer, as bytes."""
        place = 0
        while place < len(data) and not self._is_deaf:
            is_long = place >= _AT_A_TIME and not self._in_head and not self._left
            if is_long or self._is_answering():
                self._rest = data[place:] + self._rest
                self.flow.pause_reading()
                if is_long:
                    self.loop.call_soon(self._resume)
                return
            end = place + self._extent(data, place)
            self._receive_piece(data[place:end])
            place = end

    def _extent(self, data: bytes, place: int) -> int:
        """How many bytes to take at a time: up to the end of a head or a body, so that what follows is kept apart."""
        if not self._in_head:
            return self._left or self._chunks.extent(data[place : place + LONGEST])
        end = (self._tail + data[place:]).find(HEAD_END)
        return len(data) - place if end < 0 else end + len(HEAD_END) - len(self._tail)

    def _receive_piece(self, data: bytes) -> None:
        """Give bytes to uvicorn, within bounds."""
        if self._in_head:
            data = _without_upgrade(data)
            self._tail = (self._tail + data)[1 - len(HEAD_END) :]
            room = max(0, self.limits.head_bytes - self._head_size)
            self._first = None if self._begun or self._head_size else data
            self._head_size += len(data)
            if len(data) > room and data.find(HEAD_END, 0, room + len(HEAD_END)) < 0:
                self._refuse(HeadTooLongError(f"the head is too long: expected at most {self.limits.head_bytes} bytes"))
                return
        elif not self._left:
            self._between += len(data)
            if self._between > self.limits.head_bytes:
                self._refuse(
                    HeadTooLongError(f"expected at most {self.limits.head_bytes} bytes between or after chunks")
                )
                return
        super().data_received(data)
        if self._begun and self._head_timer is None:  # most heads come whole, and need no timer
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self.transport.close)

    def _answer(self, body: bytes, problem: RequestError | None) -> None:
        """Send what came the short way, and go on with what came after it."""
        self._reply, self._latest = None, self.loop.time()
        self.server_state.total_requests += 1
        transport = self._plain_transport
        if transport.is_closing():
            return
        answer = self._whole(body, problem)
        if self._leaving or (problem is not None and problem.closes):
            transport.write(closing(answer))
            self.transport.close()
            return
        transport.write(answer)
        if self.timeout_keep_alive_task is None:
            self._close_later(self.timeout_keep_alive)
        if self._rest or self.flow.read_paused:
            self._go_on()

    def _go_on(self) -> None:
        """Take what came before the last answer."""
        data, self._rest = self._rest, b""
        self.flow.resume_reading()
        if data and not self.transport.is_closing():
            self.data_received(data)
        if self._watch is not None:
            self._end_soon()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends nothing more: what came whole is answered, then the connection ends."""
        if self._reply is None and not self._is_answering() and not self._rest:
            self._end_now()
            return False
        if self._watch is None:
            self._watch = Watch(self._plain_transport, self.lane.alarms, self.loop, self._may_be_asked)
        self._end_soon()
        return True

    def _end_soon(self) -> None:
        """Close the connection with the answer to the last request that came; now, if there is none."""
        if self._rest:
            return
        if self._reply is not None:
            self._leaving = True
        elif self._is_answering():
            self.cycle.keep_alive = False
        else:
            self._end_now()

    def _end_now(self) -> None:
        if self._is_within():
            self._refuse(NotHTTPError("the connection ended within a request"))
        self.transport.close()  # which sends what waits there, as the plain transport would not

    def _may_be_asked(self) -> bool:
        """Whether the client understands `100 Continue` now."""
        if self._reply is not None:
            return True
        return self._is_answering() and not self.cycle.response_started and self.scope["http_version"] == "1.1"

    def send_400_response(self, msg: str) -> None:
        """What uvicorn calls when its parser fails."""
        self._refuse(malformed(sys.exception()))

    def _refuse(self, problem: RequestError) -> None:
        """Answer what is no request, and take nothing more. To close at once would throw the answer away."""
        self._is_deaf = True
        self._forget_timer()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        self.transport.flush()  # type: ignore[attr-defined]
        self._tell(problem)
        self._plain_transport.write_eof()
        self._head_timer = self.loop.call_later(_LINGER, self.transport.close)

    def _tell(self, problem: RequestError) -> None:
        self._plain_transport.write(closing(self._whole(problem.body(), problem)))

    def _whole(self, body: bytes, problem: RequestError | None) -> bytes:
        """An answer with its head."""
        defaults = self.server_state.default_headers
        return self.heads.fine(body, defaults) if problem is None else self.heads.problem(problem, body, defaults)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._begun = True

    def on_headers_complete(self) -> None:
        """Its head is here."""
        check_version(self.parser.get_http_version())
        self._in_head, self._begun, self._tail, self._chunks = False, False, b"", ChunkEnd()
        self._forget_timer()
        self._left = _length_in(self.headers)
        super().on_headers_complete()
        if self._first is not None:
            self.known.learn(self._first, self.url, dict(self.scope))
            self._first = None

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        self._left, self._between = max(0, self._left - len(body)), 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is here."""
        super().on_message_complete()
        self._forget_timer()
        self._in_head, self._head_size, self._left, self._between = True, 0, 0, 0

    def on_response_complete(self) -> None:
        """It is answered."""
        self._latest = self.loop.time()
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if not self._in_head:  # before all of it is here: the rest must come soon
            self._forget_timer()
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self.transport.close)
        elif self._is_answering():  # the next one, which came with it
            self.flow.pause_reading()
        elif self._rest:
            self.loop.call_soon(self._resume)
        elif self._watch is not None:
            self._end_soon()

    def _resume(self) -> None:
        if self._reply is None and not self._is_answering() and not self.transport.is_closing():
            self._go_on()

    def _unsupported_upgrade_warning(self) -> None:
        """A head asks for another protocol, and `_without_upgrade` did not see it: this request is the last one."""
        self._is_deaf = True
        self.cycle.keep_alive = False

    def pause_writing(self) -> None:
        """The client does not read its answers: not for long."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.limits.seconds, self._plain_transport.abort)

    def resume_writing(self) -> None:
        """It reads them."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if nothing has come for long. One timer looks at many requests."""
        self.timeout_keep_alive_task = None
        left = self._latest + self.timeout_keep_alive - self.loop.time()
        if self._reply is not None or self._waiting:
            return  # it is set again with the answer
        if left <= 0:
            super().timeout_keep_alive_handler()
        else:
            self._close_later(left)

    def shutdown(self) -> None:
        """Close the connection when what is under way is answered."""
        if self._waiting:
            self._give_up()
        if self._reply is None:
            super().shutdown()
        else:
            self._leaving = True

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._forget_timer()
        self._forget_waiting()
        if self._watch is not None:
            self._watch.forget()
            self._watch = None
        if self._reply is not None:
            self.lane.forget(self._reply)
            self._reply = None
        super().connection_lost(exc)

    def _close_later(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _forget_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _without_upgrade(data: bytes) -> bytes:
    """A head whose wish for another protocol has a name that nobody knows: the request is answered in this one."""
    end = data.find(HEAD_END)
    head = data if end < 0 else data[:end]
    return data if b"pgrade" not in head.lower() else _UPGRADE.sub(b"\r\nignored:", head) + data[len(head) :]


def _length_in(headers: list[tuple[bytes, bytes]]) -> int:
    """The length that a head gives; 0 if it gives none, or no number."""
    found = next((value for name, value in headers if name == b"content-length"), b"")
    return int(found[:20]) if found.isdigit() else 0


def patient_protocol(limits: ServerLimits, app: Application) -> type[PatientProtocol]:
    """The protocol for uvicorn, with these limits and for this application."""
    own = {"limits": limits, "lane": app.lane, "known": KnownHeads(app.gate), "heads": AnswerHeads()}
    return type("OwnProtocol", (PatientProtocol,), own)
