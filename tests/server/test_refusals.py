"""Bad requests: each gets an error of the one form with a declared status, and nothing leaks."""

import asyncio
import json
import logging
import re
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Message

from tests.server.conftest import TEXT, Client, client_of
from trellis.errors import ConfigError
from trellis.server import ModelRegistry, ServerLimits, inference
from trellis.server.batcher import Batcher
from trellis.server.inference import TagInference
from trellis.server.jobs import JobBuilder
from trellis.server.json_lines import LinesResponse, blocks_of
from trellis.server.schemas import TagOptions

SMALL = ServerLimits(
    body_bytes=2000,
    line_bytes=200,
    tokens=50,
    high_tokens=100,
    low_tokens=50,
    sentence_tokens=30,
    k=5,
    explained_tokens=4,
    lexicon_entries=2,
    lexicon_characters=100,
)


@pytest.fixture(scope="module")
def strict(registry: ModelRegistry) -> Any:
    yield from client_of(registry, limits=SMALL)


@pytest.mark.parametrize(
    ("path", "request_", "status", "message"),
    [
        ("/v1/tag", {}, 422, "must have one of texts, tokens, documents, got none"),
        ("/v1/tag", {"texts": ["a"], "tokens": [["a"]]}, 422, "got texts and tokens"),
        ("/v1/tag", [], 422, "Expected `object`, got `array`"),
        ("/v1/tag", {"texts": "a"}, 422, r"Expected `array`, got `str` - at `\$.texts`"),
        ("/v1/tag", {"texts": [1]}, 422, r"Expected `str`, got `int` - at `\$.texts\[0\]`"),
        ("/v1/tag", {"tokens": [[1]]}, 422, r"Expected `str`, got `int` - at `\$.tokens\[0\]\[0\]`"),
        ("/v1/tag", {"tokens": [["a", ""]]}, 422, r"Expected `str` of length >= 1 - at `\$.tokens\[0\]\[1\]`"),
        ("/v1/tag", {"texts": ["a"], "modle": "ner"}, 422, "unknown field 'modle'; did you mean 'model'"),
        ("/v1/tag", {"texts": ["a"], "model": "nre"}, 404, "no model 'nre'; did you mean 'ner'"),
        ("/v1/tag", {"texts": ["a"], "model": None}, 422, r"Expected `str`, got `null` - at `\$.model`"),
        ("/v1/tag", {"texts": ["a"], "k_best": 6}, 422, r"k_best must be in 0\.\.5, got 6"),
        ("/v1/tag", {"texts": ["a"], "k_best": True}, 422, r"Expected `int`, got `bool` - at `\$.k_best`"),
        ("/v1/tag", {"texts": ["a"], "probabilities": 1}, 422, r"Expected `bool`, got `int` - at `\$.probabilities`"),
        ("/v1/tag", {"texts": ["a"], "probabilities": False, "spans_only": True}, 422, "spans come with theirs"),
        ("/v1/tag", {"documents": ["a"], "k_best": 1}, 422, "send their sentences as texts"),
        ("/v1/tag", {"documents": ["a"], "known": [[None]]}, 422, "not to documents"),
        ("/v1/tag", {"texts": ["a"], "known": []}, 422, "known has 0 lists: expected 1"),
        ("/v1/tag", {"texts": ["a"], "known": [["O", "O"]]}, 422, r"known\[0\] has 2 labels for 1 tokens"),
        ("/v1/tag", {"texts": ["a"], "known": [["X"]]}, 422, "must be labels of the model, .* got 'X'"),
        (
            "/v1/tag",
            {"texts": ["a"], "known": [[[]]]},
            422,
            r"Expected `array` of length >= 1 - at `\$.known\[0\]\[0\]`",
        ),
        ("/v1/tag", {"texts": ["a"], "known": [[["O", None]]]}, 422, "Expected `str`, got `null`"),
        ("/v1/tag", {"texts": ["a"], "timeout": 31}, 422, "timeout must be above 0 and at most 30 seconds"),
        ("/v1/tag", {"texts": ["a"], "timeout": -1}, 422, r"Expected `float` > 0.0 - at `\$.timeout`"),
        ("/v1/tag", {"texts": ["a " * 60]}, 413, "has 60 tokens: expected at most 50"),
        ("/v1/tag", {"texts": ["a " * 40]}, 413, "a sentence has 40 tokens: expected at most 30"),
        ("/v1/tag", {"tokens": [[]] * 51}, 413, "has 51 tokens: expected at most 50"),
        ("/v1/tag", {"texts": [""] * 51}, 413, "has 51 tokens: expected at most 50"),
        ("/v1/tag", {"documents": ["", " "] * 26}, 413, "has 52 tokens: expected at most 50"),
        ("/v1/tag", {"texts": ["a " * 25], "k_best": 5}, 413, "has 25 tokens: expected at most 20 for so many"),
        ("/v1/trellis", {"text": "a " * 25, "k_best": 3}, 413, "has 25 tokens: expected at most 20 for so many"),
        (
            "/v1/tag",
            {"texts": ["a " * 25], "lexicon": [{"surface": "a " * 10, "label": "PER"}]},
            413,
            "expected at most 10 for .* entries",
        ),
        (
            "/v1/tag",
            {
                "texts": ["a " * 25],
                "lexicon": [{"surface": "a " * 5, "label": "PER"}, {"surface": "a", "label": "LOC"}],
            },
            413,
            "expected at most 10 for .* entries",
        ),
        ("/v1/tag", {"texts": ["a " * 25], "lexicon": [{"surface": "a " * 5}]}, 413, "at most 10 for .* entries"),
        ("/v1/tag", {"texts": ["a" * 3000]}, 413, "expected at most 2000 bytes"),
        ("/v1/tag", {"texts": ["a"], "lexicon": ["a"]}, 422, r"Expected `object`, got `str` - at `\$.lexicon\[0\]`"),
        (
            "/v1/tag",
            {"texts": ["a"], "lexicon": [{"surface": "a", "strenth": "must"}]},
            422,
            r"unknown field 'strenth' at \$.lexicon\[0\]; did you mean 'strength'",
        ),
        ("/v1/tag", {"texts": ["a"], "lexicon": [{}]}, 422, r"missing required field `surface` - at `\$.lexicon\[0\]`"),
        ("/v1/tag", {"texts": ["a"], "lexicon": [{"surface": ""}]}, 422, r"lexicon\[0\]: "),
        ("/v1/tag", {"texts": ["a"], "lexicon": [{"surface": "a", "strength": "x"}]}, 422, "a strength must be"),
        ("/v1/tag", {"texts": ["a"], "lexicon": [{"surface": "a", "label": "X"}]}, 422, "X"),
        ("/v1/tag", {"texts": ["a"], "lexicon": [{"surface": "a"}] * 3}, 413, "has 3 entries: expected at most 2"),
        ("/v1/tag", {"texts": ["a"], "lexicon": [{"surface": "a" * 51}] * 2}, 413, "has 102 characters in all entries"),
        ("/v1/trellis", {"text": "a", "k_best": 0}, 422, r"Expected `int` >= 1 - at `\$.k_best`"),
        ("/v1/trellis", {"texts": ["a"]}, 422, "unknown field 'texts'; did you mean 'text'"),
        ("/v1/explain", {"text": "a", "positions": [1]}, 422, r"must be in 0\.\.0, got 1"),
        ("/v1/explain", {"text": "a b c d e"}, 413, "reasons of 5 tokens are asked for: expected at most 4"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(
    strict: Client, path: str, request_: Any, status: int, message: str
) -> None:
    response = strict.post(path, request_)
    assert response.status_code == status, response.text
    assert re.search(message, response.json()["error"]["message"]), response.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b'{"texts": ["\x80"]}', "expected JSON in UTF-8, got 0x80 at line 1, byte 13 of it: invalid start byte"),
        (b'{"texts":\n ["\xc3\xa9\xe2\x82"]}', "got 0xe2 at line 2, byte 6 of it: invalid continuation byte"),
        (b"nan", "truncated"),
        (b'{"texts": ["a"], "timeout": NaN}', "invalid character"),
        (b'{"texts": ["\\ud800"]}', "truncated"),
        (b'{"tokens": [["\\udfff"]]}', "surrogate"),
    ],
)
def test_what_is_not_json_is_refused(strict: Client, content: bytes, message: str) -> None:
    response = strict.post("/v1/tag", content=content)
    assert response.status_code == 400
    assert re.search(message, response.json()["error"]["message"]), response.text


