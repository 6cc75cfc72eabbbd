"""Bodies of requests, read within bounds of size and time; and clients that go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from trellis.server.limits import ServerLimits
from trellis.server.problems import TooLargeError, TooSlowError, WrongTypeError

_THROWN_AWAY, _MOMENT = 4, 0.5  # times the limit, and seconds


async def read_body(request: Request, limits: ServerLimits) -> bytes:
    """The whole body of a request in JSON."""
    check_type(request, "application/json")
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limits.body_bytes:
        raise await _too_large(request.receive, limits)
    pieces, size = [], 0
    async for piece in pieces_of(request.receive, limits.seconds):
        pieces.append(piece)
        size += len(piece)
        if size > limits.body_bytes:
            raise await _too_large(request.receive, limits)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_type(request: Request, expected: str) -> None:
    """Refuse other media types, which web forms could send, and compressed bodies, which may be bombs."""
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found != expected:
        raise WrongTypeError(f"expected a body of the type {expected}, got {found[:80]!r}")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise WrongTypeError(f"expected a body without compression, got {encoding[:80]!r}")


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


async def unless_gone(receive: Receive, answer: asyncio.Future[Any]) -> Any:
    """The answer; if the client goes away first, it is cancelled, so that nobody works for it."""
    gone = asyncio.ensure_future(_departure(receive, answer))
    try:
        return await answer
    except asyncio.CancelledError:
        if gone.done():
            raise ClientDisconnect from None
        raise
    finally:
        gone.cancel()


async def _departure(receive: Receive, answer: asyncio.Future[Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    answer.cancel()


async def _too_large(receive: Receive, limits: ServerLimits) -> TooLargeError:
    """The error, after a moment in which the rest is thrown away: many clients do not listen before they have sent."""
    left = _THROWN_AWAY * limits.body_bytes
    with suppress(TooSlowError, ClientDisconnect):
        async for piece in pieces_of(receive, _MOMENT):
            left -= len(piece)
            if left < 0:
                break
    return TooLargeError(f"the body is too large: expected at most {limits.body_bytes} bytes")
