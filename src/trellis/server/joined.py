"""A transport for answers that are written in two pieces."""

from __future__ import annotations

import asyncio
from typing import Any


class JoinedTransport:
    """A transport that sends the head of an answer together with its body: one packet, and the client wakes up once.

    What the client has not read some seconds after the end is thrown away.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._transport, self._loop, self._head, self._seconds = transport, loop, b"", seconds

    def write(self, data: bytes) -> None:
        """Send; a head waits for the next piece, but not longer than until the event loop goes on."""
        if self._transport.is_closing():  # the client has gone
            return
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/"):
            self._head = data
            self._loop.call_soon(self.flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Send what waits, and end."""
        self.flush()
        if not self._transport.is_closing() and self._transport.get_write_buffer_size():
            self._loop.call_later(self._seconds, self._transport.abort)
        self._transport.close()

    def flush(self) -> None:
        """Send a head that waits."""
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's."""
        return getattr(self._transport, name)
