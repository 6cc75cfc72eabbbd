"""What can go wrong with a request, and the one form in which a client is told.

    {"error": {"code": "too_many_tokens", "message": "the request has 120000 tokens: expected at most 100000"}}

Every code has its status, and `STATUSES` is the list of both that the OpenAPI document shows.
"""

from __future__ import annotations

import json
import logging
from typing import ClassVar

from trellis.errors import TrellisError

_LOG = logging.getLogger("trellis.server")


class RequestError(TrellisError):
    """A request that gets an error instead of an answer."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    about: ClassVar[str] = "A mistake in Trellis."
    closes: ClassVar[bool] = False
    """Whether the connection ends with the answer, as the body may not have been read."""

    def __init__(self, message: str, *, retry_after: int | None = None, input: int | None = None) -> None:
        super().__init__(message)
        self.retry_after, self.input = retry_after, input

    def body(self) -> bytes:
        """The answer to the client."""
        error: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.input is not None:
            error["input"] = self.input
        return json.dumps({"error": error}).encode()

    def headers(self) -> dict[str, str]:
        """What else the client should know."""
        return {} if self.retry_after is None else {"retry-after": str(self.retry_after)}


class MalformedError(RequestError):
    """Not JSON."""

    status, code, about = 400, "malformed_json", "The body is not JSON in UTF-8."


class NotHTTPError(RequestError):
    """Not HTTP."""

    status, code, about = 400, "malformed_http", "What came is not a request of HTTP/1.1, or not a whole one."
    closes = True


class WrongHostError(RequestError):
    """Asked under another name."""

    status, code, about = 400, "wrong_host", "The Host header names a server that this one is not."


class NoKeyError(RequestError):
    """No API key."""

    status, code, about = 401, "no_key", "An API key is needed: Authorization: Bearer KEY."


class ForeignOriginError(RequestError):
    """A web page of another site."""

    status, code, about = 403, "foreign_origin", "A page of another site may not ask this server."


class NotFoundError(RequestError):
    """No such thing."""

    status, code, about = 404, "not_found", "There is no such page, or no such model."


class WrongMethodError(RequestError):
    """No such method."""

    status, code, about = 405, "wrong_method", "This address takes another method."


class TooSlowError(RequestError):
    """The body did not come."""

    status, code, about = 408, "too_slow", "The body of the request did not come in time."
    closes = True


class ConflictError(RequestError):
    """Something else is under way."""

    status, code, about = 409, "conflict", "Something else is under way, or is missing."


class TooLargeError(RequestError):
    """More than the limits allow."""

    status, code, about = 413, "too_large", "The request has more bytes or tokens than the limits allow."
    closes = True


class WrongTypeError(RequestError):
    """Not the media type, or compressed."""

    status, code, about = 415, "wrong_type", "The body is of another type, or compressed."
    closes = True


class InvalidRequestError(RequestError):
    """JSON, but not a request."""

    status, code, about = 422, "invalid_request", "A field is missing, of another type, or out of range."


class RefusedError(RequestError):
    """A model cannot answer."""

    status, code, about = (
        422,
        "refused",
        "The model cannot answer; for instance, known labels contradict each other.",
    )


class OverloadedError(RequestError):
    """Too much waits already."""

    status, code, about = 429, "overloaded", "Too many tokens wait already; try again after Retry-After seconds."


class CrowdedError(OverloadedError):
    """Too many bytes are here already."""

    closes = True


class HeadTooLongError(RequestError):
    """More headers than the limits allow."""

    status, code, about = 431, "head_too_long", "The first line and the headers have more bytes than the limits allow."
    closes = True


class TooLateError(RequestError):
    """The deadline has passed."""

    status, code, about = 503, "deadline_passed", "No answer within the time that the request had."


class UnavailableError(RequestError):
    """Not now."""

    status, code, about = 503, "unavailable", "The server is starting or stopping."


class VersionError(RequestError):
    """Not the version."""

    status, code, about = 505, "wrong_version", "The request is of another version than HTTP/1.1 and HTTP/1.0."
    closes = True


STATUSES: tuple[type[RequestError], ...] = (
    MalformedError,
    NotHTTPError,
    WrongHostError,
    NoKeyError,
    ForeignOriginError,
    NotFoundError,
    WrongMethodError,
    TooSlowError,
    ConflictError,
    TooLargeError,
    WrongTypeError,
    InvalidRequestError,
    RefusedError,
    OverloadedError,
    HeadTooLongError,
    RequestError,
    TooLateError,
    UnavailableError,
    VersionError,
)


def problem_of(error: BaseException) -> RequestError:
    """What a client is told about an exception: all that Trellis says, and nothing about mistakes of its own."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, TrellisError):
        return RefusedError(str(error))
    return RequestError("this is a mistake in the server, and not in the request")


def reported(error: BaseException) -> RequestError:
    """The same, and what is a mistake of ours goes to the log."""
    problem = problem_of(error)
    if problem.status == 500:
        log_mistake(problem.__cause__ or error)
    return problem


def log_mistake(error: BaseException) -> None:
    """What went wrong and where, without the message: it may quote somebody's text."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = "unknown" if last is None else f"{last.tb_frame.f_code.co_name}, line {last.tb_lineno}"
    _LOG.error("%s in %s", type(error).__name__, place)