def test_a_trellis_has_no_more_steps_than_memory(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "_STEPS", 4 * 9**2)
    assert strict.post("/v1/trellis", {"tokens": ["a"] * 4}).status_code == 200
    response = strict.post("/v1/trellis", {"tokens": ["a"] * 5})
    assert response.status_code == 413
    message = "the trellis has 5 tokens with 9 states each: expected at most 4 tokens"
    assert response.json()["error"]["message"] == message


def test_deep_json_is_refused(client: Client) -> None:
    deep = b'{"texts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    response = client.post("/v1/tag", content=deep)
    assert response.status_code in (400, 422)


def test_known_labels_that_contradict_each_other_are_refused(strict: Client) -> None:
    response = strict.post("/v1/tag", {"tokens": [["a"], ["a", "b"]], "known": [["O"], ["O", "I-PER"]]})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "refused")
    assert response.json()["error"]["input"] == 1


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip"])
def test_compressed_bodies_are_refused_unread(strict: Client, encoding: str) -> None:
    response = strict.post("/v1/tag", content=b"\x1f\x8b", headers={"content-encoding": encoding})
    assert response.status_code == 415
    assert "without compression" in response.json()["error"]["message"]


def test_other_types_are_refused(strict: Client) -> None:
    response = strict.post("/v1/tag", {"texts": []}, headers={"content-type": "text/plain"})
    assert response.status_code == 415
    expected = "expected a body of the type application/json or application/x-ndjson, got 'text/plain'"
    assert response.json()["error"]["message"] == expected


