"""Bodies of requests within bounds of size and time, and clients that go away before their answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from trellis.server.limits import ServerLimits
from trellis.server.problems import JSON, RequestError

_DISCARDED, _MOMENT = 4, 0.5  # times the limit, and seconds
_PROMPT = 0.02  # seconds in which most answers are there: no need to watch the client
_HELD = "trellis.held_bytes"


class BodyReader:
    """Reads the bodies of requests, and counts their bytes until the requests are answered."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits, self._held = limits, 0

    async def read(self, request: Request) -> bytes:
        """The whole body of a request in JSON; the caller limits the time."""
        check_type(request, JSON)
        most = self._limits.body_bytes
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length[:20]) > most:
            raise await _too_large(request.receive, most)
        pieces, size, more = [], 0, True
        while more:
            try:
                piece, more = piece_of(await request.receive())
            except ClientDisconnect:
                raise RequestError("incomplete_body", "the body ended before its end", closes=True) from None
            pieces.append(piece)
            size += len(piece)
            self._hold(request, len(piece))
            if size > most:
                raise await _too_large(request.receive, most)
        return b"".join(pieces)

    def release(self, request: Request) -> None:
        """Forget the body of a request that is answered."""
        self._held -= request.scope.pop(_HELD, 0)

    def _hold(self, request: Request, size: int) -> None:
        self._held += size
        request.scope[_HELD] = request.scope.get(_HELD, 0) + size
        if self._held > self._limits.held_bytes:
            message = f"{self._held} bytes of requests are here: expected at most {self._limits.held_bytes}"
            raise RequestError("overloaded", message, retry_after=1, closes=True)


def media_type(request: Request) -> str:
    """The type of a body without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_type(request: Request, expected: str) -> None:
    """Refuse other media types, which web forms could send, and compressed bodies, which may be bombs."""
    found, encoding = media_type(request), request.headers.get("content-encoding", "").strip().lower()
    if found != expected:
        raise RequestError("wrong_type", f"expected a body of the type {expected}, got {found[:80]!r}", closes=True)
    if encoding not in ("", "identity"):
        message = f"expected a body without compression, got {encoding[:80]!r}"
        raise RequestError("wrong_type", message, closes=True)


def piece_of(message: Message) -> tuple[bytes, bool]:
    """A piece of a body, and whether more comes."""
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


async def pieces_of(receive: Receive, seconds: float) -> AsyncIterator[bytes]:
    """The pieces of a body of lines; no line may take longer than `seconds`."""
    more, left, loop = True, seconds, asyncio.get_running_loop()
    while more:
        begin = loop.time()
        try:
            async with asyncio.timeout(left):
                message = await receive()
        except TimeoutError:
            problem = f"the next line did not come within {seconds:g} seconds"
            raise RequestError("too_slow", problem, closes=True) from None
        piece, more = piece_of(message)
        left = seconds if b"\n" in piece else left - (loop.time() - begin)
        yield piece


async def answer_or_disconnect(receive: Receive, answer: asyncio.Future[Any]) -> Any:
    """The answer; if the client goes away first, it is cancelled, so that nobody works for it."""
    try:
        await asyncio.wait((answer,), timeout=_PROMPT)
        if not answer.done():
            watcher = asyncio.ensure_future(_disconnect(receive))
            try:
                await asyncio.wait((answer, watcher), return_when=asyncio.FIRST_COMPLETED)
            finally:
                watcher.cancel()
            if not answer.done():
                raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _too_large(receive: Receive, most: int) -> RequestError:
    """The error, after a moment in which the rest is thrown away: many clients do not listen before they have sent."""
    left, more = _DISCARDED * most, True
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_MOMENT):
            while more and left >= 0:
                piece, more = piece_of(await receive())
                left -= len(piece)
    return RequestError("too_large", f"the body is too large: expected at most {most} bytes", closes=True)
