"""Bodies of requests, read within bounds of size and time; and clients that go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from trellis.server.alarms import Alarms
from trellis.server.limits import ServerLimits
from trellis.server.problems import CrowdedError, TooLargeError, TooSlowError, WrongTypeError

_THROWN_AWAY, _MOMENT = 4, 0.5  # times the limit, and seconds
_HELD = "trellis.held"
_OF_BODIES = (b"content-type", b"content-encoding", b"content-length")
_SOON = 0.02  # seconds after which a client may have gone


class Bodies:
    """Reads the bodies of requests, and knows how many bytes of them there are until their requests are answered."""

    def __init__(self, limits: ServerLimits, alarms: Alarms) -> None:
        self._limits, self._alarms, self._held = limits, alarms, 0

    async def read(self, request: Request, about: BodyHeaders | None = None) -> bytes:
        """The whole body of a request in JSON."""
        limits = self._limits
        about = about or BodyHeaders.of(request.scope)
        about.check("application/json")
        if about.length.isdigit() and int(about.length[:20]) > limits.body_bytes:
            raise await _too_large(request.receive, limits)
        with Patience(self._alarms, limits.seconds):
            return await self._read(request)

    async def _read(self, request: Request) -> bytes:
        pieces, size, more = [], 0, True
        while more:
            piece, more = piece_in(await request.receive())
            self._hold(request, len(piece))
            pieces.append(piece)
            size += len(piece)
            if size > self._limits.body_bytes:
                raise await _too_large(request.receive, self._limits)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self, request: Request) -> None:
        """Forget the body of a request that is answered."""
        self.free(request.scope.pop(_HELD, 0))

    def add(self, size: int) -> None:
        """Count bytes that are here."""
        self._held += size

    def free(self, size: int) -> None:
        """Count bytes that are gone."""
        self._held -= size

    def check(self) -> None:
        """Refuse what came last, if it is too much."""
        if self._held > self._limits.held_bytes:
            problem = f"{self._held} bytes of requests are here: expected at most {self._limits.held_bytes}"
            raise CrowdedError(problem, retry_after=1)

    def _hold(self, request: Request, size: int) -> None:
        self.add(size)
        request.scope[_HELD] = request.scope.get(_HELD, 0) + size
        self.check()


class BodyHeaders(NamedTuple):
    """What a request says about its body; where a header comes twice, the first counts."""

    kind: bytes = b""
    encoding: bytes = b""
    length: bytes = b""

    @classmethod
    def of(cls, scope: Scope) -> BodyHeaders:
        """Those of a request; quicker than `request.headers`."""
        found = {name: value for name, value in reversed(scope["headers"]) if name in _OF_BODIES}
        kind, encoding, length = _OF_BODIES
        return cls(found.get(kind, b""), found.get(encoding, b""), found.get(length, b""))

    @property
    def media_type(self) -> str:
        """The type without its parameters."""
        return _media_type(self.kind)

    def check(self, expected: str) -> None:
        """Refuse other media types, which web forms could send, and compressed bodies, which may be bombs."""
        found = self.media_type
        if found != expected:
            raise WrongTypeError(f"expected a body of the type {expected}, got {found[:80]!r}")
        encoding = self.encoding.strip().lower()
        if encoding not in (b"", b"identity"):
            raise WrongTypeError(f"expected a body without compression, got {encoding.decode('latin-1')[:80]!r}")


@lru_cache(maxsize=64)
def _media_type(kind: bytes) -> str:
    return kind.partition(b";")[0].strip().lower().decode("latin-1")


class Patience:
    """Ends what runs within it after some seconds: `asyncio.timeout` without a timer for each request."""

    __slots__ = ("_alarm", "_alarms", "_over", "_seconds", "_task")

    def __init__(self, alarms: Alarms, seconds: float) -> None:
        self._alarms, self._seconds, self._over = alarms, seconds, False

    def __enter__(self) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._task = task
        self._alarm = self._alarms.call(loop, loop.time() + self._seconds, self._ring)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._alarms.cancel(self._alarm)
        # As asyncio's own does: who else cancels the task meant it.
        if self._over and self._task.uncancel() <= 0 and kind is asyncio.CancelledError:
            raise TooSlowError(f"the body did not come within {self._seconds:g} seconds") from None

    def _ring(self) -> None:
        self._over = True
        self._task.cancel()


def piece_in(message: Message) -> tuple[bytes, bool]:
    """A piece of a body, and whether more comes."""
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


async def pieces_of(receive: Receive, seconds: float, renewed_by: bytes | None = None) -> AsyncIterator[bytes]:
    """The body piece by piece; so many seconds of waiting are allowed, and again after a piece with `renewed_by`."""
    loop = asyncio.get_running_loop()
    left, more = seconds, True
    while more:
        begin = loop.time()
        try:
            async with asyncio.timeout(left):
                message = await receive()
        except TimeoutError:
            what = "the body" if renewed_by is None else "the next line"
            raise TooSlowError(f"{what} did not come within {seconds:g} seconds") from None
        piece, more = piece_in(message)
        left -= loop.time() - begin
        if renewed_by is not None and renewed_by in piece:
            left = seconds
        yield piece


class Departure:
    """Cancels an answer when its client goes away. It looks only after a moment: most answers are quicker."""

    __slots__ = ("_alarm", "_alarms", "_answer", "_receive", "_watching")

    def __init__(self, receive: Receive, answer: asyncio.Future[Any], alarms: Alarms) -> None:
        self._receive, self._answer, self._alarms = receive, answer, alarms
        loop = asyncio.get_running_loop()
        self._alarm = alarms.call(loop, loop.time() + _SOON, self._watch)
        self._watching: asyncio.Future[None] | None = None

    @property
    def seen(self) -> bool:
        """Whether the client has gone."""
        return self._watching is not None and self._watching.done()

    def forget(self) -> None:
        """Look no more."""
        self._alarms.cancel(self._alarm)
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None  # it holds this in its traceback: no cycle stays behind

    def _watch(self) -> None:
        self._watching = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._answer.cancel()


async def unless_gone(receive: Receive, answer: asyncio.Future[Any], alarms: Alarms) -> Any:
    """The answer; if the client goes away first, it is cancelled, so that nobody works for it."""
    departure = Departure(receive, answer, alarms)
    try:
        return await answer
    except asyncio.CancelledError:
        if departure.seen:
            raise ClientDisconnect from None
        raise
    finally:
        departure.forget()


async def _too_large(receive: Receive, limits: ServerLimits) -> TooLargeError:
    """The error, after a moment in which the rest is thrown away: many clients do not listen before they have sent."""
    left = _THROWN_AWAY * limits.body_bytes
    with suppress(TooSlowError, ClientDisconnect):
        async for piece in pieces_of(receive, _MOMENT):
            left -= len(piece)
            if left < 0:
                break
    return TooLargeError(f"the body is too large: expected at most {limits.body_bytes} bytes")
