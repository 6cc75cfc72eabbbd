"""Clients that have ended their half of the connection: some wait for their answers, others have gone.

TCP says the same of both, until one sends them something: who has gone then resets the connection. So a client that
waits longer than a moment gets `100 Continue`, which means nothing to it, again and again at growing intervals.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from trellis.server.alarms import Alarms

_SOON = 0.02  # seconds until the first look; most answers are quicker
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Watch:
    """Ends the connection of a client that has gone; `may_be_asked` says whether it can be found out now."""

    __slots__ = ("_alarm", "_alarms", "_loop", "_may_be_asked", "_pause", "_transport")

    def __init__(
        self,
        transport: asyncio.Transport,
        alarms: Alarms,
        loop: asyncio.AbstractEventLoop,
        may_be_asked: Callable[[], bool],
    ) -> None:
        self._transport, self._alarms, self._loop, self._may_be_asked = transport, alarms, loop, may_be_asked
        self._pause = _SOON
        self._set()

    def forget(self) -> None:
        """Look no more."""
        self._alarms.cancel(self._alarm)

    def _set(self) -> None:
        self._alarm = self._alarms.call(self._loop, self._loop.time() + self._pause, self._look)

    def _look(self) -> None:
        sock = self._transport.get_extra_info("socket")
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._transport.abort()
            return
        if self._may_be_asked():
            self._transport.write(_CONTINUE)
        self._pause *= 2
        self._set()
