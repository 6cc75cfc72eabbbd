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


def patient_protocol(limits: ServerLimits) -> type[HttpToolsProtocol]:
    """The protocol for uvicorn, with these limits."""

    class PatientProtocol(HttpToolsProtocol):
        _head_timer: asyncio.TimerHandle | None = None
        _head_size = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.close()
            self._expect_head()

        def data_received(self, data: bytes) -> None:
            if self._head_timer is not None:
                room = max(0, limits.head_bytes - self._head_size)
                self._head_size += len(data)
                if len(data) > room and data.find(_END, 0, room + len(_END)) < 0:
                    self.transport.close()
                    return
            super().data_received(data)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_head()

        def on_headers_complete(self) -> None:
            self._forget_head()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_head()
            super().connection_lost(exc)

        def _expect_head(self) -> None:
            self._forget_head()
            self._head_size = 0
            self._head_timer = self.loop.call_later(limits.head_seconds, self.transport.close)

        def _forget_head(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return PatientProtocol
