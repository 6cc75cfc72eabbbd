"""Bodies of requests, read within bounds of size and time; and clients that go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from trellis.server.limits import ServerLimits
from trellis.server.problems import CrowdedError, TooLargeError, TooSlowError, WrongTypeError

_THROWN_AWAY, _MOMENT = 4, 0.5  # times the limit, and seconds
_HELD = "trellis.held"
_SOON = 0.02  # seconds after which a client may have gone


class Bodies:
    """Reads the bodies of requests, and knows how many bytes of them there are until their requests are answered."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits, self._held = limits, 0

    async def read(self, request: Request) -> bytes:
        """The whole body of a request in JSON."""
        limits = self._limits
        check_type(request, "application/json")
        declared = header(request, b"content-length")
        if declared.isdigit() and int(declared[:20]) > limits.body_bytes:
            raise await _too_large(request.receive, limits)
        pieces, size = [], 0
        async for piece in pieces_of(request.receive, limits.seconds):
            self._hold(request, len(piece))
            pieces.append(piece)
            size += len(piece)
            if size > limits.body_bytes:
                raise await _too_large(request.receive, limits)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self, request: Request) -> None:
        """Forget the body of a request that is answered."""
        self._held -= request.scope.pop(_HELD, 0)

    def _hold(self, request: Request, size: int) -> None:
        if self._held + size > self._limits.held_bytes:
            problem = f"{self._held} bytes of requests are here already: expected at most {self._limits.held_bytes}"
            raise CrowdedError(problem, retry_after=1)
        self._held += size
        request.scope[_HELD] = request.scope.get(_HELD, 0) + size


def header(request: Request, name: bytes) -> bytes:
    """The value of a header, or nothing; quicker than `request.headers`."""
    return next((value for own, value in request.scope["headers"] if own == name), b"")


def media_type(request: Request) -> str:
    """What a request says that its body is."""
    return header(request, b"content-type").partition(b";")[0].strip().lower().decode("latin-1")


def check_type(request: Request, expected: str) -> None:
    """Refuse other media types, which web forms could send, and compressed bodies, which may be bombs."""
    found = media_type(request)
    if found != expected:
        raise WrongTypeError(f"expected a body of the type {expected}, got {found[:80]!r}")
    encoding = header(request, b"content-encoding").strip().lower()
    if encoding not in (b"", b"identity"):
        raise WrongTypeError(f"expected a body without compression, got {encoding.decode('latin-1')[:80]!r}")


async def pieces_of(receive: Receive, seconds: float) -> AsyncIterator[bytes]:
    """The body piece by piece, all of them within some seconds."""
    loop = asyncio.get_running_loop()
    end, more = loop.time() + seconds, True
    while more:
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            raise TooSlowError(f"the body did not come within {seconds:g} seconds") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        yield message.get("body", b"")
        more = message.get("more_body", False)


class Departure:
    """Cancels an answer when its client goes away. It looks only after a moment: most answers are quicker."""

    def __init__(self, receive: Receive, answer: asyncio.Future[Any]) -> None:
        self._receive, self._answer = receive, answer
        self._timer = asyncio.get_running_loop().call_later(_SOON, self._watch)
        self._watching: asyncio.Future[None] | None = None

    @property
    def seen(self) -> bool:
        """Whether the client has gone."""
        return self._watching is not None and self._watching.done()

    def forget(self) -> None:
        """Look no more."""
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _watch(self) -> None:
        self._watching = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._answer.cancel()


async def unless_gone(receive: Receive, answer: asyncio.Future[Any]) -> Any:
    """The answer; if the client goes away first, it is cancelled, so that nobody works for it."""
    departure = Departure(receive, answer)
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
