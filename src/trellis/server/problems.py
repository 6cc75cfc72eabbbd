"""What can go wrong with a request, and the one form in which a client is told.

``{"error": {"code": "too_large", "message": "the request has 120000 tokens: expected at most 100000"}}``
"""

from __future__ import annotations

import logging
import traceback
from typing import NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import encode
from starlette.responses import Response

from trellis.errors import TrellisError

JSON = "application/json"
_LOG = logging.getLogger("trellis.server")


class ErrorDetail(Struct, forbid_unknown_fields=True):
    """Code and message, and the number of the input that is at fault."""

    code: str
    message: str
    input: int | UnsetType = UNSET


class Error(Struct, forbid_unknown_fields=True):
    """What is wrong."""

    error: ErrorDetail


class Problem(NamedTuple):
    """The status of a problem, and when it occurs."""

    status: int
    about: str


PROBLEMS = {
    "malformed_json": Problem(400, "The body is not JSON in UTF-8."),
    "incomplete_body": Problem(400, "The body ended before its end, or its chunks are malformed."),
    "wrong_host": Problem(400, "The Host header names a server that this one is not, or a header comes twice."),
    "no_key": Problem(401, "An API key is needed: Authorization: Bearer KEY."),
    "foreign_origin": Problem(403, "A page of another site may not ask this server."),
    "not_found": Problem(404, "There is no such page, or no such model."),
    "wrong_method": Problem(405, "This address takes another method."),
    "too_slow": Problem(408, "The body of the request did not come in time."),
    "conflict": Problem(409, "Something else is under way, or is missing."),
    "too_large": Problem(413, "The request has more bytes or tokens than the limits allow."),
    "wrong_type": Problem(415, "The body is of another type, or compressed."),
    "invalid_request": Problem(422, "A field is missing, of another type, or out of range."),
    "refused": Problem(422, "The model cannot answer; for instance, known labels contradict each other."),
    "overloaded": Problem(429, "Too many tokens or bytes wait already; try again after Retry-After seconds."),
    "internal_error": Problem(500, "A mistake in Trellis."),
    "deadline_passed": Problem(503, "No answer within the time that the request had."),
    "unavailable": Problem(503, "The server is stopping, or cannot write to its disk."),
}
"""All problems by their code."""


class RequestError(TrellisError):
    """A request that gets a problem instead of an answer.

    Args:
        code: one of `PROBLEMS`.
        message: what is wrong with this request.
        retry_after: seconds after which it may be sent again.
        closes: whether the connection ends with the answer, because the body was not read to its end.

    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after: int | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.code, self.status = code, PROBLEMS[code].status
        self.retry_after, self.closes = retry_after, closes
        self.input: int | None = None
        """The number of the text, token list or line that is at fault."""

    def told(self) -> Error:
        """What the client gets."""
        return Error(ErrorDetail(self.code, str(self), UNSET if self.input is None else self.input))

    def response(self) -> Response:
        headers = {"connection": "close"} if self.closes else {}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        return Response(encode(self.told()), self.status, headers, JSON)


def invalid(message: str) -> RequestError:
    """A request with a wrong field."""
    return RequestError("invalid_request", message)


def too_large(message: str) -> RequestError:
    """A request that was read, and has more in it than the limits allow."""
    return RequestError("too_large", message)


def problem_of(error: BaseException) -> RequestError:
    """What a client is told about an exception: all that Trellis says, and nothing about mistakes of its own.

    Such a mistake is logged: what and where, but without its message, which may quote a text.
    """
    if isinstance(error, RequestError):
        return error
    if isinstance(error, TrellisError):
        return RequestError("refused", str(error))
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    _LOG.error("%s in %s, line %d", type(error).__name__, frame.f_code.co_name, line)
    return RequestError("internal_error", "this is a mistake in the server, and not in the request")
