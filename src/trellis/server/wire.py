"""Heads of requests and answers as they go over the wire: those of most requests are the same bytes again and again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

from starlette.types import Scope

from trellis.server.bodies import BodyHeaders
from trellis.server.problems import RequestError
from trellis.server.security import HEADERS, Gate

HEAD_END = b"\r\n\r\n"
LONGEST, _MOST = 2048, 256  # bytes of a head that is remembered, and how many of them are
_DIGITS = 9  # of a length
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ?([0-9]{1,9})\r\n")
_PLAIN = (b"POST", b"/v1/tag", "1.1")
_OTHER_WAYS = frozenset((b"transfer-encoding", b"expect", b"upgrade", b"te", b"trailer", b"proxy-connection"))

Headers = Sequence[tuple[bytes, bytes]]


class HeadForm(NamedTuple):
    """A head that was checked: what comes before the length that it gives, and after it."""

    before: bytes
    after: bytes

    def body(self, data: bytes) -> tuple[int, int] | None:
        """Where the body begins and ends of the request that these bytes begin with; None if its head is another."""
        before, after = self
        if not data.startswith(before):
            return None
        first = len(before)
        last = data.find(after, first, first + _DIGITS + len(after))
        length = data[first:last] if last > 0 else b""
        if not length.isdigit():
            return None
        return last + len(after), last + len(after) + int(length)


class KnownHeads:
    """Heads of requests that were checked: the same bytes need no second look, whatever length they give.

    Only requests for ``/v1/tag`` with a body in JSON, on a connection that stays open, are remembered. Keys in them are
    not: where there are keys, what is kept is a digest.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._known: set[bytes] = set()

    def learn(self, data: bytes, url: bytes, scope: Scope) -> None:
        """Remember the head that some bytes begin with, which has become this scope, if its requests are plain ones."""
        name = self._name(data)
        if name is None or not self._is_plain(url, scope):
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known.add(name[0])

    def body(self, data: bytes) -> tuple[int, int] | None:
        """Where the body begins and ends of the request that these bytes begin with; None if its head is not known."""
        name = self._name(data)
        return (name[1], name[1] + name[2]) if name is not None and name[0] in self._known else None

    def form(self, data: bytes) -> HeadForm | None:
        """The known head that some bytes begin with, for a connection to remember; None if it may hold a key."""
        end = data.find(HEAD_END, 0, LONGEST)
        found = _LENGTH.search(data, 0, end + 2)
        if found is None or self._gate.keys:
            return None
        return HeadForm(data[: found.start(1)], data[found.end(1) : end + len(HEAD_END)])

    def _name(self, data: bytes) -> tuple[bytes, int, int] | None:
        """A head without the length that it gives, where it ends, and the length."""
        end = data.find(HEAD_END, 0, LONGEST)
        found = _LENGTH.search(data, 0, end + 2) if end > 0 else None
        if found is None:
            return None
        start, stop = found.span(1)
        name = data[:start] + data[stop:end]
        return hashlib.sha256(name).digest() if self._gate.keys else name, end + len(HEAD_END), int(found[1])

    def _is_plain(self, url: bytes, scope: Scope) -> bool:
        if (scope["method"].encode(), url, scope["http_version"]) != _PLAIN:
            return False
        names = [name for name, _ in scope["headers"]]
        staying = all(value.lower() == b"keep-alive" for name, value in scope["headers"] if name == b"connection")
        if not staying or names.count(b"content-length") != 1 or not _OTHER_WAYS.isdisjoint(names):
            return False
        try:
            BodyHeaders.of(scope).check("application/json")
            self._gate.check(scope["headers"], scope["path"])
        except RequestError:
            return False
        return True


class AnswerHeads:
    """The heads of answers in JSON, with everything that browsers are told."""

    def __init__(self) -> None:
        self._defaults: Headers | None = None
        self._fine = b""

    def fine(self, body: bytes, defaults: Headers) -> bytes:
        """An answer with its head; `defaults` are the server's own headers, a new list whenever they change."""
        if defaults is not self._defaults:
            self._defaults, self._fine = defaults, _head(200, (*defaults, *HEADERS))
        return b"%b%d\r\n\r\n%b" % (self._fine, len(body), body)

    def problem(self, error: RequestError, body: bytes, defaults: Headers) -> bytes:
        """A problem with its head."""
        own = [(name.encode(), value.encode()) for name, value in error.headers().items()]
        return _head(error.status, (*defaults, *HEADERS, *own)) + b"%d\r\n\r\n%b" % (len(body), body)


def closing(answer: bytes) -> bytes:
    """An answer that ends its connection."""
    head, _, body = answer.partition(HEAD_END)
    return head + b"\r\nconnection: close\r\n\r\n" + body


def _head(status: int, headers: Headers) -> bytes:
    """A head up to the number of bytes that follow it."""
    lines = [b"%s: %s\r\n" % header for header in headers]
    first = b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode())
    return b"".join([first, *lines, b"content-type: application/json\r\ncontent-length: "])
