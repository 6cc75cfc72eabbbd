"""Requests with token lists read natively: the same fields and the same errors as without."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.damage import Change, changes, damaged
from trellis.server import ModelShelf, ServerLimits
from trellis.server.problems import RequestError, TooLargeError
from trellis.server.questions import TagQuestion
from trellis.server.reading import fields_of, fields_with_tokens
from trellis.server.requests import RequestReader
from trellis.text import PackedTokens
from trellis.untrusted import Fields

NAMES = ("tokens", "model", "probabilities", "k_best")
PIECES = [
    b'"',
    b"\\",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"0",
    b" ",
    b"\xff",
    b"\\ud83d",
    b'"tokens":[["b"]],',
    b'"x":1,',
]
REQUESTS = st.fixed_dictionaries(
    {"tokens": st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=3), max_size=3), max_size=3)},
    optional={"model": st.text(max_size=3), "probabilities": st.booleans(), "unknown": st.none()},
)


def natively(body: bytes) -> Fields:
    """The fields, with tokens read natively where that is possible."""
    return fields_with_tokens(body, PackedTokens.read(body, "tokens"), NAMES)


def told(read: Any, body: bytes) -> Any:
    """The fields, or the words of the error."""
    try:
        values = dict(read(body).values)
    except RequestError as error:
        return error.status, error.body()
    if isinstance(values.get("tokens"), PackedTokens):
        values["tokens"] = list(values["tokens"])
    return values


@settings(max_examples=500)
@given(REQUESTS, changes(PIECES, removed=2, max_size=3))
def test_native_reading_changes_nothing(request_: dict[str, Any], changed: list[Change]) -> None:
    body = damaged(json.dumps(request_).encode(), changed)
    assert told(natively, body) == told(lambda own: fields_of(own, NAMES), body)


@pytest.mark.parametrize("tokens", [[], [[]], [["a", "é😀"], [], ["b"]]])
def test_token_lists_are_packed(tokens: list[list[str]]) -> None:
    fields = natively(json.dumps({"probabilities": False, "tokens": tokens}).encode())
    assert isinstance(fields.values["tokens"], PackedTokens)
    assert list(fields.values["tokens"]) == tokens


def prepared(reader: RequestReader, tokens: list[list[str]], **options: Any) -> tuple[Any, ...]:
    """What a request is read as."""
    found = reader.tag(json.dumps({"tokens": tokens} | options).encode())
    contents = [[list(item) for item in part.content.items] for part in found.parts]
    return found.question, contents, [part.tokens for part in found.parts], found.finish, found.seconds


@pytest.mark.parametrize("options", [{}, {"model": "hmm"}, {"timeout": 3}, {"model": "ner", "timeout": 0.5}])
def test_remembered_options_read_like_the_first_time(model_folders: dict[str, Path], options: dict[str, Any]) -> None:
    shelf = ModelShelf(model_folders)
    reader, fresh = (RequestReader(shelf, ServerLimits()) for _ in range(2))
    prepared(reader, [["first"]], probabilities=False, **options)
    for tokens in ([["a", "b"], [], ["c"]], [], [["x"] * 3000]):
        again = prepared(reader, tokens, probabilities=False, **options)
        assert again == prepared(RequestReader(shelf, ServerLimits()), tokens, probabilities=False, **options)
    assert prepared(reader, [["a"]], **options) == prepared(fresh, [["a"]], **options)
    assert isinstance(prepared(reader, [["a"]], **options)[0], TagQuestion)


def test_remembered_options_ask_the_model_of_today(own_folders: dict[str, Path]) -> None:
    shelf = ModelShelf(own_folders)
    reader = RequestReader(shelf, ServerLimits())
    before = prepared(reader, [["a"]], probabilities=False)[0].model
    os.utime(own_folders["ner"] / "model.safetensors", ns=(1, 1))
    assert shelf.refresh() == ["ner"]
    after = prepared(reader, [["a"]], probabilities=False)[0].model
    assert after is shelf.get("ner")
    assert after is not before


def test_limits_hold_for_remembered_options(model_folders: dict[str, Path]) -> None:
    reader = RequestReader(ModelShelf(model_folders), ServerLimits(tokens=5, sentence_tokens=3))
    prepared(reader, [["a"]], probabilities=False)
    with pytest.raises(TooLargeError, match="the request has 6 tokens"):
        prepared(reader, [["a"] * 3, ["b"] * 3], probabilities=False)
    with pytest.raises(TooLargeError, match="a sentence has 4 tokens"):
        prepared(reader, [["a"] * 4], probabilities=False)


def test_few_options_are_remembered(model_folders: dict[str, Path]) -> None:
    reader = RequestReader(ModelShelf(model_folders), ServerLimits())
    for i in range(1, 300):
        prepared(reader, [["a"]], probabilities=False, timeout=i / 100)
    assert len(reader._plain) <= 64
