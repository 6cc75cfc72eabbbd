"""What a server accepts: every bound in one place, and the bodies of requests within bounds of size and time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, fields

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from trellis.errors import ConfigError
from trellis.server.problems import JSON, RequestError

_DISCARDED, _MOMENT = 4, 0.5  # times the limit, and seconds
_HELD = "trellis.held_bytes"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one request, of the queue, and of a connection."""

    body_bytes: int = 4 * 2**20
    """The longest body of a request; a longer one gets 413."""
    held_bytes: int = 256 * 2**20
    """All bodies that are being read or answered together; a request beyond it gets 429."""
    line_bytes: int = 2**20
    """The longest line of JSON Lines; a longer one gets an error in its place. The number of lines is not limited."""
    tokens: int = 100_000
    """The most tokens of a request; more get 413."""
    sentence_tokens: int = 20_000
    """The most tokens of one text, token list, or sentence of a document."""
    k: int = 100
    """The most labellings (`k_best`) that may be asked for."""
    lexicon_entries: int = 1000
    """The most entries of the lexicon of a request."""
    lexicon_characters: int = 100_000
    """The most characters of all these entries together: each takes fifteen bytes while the lexicon is kept."""
    explained_tokens: int = 64
    """Positions that one request may ask reasons for."""
    seconds: float = 30.0
    """Seconds from the first byte of a request to its answer; after them 503. A request may ask for less."""
    high_tokens: int = 200_000
    """Tokens that wait: beyond it requests get 429 ..."""
    low_tokens: int = 100_000
    """... until no more than these wait."""
    batch_tokens: int = 4096
    """Tokens that a model answers at a time, unless one sentence is longer."""
    linger: float = 0.002
    """Seconds that an idle model waits for company, once requests come together."""
    head_bytes: int = 64 * 2**10
    """The most bytes of a request's first line and headers; more get 431."""
    head_seconds: float = 10.0
    """Seconds in which the first line and headers must come."""
    connections: int = 1000
    """The most connections at a time; others get 503."""

    def __post_init__(self) -> None:
        """Refuse bounds that cannot be kept together."""
        for item in fields(self):
            if not getattr(self, item.name) > 0 and item.name != "linger":
                raise ConfigError(f"{item.name} must be positive, got {getattr(self, item.name)}")
        if self.body_bytes > self.held_bytes:
            raise ConfigError(f"body_bytes must be at most held_bytes, {self.held_bytes}, got {self.body_bytes}")
        if not self.low_tokens <= self.high_tokens:
            raise ConfigError(f"low_tokens must be at most high_tokens, {self.high_tokens}, got {self.low_tokens}")
        if self.tokens > self.high_tokens:
            raise ConfigError(f"tokens must be at most high_tokens, {self.high_tokens}, got {self.tokens}")


class BodyReader:
    """Reads the bodies of requests, and counts their bytes until the requests are answered."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits, self._held = limits, 0

    async def read(self, request: Request) -> bytes:
        """The whole body of a request in JSON; the caller limits the time."""
        check_type(request, JSON)
        most = self._limits.body_bytes
        length = request.headers.get("content-length", "")
        expected = int(length[:20]) if length.isdecimal() else None
        if expected is not None and expected > most:
            raise await _too_large(request.receive, most)
        body, more = bytearray(), True  # a list of small pieces could take twenty times their bytes
        while more and len(body) != expected:  # that nothing more comes would be a message of its own
            try:
                piece, more = piece_of(await request.receive())
            except ClientDisconnect:
                raise RequestError("incomplete_body", "the body ended before its end", closes=True) from None
            body += piece
            self._held += len(piece)
            request.scope[_HELD] = len(body)
            if self._held > self._limits.held_bytes:
                message = f"{self._held} bytes of requests are here: expected at most {self._limits.held_bytes}"
                raise RequestError("overloaded", message, retry_after=1, closes=True)
            if len(body) > most:
                raise await _too_large(request.receive, most)
        return bytes(body)

    def release(self, request: Request) -> None:
        """Forget the body of a request that is answered."""
        self._held -= request.scope.pop(_HELD, 0)


def media_type(request: Request) -> str:
    """The type of a body without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_type(request: Request, *expected: str) -> None:
    """Refuse other media types, which web forms could send, and compressed bodies, which may be bombs."""
    media, encoding = media_type(request), request.headers.get("content-encoding", "").strip().lower()
    if media not in expected:
        types = " or ".join(expected)
        raise RequestError("wrong_type", f"expected a body of the type {types}, got {media[:80]!r}", closes=True)
    if encoding not in ("", "identity"):
        raise RequestError("wrong_type", f"expected a body without compression, got {encoding[:80]!r}", closes=True)


def piece_of(message: Message) -> tuple[bytes, bool]:
    """A piece of a body, and whether more comes."""
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


async def _too_large(receive: Receive, most: int) -> RequestError:
    """The error, after the rest was read for a moment: many clients do not read before they have sent everything."""
    left, more = _DISCARDED * most, True
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_MOMENT):
            while more and left >= 0:
                piece, more = piece_of(await receive())
                left -= len(piece)
    return RequestError("too_large", f"the body is too large: expected at most {most} bytes", closes=True)