def test_addresses_and_methods_that_are_not_there(strict: Client) -> None:
    for response, status in (
        (strict.http.get("/nothing"), 404),
        (strict.http.get("/healthz/", follow_redirects=False), 404),
        (strict.http.get("/page/nothing.js"), 404),
        (strict.http.get("/page/..%2f__init__.py"), 404),
        (strict.http.get("/v1/tag"), 405),
        (strict.http.delete("/v1/models"), 405),
    ):
        assert response.status_code == status
        assert set(response.json()["error"]) == {"code", "message"}


@pytest.mark.parametrize("end", [b"", b"\n", b'\n\n{"text": "Rome"}', b'\n{"text": 1}\n{"text": "Rome"}\n'])
def test_a_long_line_gets_an_error_with_its_number_and_the_others_their_answers(strict: Client, end: bytes) -> None:
    body = b'{"text": "Rome"}\n\n' + b"x" * 300 + end
    response = strict.post("/v1/tag", content=body, headers={"content-type": "application/x-ndjson"})
    first, long, *others = map(json.loads, response.text.splitlines())
    assert "spans" in first
    assert (long["error"]["code"], long["error"]["input"]) == ("too_large", 2)
    assert len(others) == sum(map(bool, end.split(b"\n")))
    assert [one["error"]["input"] for one in others if "error" in one] == ([3] if b"1" in end else [])


def test_bad_lines_are_found_by_reading_each_line_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, in_thread = [], Batcher.in_thread
    monkeypatch.setattr(
        Batcher, "in_thread", lambda self, *arguments: calls.append(arguments) or in_thread(self, *arguments)
    )
    body = b"".join(b'{"text": "Anna", "id": "%d"}\nx\n{}\n' % i for i in range(300))
    response = client.post("/v1/tag", content=body, headers={"content-type": "application/x-ndjson"})
    found = [json.loads(line) for line in response.text.splitlines()]
    assert [one["id"] for one in found[::3]] == [str(i) for i in range(300)]
    assert [one["error"]["input"] for one in found if "error" in one] == [i for i in range(900) if i % 3]
    assert len(calls) == 1


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_lines_are_the_same_in_pieces_of_any_size(size: int) -> None:
    body = b"a\n" + b"b" * 50 + b"\n" + b"c" * 51 + b"\n\n" + b"d" * 500 + b"\ne"
    assert asyncio.run(_lines(body, size)) == {0: b"a", 1: b"b" * 50, 2: None, 4: None, 5: b"e"}
    assert asyncio.run(_lines(b"a\n" + b"b" * 51, size)) == {0: b"a", 1: None}
    assert asyncio.run(_lines(b"b" * 500 + b"\n", size)) == {0: None}


