"""JSON Lines, answered as they come: one line of answer per line of the body, in their order.

Lines that come together are answered together, before more of the body is read, so that memory does not grow with it.
They wait for room in the queue instead of being refused. A line that cannot be answered, or is too long, gets an error
in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from trellis.server.batcher import Batcher, BatchJob
from trellis.server.limits import ServerLimits, piece_of
from trellis.server.problems import RequestError, problem_of
from trellis.server.schemas import LINES

Line = tuple[int, bytes | None]
"""Its number in the body, and its content; None if it is too long."""


class LinesResponse:
    """An ASGI response that reads lines and writes their answers in turns."""

    def __init__(
        self, batcher: Batcher, limits: ServerLimits, build: Callable[[Sequence[bytes]], list[BatchJob]]
    ) -> None:
        self._batcher, self._limits, self._build = batcher, limits, build

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the whole body; what is wrong with the body itself is told as a last line."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", LINES.encode())]})
        await send({"type": "http.response.body", "body": b"", "more_body": True})  # the head goes without waiting
        number, last = 0, b""
        try:
            async for lines in blocks_of(_pieces(receive, self._limits.seconds), self._limits.line_bytes):
                number = lines[-1][0] + 1
                await send({"type": "http.response.body", "body": await self._answer(lines), "more_body": True})
        except (ClientDisconnect, OSError):
            return
        except Exception as error:
            last = _error_line(error, number)
        await send({"type": "http.response.body", "body": last})

    async def _answer(self, lines: Sequence[Line]) -> bytes:
        """The answers to lines: all together, or if that fails, one after another, to find those that are wrong."""
        try:
            contents = [content for _, content in lines if content is not None]
            if len(contents) < len(lines):
                most = self._limits.line_bytes
                raise RequestError("too_large", f"the line is too long: expected at most {most} bytes")
            return await self._ask(contents)
        except Exception as error:
            if len(lines) == 1 or (isinstance(error, RequestError) and error.status == 503):
                return b"".join([_error_line(error, number) for number, _ in lines])
            return b"".join([await self._answer([line]) for line in lines])

    async def _ask(self, contents: Sequence[bytes]) -> bytes:
        """The answers to lines that are all right; they wait while there is no room for them."""
        seconds, answers = self._limits.seconds, []
        for job in await self._batcher.in_thread(self._build, contents):
            answer = await self._batcher.submit_patiently(job)
            try:
                async with asyncio.timeout(seconds):
                    answers.append(await answer)
            except TimeoutError:
                raise RequestError("deadline_passed", f"there was no answer within {seconds:g} seconds") from None
        return b"".join(answers)


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


async def blocks_of(pieces: AsyncIterator[bytes], longest: int) -> AsyncIterator[list[Line]]:
    """The lines of a body that are not empty, those that end in one piece together."""
    first, rest, skipping = 0, b"", False
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        numbered: list[Line] = [
            (number, line if len(line) <= longest else None) for number, line in enumerate(lines, first) if line.strip()
        ]
        if skipping and lines:  # the end of a line that is too long
            numbered = [(first, None), *(line for line in numbered if line[0] > first)]
            skipping = False
        if len(rest) > longest:
            rest, skipping = b"", True
        if numbered:
            yield numbered
        first += len(lines)
    if rest.strip() or skipping:
        yield [(first, None if skipping else rest)]


def _error_line(error: Exception, number: int) -> bytes:
    problem = problem_of(error)
    problem.input = number
    return problem.body() + b"\n"
