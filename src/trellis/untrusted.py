"""The one place that parses JSON from outside: files, rows, model headers, requests.

`json.loads` fails on hostile text in four ways: a `JSONDecodeError`, a `RecursionError` for deep nesting, a plain
`ValueError` for numbers of thousands of digits, a `UnicodeDecodeError` for bytes that are not UTF-8. Here all of them
are one `JSONSyntaxError`, which callers turn into an error that says where.

What was parsed may still be anything: `Fields` asks an object for its fields by name and by type.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trellis.errors import StoreError, TrellisError, shown

_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


class JSONSyntaxError(ValueError):
    """Why a text cannot be read as JSON, in words that fit behind "expected JSON: "."""


def parse_json(text: str | bytes) -> Any:
    """The value that a JSON text stands for."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise _problem(error) from None


def parse_json_prefix(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise _problem(error) from None


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can write a text; it cannot write half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Fields:
    """A JSON object from outside, asked for its fields by name and type.

    A field that is missing or of another type is an error that says where, which, what was expected and what was found.

    Args:
        values: what was parsed; anything but an object is refused.
        where: the beginning of every message, e.g. "model.safetensors: the manifest".
        error: the kind of error.

    """

    __slots__ = ("error", "values", "where")

    def __init__(self, values: Any, where: str, error: type[TrellisError] = StoreError) -> None:
        self.where, self.error = where, error
        if not isinstance(values, dict):
            raise error(f"{where} must be an object, got {_name(values)}")
        self.values: dict[str, Any] = values

    def __contains__(self, name: str) -> bool:
        """Whether there is such a field, null or not."""
        return name in self.values

    def value(self, name: str, *kinds: type) -> Any:
        """The value of a field, of one of these types of `json`; true and false are not numbers."""
        expected = " or ".join(_NAMES[kind] for kind in kinds)
        if name not in self.values:
            raise self.error(f"{self.where} lacks the field {name!r}: expected {expected}")
        value = self.values[name]
        if type(value) not in kinds:
            raise self.error(f"{self.where}: the field {name!r} must be {expected}, got {_name(value)}")
        return value

    def text(self, name: str) -> str:
        """A string."""
        text: str = self.value(name, str)
        return text

    def choice(self, name: str, allowed: Iterable[str]) -> str:
        """One of some strings."""
        text, known = self.text(name), tuple(allowed)
        if text not in known:
            expected = ", ".join(map(repr, known))
            raise self.error(f"{self.where}: the field {name!r} must be one of {expected}, got {shown(text)}")
        return text

    def integer(self, name: str, low: int, high: int) -> int:
        """A whole number in ``low..high``."""
        return self._in_range(f"the field {name!r}", self.value(name, int), low, high)

    def integers(self, name: str, low: int, high: int) -> tuple[int, ...]:
        """A list of whole numbers in ``low..high``."""
        items = self.items(name, int)
        return tuple(self._in_range(f"item {i} of the field {name!r}", item, low, high) for i, item in enumerate(items))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(self.items(name, str))

    def items(self, name: str, *kinds: type) -> list[Any]:
        """A list of values of these types."""
        items: list[Any] = self.value(name, list)
        for number, item in enumerate(items):
            if type(item) not in kinds:
                expected = " or ".join(_NAMES[kind] for kind in kinds)
                what = f"item {number} of the field {name!r}"
                raise self.error(f"{self.where}: {what} must be {expected}, got {_name(item)}")
        return items

    def table(self, name: str) -> Fields:
        """An object."""
        return Fields(self.value(name, dict), f"{self.where}: the field {name!r}", self.error)

    def optional_table(self, name: str) -> Fields | None:
        """An object or null."""
        return None if self.value(name, dict, type(None)) is None else self.table(name)

    def _in_range(self, what: str, number: int, low: int, high: int) -> int:
        if not low <= number <= high:
            raise self.error(f"{self.where}: {what} must be in {low}..{high}, got {shown(number)}")
        return number


def _name(value: Any) -> str:
    """The JSON type of a value; numbers and strings with their value."""
    kind = _NAMES.get(type(value), type(value).__name__)
    return f"{kind} ({shown(value)})" if isinstance(value, int | float | str) else kind


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: of two values of one key, `json` drops the first without a word."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise JSONSyntaxError(f"the key {shown(next(key for key in keys if keys.count(key) > 1))} occurs twice")
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _problem(error: Exception) -> JSONSyntaxError:
    if isinstance(error, JSONSyntaxError):
        return error
    if isinstance(error, json.JSONDecodeError):
        return JSONSyntaxError(str(error))
    if isinstance(error, UnicodeDecodeError):
        return JSONSyntaxError(f"byte {error.start} is not UTF-8")
    if isinstance(error, RecursionError):
        return JSONSyntaxError("it is nested too deeply")
    return JSONSyntaxError(f"a number has more than {sys.get_int_max_str_digits()} digits")


def read_json(path: Path) -> Any:
    """The content of a JSON file; None if there is none."""
    try:
        return parse_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, JSONSyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"expected JSON: {error}"
        raise StoreError(f"{path} cannot be read: {reason}") from None
