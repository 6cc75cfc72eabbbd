"""Who may ask: names of this server, pages of this server, holders of a key; and what browsers may do with answers.

A server on localhost is reachable for every page that is open in a browser there. The Host header must name this server
(so that a foreign name that resolves to 127.0.0.1 gets nothing), and a request that says which page sent it must come
from a page of this server.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trellis.errors import ConfigError
from trellis.server.problems import RequestError

VARIABLE = "TRELLIS_API_KEYS"
LOCAL = ("localhost", "127.0.0.1", "[::1]")
OPEN = ("/healthz", "/readyz", "/health", "/", "/docs", "/openapi.json")
"""Addresses that need no key: probes, and what is the same for everybody."""
_SHORTEST = 16
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")
_ONCE = frozenset((b"host", b"origin", b"authorization", b"sec-fetch-site"))
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer."""


class Keys:
    """API keys, kept as digests; an empty collection lets everybody in."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __len__(self) -> int:
        return len(self._digests)

    @classmethod
    def read(cls, path: str | Path | None) -> Keys:
        """The keys of a file, one per line, and of the environment variable, where white space separates them."""
        keys = os.environ.get(VARIABLE, "").split()
        if path is not None:
            try:
                keys += Path(path).read_text(encoding="utf-8-sig").split()  # some editors begin with a mark
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"the keys in {path} cannot be read: {error}") from None
            if not keys:
                raise ConfigError(f"{path} holds no key: expected one per line")
        if short := [key for key in keys if len(key) < _SHORTEST]:
            raise ConfigError(f"an API key of {len(short[0])} characters is too short: expected at least {_SHORTEST}")
        return cls(keys)

    def admit(self, authorization: str | None) -> None:
        """Refuse who has no key; the time it takes says nothing about the keys."""
        given = _digest(_key(authorization or ""))
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        if matches and not any(matches):
            raise RequestError("no_key", "an API key is needed: send the header Authorization: Bearer KEY")


def _key(authorization: str) -> str:
    """The key of ``Bearer KEY``, or of ``Basic ...``, where it is the password: Label Studio knows only that."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(given, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return given.strip() if scheme.lower() == "bearer" else ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class Guard:
    """Middleware: checks who asks, and sets the headers that keep browsers in bounds."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str], keys: Keys) -> None:
        self._app, self._hosts, self._keys = app, frozenset(host.lower() for host in hosts), keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with its problem."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            self._check(scope["headers"], scope["path"])
        except RequestError as error:
            return await error.response()(scope, receive, guarded)
        return await self._app(scope, receive, guarded)

    def _check(self, headers: Iterable[tuple[bytes, bytes]], path: str) -> None:
        """Refuse who may not ask: by the headers of a request, nothing else."""
        decisive: dict[bytes, str] = {}
        for name, value in headers:
            if name in decisive:
                raise RequestError("wrong_host", f"the header {name.decode('latin-1')} comes twice")
            if name in _ONCE:
                decisive[name] = value.decode("latin-1")
        host, origin = decisive.get(b"host", ""), decisive.get(b"origin")
        if "*" not in self._hosts and _host_name(host) not in self._hosts:
            raise RequestError("wrong_host", f"this server is not called {host[:80]!r}: --allow-host adds a name")
        is_foreign = origin is not None and origin.partition("://")[2].lower() != host.lower()
        if is_foreign or (decisive.get(b"sec-fetch-site") == "cross-site" and path not in OPEN):
            raise RequestError("foreign_origin", "a page of another site may not ask this server")
        if path not in OPEN and not path.startswith("/page/"):
            self._keys.admit(decisive.get(b"authorization"))


@lru_cache(maxsize=64)
def _host_name(host: str) -> str:
    """A host without its port; nothing if it is more than a host and a port."""
    match = _HOST.fullmatch(host)
    return match[1].lower() if match else ""
