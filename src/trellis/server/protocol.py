"""uvicorn's HTTP protocol with patience that ends: a request's head must come in time, and must not be too long.

Without these bounds a client could keep connections for itself by sending a byte now and then (slow loris), or fill the
memory with headers.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trellis.server.limits import ServerLimits

_END = b"\r\n\r\n"  # of a head


class JoinedTransport:
    """A transport that sends the head of an answer together with its body: one packet, and the client wakes up once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._head = transport, loop, b""

    def write(self, data: bytes) -> None:
        """Send; a head waits for the next piece, but not longer than until the event loop goes on."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/"):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Send what waits, and end."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's."""
        return getattr(self._transport, name)


def patient_protocol(limits: ServerLimits) -> type[HttpToolsProtocol]:
    """The protocol for uvicorn, with these limits."""

    class PatientProtocol(HttpToolsProtocol):
        _in_head, _begun = True, False  # a head is expected, or has begun
        _head_size = 0
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(JoinedTransport(transport, self.loop))  # type: ignore[arg-type]
            if len(self.connections) > limits.connections:
                transport.close()
            self._head_timer = self.loop.call_later(limits.head_seconds, self.transport.close)

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                room = max(0, limits.head_bytes - self._head_size)
                self._head_size += len(data)
                if len(data) > room and data.find(_END, 0, room + len(_END)) < 0:
                    self.transport.close()
                    return
            super().data_received(data)
            if self._begun and self._head_timer is None:  # most heads come whole, and need no timer
                self._head_timer = self.loop.call_later(limits.head_seconds, self.transport.close)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._begun = True

        def on_headers_complete(self) -> None:
            self._in_head = self._begun = False
            self._forget_timer()
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._in_head, self._head_size = True, 0

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_timer()
            super().connection_lost(exc)

        def _forget_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return PatientProtocol
