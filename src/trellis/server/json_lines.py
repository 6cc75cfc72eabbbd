"""JSON Lines, answered as they come: one line of answer per line of the body, in their order.

Lines that come together are answered together, before more of the body is read, so that memory does not grow with it.
They wait for room in the queue instead of being refused. A line that cannot be answered, or is too long, gets an error
in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from trellis.server.batcher import Batcher
from trellis.server.body_limits import pieces_of
from trellis.server.fair_queue import BatchJob
from trellis.server.limits import ServerLimits
from trellis.server.problems import RequestError, logged
from trellis.server.schemas import LINES

LineReader = Callable[[Sequence[bytes]], list[BatchJob]]


class LineBlock(NamedTuple):
    """Lines that came together; `first` is the number of the first one in the body."""

    first: int
    lines: list[bytes | None]


class LinesResponse:
    """An ASGI response that reads lines and writes their answers in turns."""

    def __init__(self, batcher: Batcher, limits: ServerLimits, read: LineReader) -> None:
        self._batcher, self._limits, self._read = batcher, limits, read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the whole body; what is wrong with the body itself is told as a last line."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", LINES.encode())]})
        await send({"type": "http.response.body", "body": b"", "more_body": True})  # the head goes without waiting
        number, last = 0, b""
        try:
            async for block in blocks_of(pieces_of(receive, self._limits.seconds), self._limits.line_bytes):
                number = block.first + len(block.lines)
                await send({"type": "http.response.body", "body": await self._answer(block), "more_body": True})
        except (ClientDisconnect, OSError):
            return
        except Exception as error:
            last = _told(error, number)
        await send({"type": "http.response.body", "body": last})

    async def _answer(self, block: LineBlock) -> bytes:
        """The answers to lines: all together, or if that fails, one after another, to find those that are wrong."""
        lines = [line for line in block.lines if line]
        if 1 < len(lines) == len(block.lines) and all(map(bytes.strip, lines)):
            try:
                return await self._asked(lines)
            except Exception as error:
                if isinstance(error, RequestError) and error.status == 503:
                    return b"".join(_told(error, block.first + i) for i in range(len(block.lines)))
        answers = []
        for number, line in enumerate(block.lines, start=block.first):
            if line is None:
                most = self._limits.line_bytes
                long = RequestError("too_large", f"the line is too long: expected at most {most} bytes")
                answers.append(_told(long, number))
            elif line.strip():
                try:
                    answers.append(await self._asked([line]))
                except Exception as error:
                    answers.append(_told(error, number))
        return b"".join(answers)

    async def _asked(self, lines: Sequence[bytes]) -> bytes:
        """The answers to lines that are all right; they wait while there is no room for them."""
        seconds, answers = self._limits.seconds, []
        for job in self._read(lines):
            answer = await self._batcher.submit_patiently(job)
            try:
                async with asyncio.timeout(seconds):
                    answers.append(await answer)
            except TimeoutError:
                raise RequestError("deadline_passed", f"there was no answer within {seconds:g} seconds") from None
        return b"".join(answers)


async def blocks_of(pieces: AsyncIterator[bytes], longest: int) -> AsyncIterator[LineBlock]:
    """The lines of a body, those that end in one piece together; None is one that is too long."""
    first, rest, skipping = 0, b"", False
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        lines: list[bytes | None] = [None if len(line) > longest else line for line in whole]
        if skipping and lines:
            lines[0], skipping = None, False
        if len(rest) > longest:
            rest, skipping = b"", True
        if lines:
            yield LineBlock(first, lines)
            first += len(lines)
    if rest or skipping:
        yield LineBlock(first, [None if skipping else rest])


def _told(error: Exception, number: int) -> bytes:
    problem = logged(error)
    problem.input = number
    return problem.body() + b"\n"
