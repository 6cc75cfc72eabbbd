"""The one place that parses JSON from outside: files, rows, model headers, requests.

`json.loads` answers hostile text in four ways: a `JSONDecodeError`, a `RecursionError` for deep nesting, a plain
`ValueError` for numbers of thousands of digits, a `UnicodeDecodeError` for bytes that are not UTF-8. Here all of them
are one `JSONSyntaxError`, which callers turn into an error that says where.
"""

from __future__ import annotations

import json
import sys
from typing import Any


class JSONSyntaxError(ValueError):
    """Why a text cannot be read as JSON, in words that fit behind "expected JSON: "."""


def parse_json(text: str | bytes) -> Any:
    """The value that a JSON text stands for."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _problem(error) from None


def parse_json_prefix(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise _problem(error) from None


_DECODER = json.JSONDecoder()


def _problem(error: Exception) -> JSONSyntaxError:
    if isinstance(error, json.JSONDecodeError):
        return JSONSyntaxError(str(error))
    if isinstance(error, UnicodeDecodeError):
        return JSONSyntaxError(f"byte {error.start} is not UTF-8")
    if isinstance(error, RecursionError):
        return JSONSyntaxError("it is nested too deeply")
    return JSONSyntaxError(f"a number has more than {sys.get_int_max_str_digits()} digits")
