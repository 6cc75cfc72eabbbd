"""JSON Lines, answered as they come: one line of answer per line of the body, in their order.

Lines that come together are answered together, before more of the body is read, so that memory does not grow with it.
They wait for room in the queue instead of being refused. A line that cannot be answered, or is too long, gets an error
in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress

from msgspec.json import encode
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from trellis.server.batcher import Batcher, BatchJob
from trellis.server.limits import ServerLimits, piece_of
from trellis.server.problems import RequestError, problem_of
from trellis.server.schemas import LINES

Block = tuple[int, bytes | None]
"""The number of a line, and this line and others after it; None is one line that is too long."""


class LinesResponse:
    """An ASGI response that reads lines and writes their answers in turns."""

    def __init__(
        self, batcher: Batcher, limits: ServerLimits, build: Callable[[Mapping[int, bytes]], BatchJob]
    ) -> None:
        self._batcher, self._limits, self._build = batcher, limits, build

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the whole body; what is wrong with the body itself is told as a last line."""

        async def write(body: bytes, more: bool = True) -> None:
            async with asyncio.timeout(self._limits.seconds):  # for a client that does not read
                await send({"type": "http.response.body", "body": body, "more_body": more})

        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", LINES.encode())]})
        number, last = 0, b""
        with suppress(ClientDisconnect, OSError):  # the connection ends before the answer does
            await write(b"")  # the head goes without waiting
            try:
                async for number, lines in blocks_of(_pieces(receive, self._limits.seconds), self._limits.line_bytes):
                    await write(await self._answer(number, lines))
                    number += 1 if lines is None else lines.count(b"\n")
            except (ClientDisconnect, OSError):
                raise
            except Exception as error:
                last = _error_line(error, number)
            await write(last, more=False)

    async def _answer(self, number: int, lines: bytes | None) -> bytes:
        """The answers to lines: all together, or if that fails, each half by itself, to find those that are wrong."""
        try:
            return await self._ask(number, lines)
        except Exception as error:
            contents = (lines or b"").split(b"\n")
            if len(contents) == 1:
                return _error_line(error, number)
            if isinstance(error, RequestError) and error.status == 503:
                return b"".join([_error_line(error, i) for i in _numbered(contents, number)])
            half = len(contents) // 2
            first = await self._answer(number, b"\n".join(contents[:half]))
            return first + await self._answer(number + half, b"\n".join(contents[half:]))

    async def _ask(self, number: int, lines: bytes | None) -> bytes:
        """The answers to lines that no model refuses; they wait while there is no room for them."""
        job = await self._batcher.in_thread(self._job, (number, lines))
        answer = await self._batcher.submit_patiently(job)
        try:
            async with asyncio.timeout(job.seconds):
                return bytes(await answer)
        except TimeoutError:
            raise RequestError("deadline_passed", f"there was no answer within {job.seconds:g} seconds") from None

    def _job(self, block: Block) -> BatchJob:
        number, lines = block
        most = self._limits.line_bytes
        contents = [] if lines is None else lines.split(b"\n")
        if lines is None or max(map(len, contents)) > most:
            raise RequestError("too_large", f"the line is too long: expected at most {most} bytes")
        return self._build(_numbered(contents, number))


async def _pieces(receive: Receive, seconds: float) -> AsyncIterator[bytes]:
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


async def blocks_of(pieces: AsyncIterator[bytes], longest: int) -> AsyncIterator[Block]:
    """The lines of a body, those that end in one piece together."""
    number, skipping = 0, False
    begun = bytearray()  # of a line that has no end yet; pieces by themselves could take twenty times their bytes
    async for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if skipping and not end:
            continue
        if skipping:  # the end of a line that is too long
            first = piece.index(b"\n") + 1
            yield number, None
            number, end, piece, skipping = number + 1, end - first, piece[first:], False
        if end:
            lines = bytes(begun) + piece[:end]
            yield number, lines
            number += lines.count(b"\n")
            begun.clear()
        begun += piece[end:]
        if len(begun) > longest:
            begun.clear()
            skipping = True
    if begun or skipping:
        yield number, None if skipping else bytes(begun)


def _numbered(lines: list[bytes], first: int) -> dict[int, bytes]:
    """The lines that are not empty, by their numbers."""
    return {number: line for number, line in enumerate(lines, first) if line and not line.isspace()}


def _error_line(error: Exception, number: int) -> bytes:
    problem = problem_of(error)
    problem.input = number
    return encode(problem.told()) + b"\n"
