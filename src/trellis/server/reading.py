"""Fields of requests: checked one by one, with errors that say which, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from trellis.errors import TrellisError
from trellis.lexicon import PREFER, Entry, Lexicon, parse_strength
from trellis.server.problems import InvalidRequestError, MalformedError, RequestError, TooLargeError
from trellis.suggest import did_you_mean
from trellis.text import PackedTokens
from trellis.untrusted import Fields, shown

_QUERY = ("model", "probabilities", "k_best", "spans_only")


def parsed(body: bytes) -> Any:
    """The JSON of a body. This parser refuses what JSON does not know: NaN, half of a surrogate pair, deep nesting."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedError(_not_utf8(body) or f"expected JSON: {error}") from None


def _not_utf8(body: bytes) -> str | None:
    """Which byte of a body is not UTF-8, and where; None if all are."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        before = body[: error.start]
        line, byte = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        place = f"line {line}, byte {byte} of it"
        return f"expected JSON in UTF-8, got 0x{body[error.start]:02x} at {place}: {error.reason}"
    return None


def check_object(body: bytes) -> None:
    """Refuse the body of a request that needs no fields, unless it is a JSON object."""
    Fields(parsed(body), "the request", InvalidRequestError)


def fields_of(body: bytes, names: Sequence[str]) -> Fields:
    """The fields of a request, none of which has another name."""
    fields = Fields(parsed(body), "the request", InvalidRequestError)
    unknown = next((name for name in fields.values if name not in names), None)
    if unknown is not None:
        raise InvalidRequestError(f"the request has an unknown field {shown(unknown)}{did_you_mean(unknown, names)}")
    return fields


def fields_with_tokens(body: bytes, found: tuple[PackedTokens, bytes] | None, names: Sequence[str]) -> Fields:
    """The same, with the field `tokens` as it was found, if `PackedTokens.read` did."""
    if found is None:
        return fields_of(body, names)
    try:
        fields = fields_of(found[1], names)
    except RequestError:  # is told with the places that it has in the whole body
        return fields_of(body, names)
    fields.values["tokens"] = found[0]
    return fields


def one_of(fields: Fields, names: Sequence[str]) -> str:
    """The one of these fields that a request has."""
    found = [name for name in names if name in fields]
    if len(found) != 1:
        raise InvalidRequestError(
            f"the request must have one of {', '.join(names)}, got {' and '.join(found) or 'none'}"
        )
    return found[0]


def check_spans_only(spans_only: bool, probabilities: bool) -> None:
    """Refuse options that contradict each other."""
    if spans_only and not probabilities:
        raise InvalidRequestError("spans_only needs probabilities: spans come with theirs")


def options_of(query: Mapping[str, str]) -> dict[str, Any]:
    """The options of a query, as they would stand in JSON."""
    unknown = next((name for name in query if name not in _QUERY), None)
    if unknown is not None:
        raise InvalidRequestError(f"the query has an unknown option {shown(unknown)}{did_you_mean(unknown, _QUERY)}")
    words: dict[str, Any] = {"true": True, "false": False}
    plain = {name: words.get(value, value) for name, value in query.items()}
    return {name: int(value) if name == "k_best" and _is_number(value) else value for name, value in plain.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10


def integer(fields: Fields, name: str, default: int, low: int, high: int) -> int:
    """A whole number in ``low..high``, if it is given."""
    return fields.integer(name, low, high) if name in fields else default


def flag(fields: Fields, name: str, default: bool) -> bool:
    """True or false."""
    return bool(fields.value(name, bool)) if name in fields else default


def texts_in(fields: Fields, form: str) -> list[str]:
    """A list of texts."""
    return fields.items(form, str)


def token_lists_in(fields: Fields) -> Sequence[list[str]]:
    """The field `tokens`, a list of lists."""
    packed = fields.values["tokens"]
    if isinstance(packed, PackedTokens):
        return packed
    found: list[list[str]] = fields.items("tokens", list)
    try:
        "".join(map("".join, found))
        fine = all(map(all, found))
    except TypeError:  # something that is not a string
        fine = False
    return found if fine else [checked_tokens(item, f"tokens[{i}]") for i, item in enumerate(found)]


def checked_tokens(item: list[Any], where: str) -> list[str]:
    """A list of tokens, none of which is empty."""
    if not set(map(type, item)) <= {str}:
        wrong = next(token for token in item if type(token) is not str)
        raise InvalidRequestError(f"{where} must be a list of strings, got {shown(wrong)} in it")
    if "" in item:
        raise InvalidRequestError(f"{where} has an empty token")
    return item


def lexicon_in(fields: Fields, most: int) -> tuple[Entry, ...]:
    """The entries of a lexicon; none if there is no such field."""
    if "lexicon" not in fields:
        return ()
    given = fields.items("lexicon", dict)
    if len(given) > most:
        raise TooLargeError(f"lexicon has {len(given)} entries: expected at most {most}")
    return tuple(_entry(item, f"lexicon[{i}]") for i, item in enumerate(given))


def _entry(item: dict[str, Any], where: str) -> Entry:
    fields = Fields(item, where, InvalidRequestError)
    surface = fields.text("surface")
    label = fields.text("label") if "label" in fields else None
    strength = fields.value("strength", str, int, float) if "strength" in fields else PREFER
    try:
        return Lexicon([(surface, label, parse_strength(strength))])[0]
    except TrellisError as error:
        raise InvalidRequestError(f"{where}: {error}") from None