async def _lines(body: bytes, size: int) -> dict[int, bytes | None]:
    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), size):
            yield body[begin : begin + size]

    found: dict[int, bytes | None] = {}
    async for first, lines in blocks_of(pieces(), 50):
        assert first == max(found, default=-1) + 1 or not body.splitlines()[first - 1]
        for number, line in enumerate([b"x" * 51] if lines is None else lines.split(b"\n"), first):
            if line:  # one that is too long may come in one piece with others
                found[number] = line if len(line) <= 50 else None
    return found


def test_who_does_not_read_the_answers_to_lines_gets_no_end_of_them(registry: ModelRegistry) -> None:
    limits, sent = ServerLimits(seconds=0.2), []

    async def receive() -> Message:
        return {"type": "http.request", "body": b'{"text": "Anna"}\n', "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)
        if message.get("body"):
            await asyncio.Event().wait()

    async def answer() -> None:
        batcher = Batcher(limits)
        response = LinesResponse(batcher, limits, JobBuilder(registry, limits).lines(TagOptions()))
        await asyncio.wait_for(response({}, receive, send), 20)
        batcher.close()

    asyncio.run(answer())
    assert [message.get("more_body") for message in sent] == [None, True, True]


def test_a_mistake_of_ours_is_declared_and_logged_without_the_text(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Any, parts: Any) -> Any:
        raise RuntimeError(f"cannot answer {parts}")

    monkeypatch.setattr(TagInference, "answer", fail)
    with caplog.at_level(logging.INFO):
        response = client.post("/v1/tag", {"texts": [TEXT]})
    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
    assert "RuntimeError" in caplog.text
    assert "Anna" not in caplog.text + response.text


def test_an_answer_that_takes_too_long_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(TagInference, "answer", lambda self, parts: gate.wait(20) and [])
    response = client.post("/v1/tag", {"texts": [TEXT], "timeout": 0.05})
    gate.set()
    assert (response.status_code, response.json()["error"]["code"]) == (503, "deadline_passed")
    assert "within 0.05 seconds" in response.json()["error"]["message"]
    assert response.headers["retry-after"] == "1"


def test_limits_that_contradict_each_other_are_refused() -> None:
    for wrong in ({"low_tokens": 300_000}, {"tokens": 300_000}, {"seconds": 0.0}, {"k": -1}):
        with pytest.raises(ConfigError):
            ServerLimits(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/setup", "/v1/next", "/v1/learn", "/v1/learn/accept", "/v1/learn/reject"])
@pytest.mark.parametrize("body", [b"0", b"[]", b"null", b"", b"{"])
def test_requests_without_fields_are_objects_too(client: Client, path: str, body: bytes) -> None:
    assert client.post(path, content=body).status_code == (400 if body in (b"", b"{") else 422)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = "texts tokens documents text model known probabilities k_best spans_only timeout positions top tasks data"
FIELDS = st.sampled_from(NAMES.split())


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["/v1/tag", "/v1/trellis", "/v1/explain", "/predict"]), st.dictionaries(FIELDS, JSON_VALUES))
def test_no_json_makes_it_fail(strict: Client, path: str, value: Any) -> None:
    assert strict.post(path, value).status_code < 500


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["/v1/tag", "/v1/trellis", "/v1/explain", "/predict", "/setup"]), st.binary(max_size=300))
def test_no_bytes_make_it_fail(strict: Client, path: str, content: bytes) -> None:
    assert strict.post(path, content=content).status_code < 500
