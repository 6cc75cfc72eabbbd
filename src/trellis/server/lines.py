"""JSON Lines, answered as they come: one line of answer per line of the body, in their order.

Lines wait for room in the queue instead of being refused, and no more of the body is read than can be answered soon, so
that memory does not grow with the body. A line that cannot be answered, or is too long, gets an error in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from trellis.server.batcher import Batcher
from trellis.server.bodies import pieces_of
from trellis.server.limits import ServerLimits
from trellis.server.openapi import LINES
from trellis.server.problems import OverloadedError, TooLargeError, problem_of
from trellis.server.requests import Prepared

_LINES = 512  # that wait for their answers
_CHUNK = 64 * 2**10  # bytes of answers that are sent at a time, if so many are ready
Waiting = asyncio.Queue["asyncio.Future[bytes] | None"]


class LinesResponse:
    """An ASGI response that reads lines and writes answers at the same time."""

    def __init__(self, batcher: Batcher, limits: ServerLimits, read: Callable[[bytes], Prepared]) -> None:
        self._batcher, self._limits, self._read = batcher, limits, read
        self._waiting: Waiting = asyncio.Queue(_LINES)
        self._held, self._freed = 0, asyncio.Event()
        self.status_code = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the whole body."""
        await send(_start())
        reading = asyncio.ensure_future(self._submit_all(receive))
        try:
            while (answer := await self._waiting.get()) is not None:
                await send({"type": "http.response.body", "body": await self._ready(answer), "more_body": True})
            await reading
            await send({"type": "http.response.body", "body": b""})
        except (ClientDisconnect, OSError):
            pass
        finally:
            reading.cancel()
            self._abandon()

    async def _ready(self, answer: asyncio.Future[bytes]) -> bytes:
        """An answer, and those after it that are there already."""
        found = [await answer]
        waiting = self._waiting._queue  # type: ignore[attr-defined]
        while sum(map(len, found)) < _CHUNK and waiting and waiting[0] is not None and waiting[0].done():
            found.append(await self._waiting.get_nowait())  # type: ignore[misc]
        return b"".join(found)

    async def _submit_all(self, receive: Receive) -> None:
        """Read to the end; what is wrong with the body itself is told as a last line."""
        number, pieces = 0, pieces_of(receive, self._limits.seconds, renewed_by=b"\n")
        try:
            async for line in lines_of(pieces, self._limits.line_bytes):
                if line is None:
                    await self._waiting.put(_told(self._too_long(), number))
                elif line.strip():
                    await self._waiting.put(await self._submit(line, number))
                number += 1
        except ClientDisconnect:
            self._abandon()
        except Exception as error:
            await self._waiting.put(_told(error, number))
        finally:
            await self._waiting.put(None)

    def _too_long(self) -> TooLargeError:
        return TooLargeError(f"the line is too long: expected at most {self._limits.line_bytes} bytes")

    async def _submit(self, line: bytes, number: int) -> asyncio.Future[bytes]:
        """A place in the queue for a line."""
        await self._space()
        try:
            prepared = self._read(line)
            while True:
                await self._batcher.room()
                try:
                    answer = self._batcher.submit(prepared.question, prepared.parts, prepared.finish, prepared.seconds)
                    break
                except OverloadedError:
                    await asyncio.sleep(0.01)
        except Exception as error:
            return _told(error, number)
        self._held += len(line)
        return asyncio.ensure_future(self._answer(answer, len(line), number))

    async def _answer(self, answer: asyncio.Future[bytes], size: int, number: int) -> bytes:
        try:
            return await answer + b"\n"
        except Exception as error:
            return _line(error, number)
        finally:
            self._held -= size
            self._freed.set()

    async def _space(self) -> None:
        """Wait until the lines that wait are few enough bytes."""
        while self._held > self._limits.body_bytes:
            self._freed.clear()
            await self._freed.wait()

    def _abandon(self) -> None:
        """Cancel what nobody waits for any more."""
        while not self._waiting.empty():
            answer = self._waiting.get_nowait()
            if answer is not None:
                answer.cancel()


async def lines_of(pieces: AsyncIterator[bytes], longest: int) -> AsyncIterator[bytes | None]:
    """The lines of a body; None for each that is longer, of which no more than a piece is kept."""
    rest, skipping = b"", False
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield None if skipping or len(line) > longest else line
            skipping = False
        if len(rest) > longest:
            rest, skipping = b"", True
    if rest or skipping:
        yield None if skipping else rest


def _told(error: Exception, number: int) -> asyncio.Future[bytes]:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    answer.set_result(_line(error, number))
    return answer


def _line(error: Exception, number: int) -> bytes:
    problem = problem_of(error)
    problem.input = number
    return problem.body() + b"\n"


def _start() -> Message:
    return {"type": "http.response.start", "status": 200, "headers": [(b"content-type", LINES.encode())]}
