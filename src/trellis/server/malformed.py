"""What is wrong with bytes that are no request of HTTP/1.1, by the word of the parser."""

from __future__ import annotations

import httptools

from trellis.server.problems import NotHTTPError, RequestError, VersionError

_VERSIONS = ("1.0", "1.1")
_OTHER_VERSION = ("Invalid HTTP version", "Pause on PRI/Upgrade")  # the second: HTTP/2 without asking for it
_OWN_WORDS = (httptools.HttpParserError, httptools.HttpParserInvalidMethodError, httptools.HttpParserInvalidURLError)


def check_version(version: str) -> None:
    """Refuse versions that the parser reads, but whose answers would look different."""
    if version not in _VERSIONS:
        raise VersionError(f"expected HTTP/1.1, got HTTP/{version}")


def malformed(error: BaseException | None) -> RequestError:
    """The problem of a request that the parser gave up with this error."""
    inner = None if error is None else error.__context__
    if isinstance(inner, RequestError):  # ours, found in a callback of the parser
        return inner
    words = str(error) if type(error) in _OWN_WORDS else "Invalid target"
    if words in _OTHER_VERSION:
        return VersionError("expected HTTP/1.1, got another version")
    return NotHTTPError(f"expected a request of HTTP/1.1: {words}")
