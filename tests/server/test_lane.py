"""The short way of requests that come whole: the same answers as the ordinary way, and the same checks."""

import asyncio
import gc
import json
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.raw import Streams, closed, opened, with_server
from trellis.server import ModelShelf, ServerLimits, ServerSettings
from trellis.server.gathering import Group, GroupQuestion
from trellis.server.lane import Reply
from trellis.server.questions import BestQuestion
from trellis.server.queueing import QueuedJob
from trellis.server.security import Gate, Keys
from trellis.server.wire import KnownHeads

KEY = "correct-horse-battery"
SETTINGS = ServerSettings(ServerLimits(tokens=50, body_bytes=20_000), reload_seconds=0)
PLAIN = {"tokens": [["Anna", "Smith"], []], "probabilities": False}
JSON = "Content-Type: application/json"
GOOD = ("Host: localhost", JSON)


def request(value: Any, headers: Sequence[str] = GOOD, *, line: str = "POST /v1/tag HTTP/1.1") -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return "\r\n".join([line, *headers, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def answer(streams: Streams) -> tuple[int, dict[str, str], bytes]:
    """Status, headers but the date, and body of the next answer."""
    head = (await asyncio.wait_for(streams[0].readuntil(b"\r\n\r\n"), 30)).decode().splitlines()
    headers = dict(line.lower().split(": ", 1) for line in head[1:-1])
    headers.pop("date")
    return int(head[0].split()[1]), headers, await streams[0].readexactly(int(headers["content-length"]))


async def asked(port: int, data: bytes) -> tuple[int, dict[str, str], bytes]:
    streams = await opened(port)
    streams[1].write(data)
    found = await answer(streams)
    streams[1].close()
    return found


async def figures(port: int) -> set[tuple[bytes, bytes]]:
    """Requests for tags by status, and the tokens that wait."""
    text = (await asked(port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))[2]
    counted = re.findall(rb'trellis_requests_total\{path="/v1/tag",status="(\d+)"\} (\S+)', text)
    return {*counted, *((b"waiting", number) for number in re.findall(rb"\ntrellis_queued_tokens (\S+)", text))}


class Gated:
    """The model's thread waits at the gate."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.gate = threading.Event(), threading.Event()
        for kind in (BestQuestion, GroupQuestion):
            monkeypatch.setattr(kind, "answer", self._gated(kind.answer))

    def _gated(self, own: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def gated(question: Any, parts: Any) -> Any:
            self.began.set()
            assert self.gate.wait(30)
            return own(question, parts)

        return gated

    async def begun(self) -> None:
        while not self.began.is_set():
            await asyncio.sleep(0.005)


BODIES = [
    PLAIN,
    {"texts": ["Anna Smith slept.", ""]},
    {"tokens": [["Anna"]], "k_best": 2},
    {"tokens": []},
    {"tokens": [["Anna"]], "model": "nobody"},
    {"tokens": [["Anna"]], "wrong": 1},
    {"tokens": [[""]]},
    {"tokens": [["a"] * 60], "probabilities": False},
    {"tokens": [["Anna", "Smith"]], "known": [["B-PER", "nonsense"]]},
    b'{"tokens": [["a',
    b'{"tokens": [["\xff"]]}',
    b"[" * 1000,
    b"",
]


def test_answers_and_problems_are_those_of_the_ordinary_way(shelf: ModelShelf, short: list[bytes]) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        for value in BODIES:
            data = request(value)
            before = len(short)
            ordinary = await asked(port, data.replace(b"\r\nHost", b"\r\nTE: trailers\r\nHost"))
            assert len(short) == before
            assert await asked(port, data) == ordinary
            assert len(short) == before + 1

    with_server(shelf, test, SETTINGS)


REFUSED = [
    (("Host: evil.example", JSON), 400),
    (("Host: localhost", "Host: localhost", JSON), 400),
    (("Host: localhost", "Origin: http://evil.example", JSON), 403),
    (("Host: localhost", "Sec-Fetch-Site: cross-site", JSON), 403),
    (("Host: localhost", "Content-Type: text/plain"), 415),
    (("Host: localhost",), 415),
    ((*GOOD, "Content-Encoding: gzip"), 415),
]


@pytest.mark.parametrize(("headers", "status"), REFUSED)
def test_what_is_refused_never_goes_the_short_way(
    shelf: ModelShelf, short: list[bytes], headers: tuple[str, ...], status: int
) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        for _ in range(3):
            assert (await asked(port, request(PLAIN, headers)))[0] == status
        assert not short

    with_server(shelf, test, SETTINGS)


OTHER_WAYS = [
    ("POST /v1/tag HTTP/1.1", (*GOOD, "Connection: close")),
    ("POST /v1/tag HTTP/1.1", (*GOOD, "Expect: nothing")),
    ("POST /v1/tag HTTP/1.1", (*GOOD, "Upgrade: websocket")),
    ("POST /v1/tag HTTP/1.0", GOOD),
    ("POST /v1/tag?a=b HTTP/1.1", GOOD),
    ("POST http://localhost/v1/tag HTTP/1.1", GOOD),
    ("POST /v1/trellis HTTP/1.1", GOOD),
    ("GET /v1/tag HTTP/1.1", GOOD),
]


@pytest.mark.parametrize(("line", "headers"), OTHER_WAYS)
def test_requests_that_are_not_plain_keep_to_the_ordinary_way(
    shelf: ModelShelf, short: list[bytes], line: str, headers: tuple[str, ...]
) -> None:
    async def test(port: int) -> None:
        first, second = [await asked(port, request(PLAIN, headers, line=line)) for _ in range(2)]
        assert first == second
        assert not short

    with_server(shelf, test, SETTINGS)


def test_a_key_that_was_right_lets_no_other_in_and_is_not_kept(
    shelf: ModelShelf, short: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[KnownHeads] = []
    learn = KnownHeads.learn

    def spied(self: KnownHeads, *arguments: Any) -> None:
        kept.append(self)
        learn(self, *arguments)

    monkeypatch.setattr(KnownHeads, "learn", spied)

    async def test(port: int) -> None:
        for key, status in ((KEY, 200), (KEY, 200), (KEY[:-1] + "x", 401), ("", 401), (KEY, 200)):
            data = request(PLAIN, (*GOOD, f"Authorization: Bearer {key}"))
            assert (await asked(port, data))[0] == status
        assert (await asked(port, request(PLAIN)))[0] == 401
        assert len(short) == 2
        assert kept[0]._known
        assert not any(KEY.encode() in name for name in kept[0]._known)

    with_server(shelf, test, ServerSettings(SETTINGS.limits, keys=Keys([KEY]), reload_seconds=0))


def test_the_rest_of_a_head_is_never_taken_for_a_head(shelf: ModelShelf, short: list[bytes]) -> None:
    async def test(port: int) -> None:
        evil = request(PLAIN, (JSON,))
        streams = await opened(port)
        # The second request begins in the first piece: in its head, the second piece is the value of a header.
        streams[1].write(request(PLAIN) + b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nX: ")
        assert (await answer(streams))[0] == 200
        await asyncio.sleep(0.05)
        streams[1].write(evil)
        assert (await answer(streams))[0] == 200
        streams[1].close()
        assert (await asked(port, evil))[0] == 400
        assert not short

    with_server(shelf, test, SETTINGS)


def test_requests_in_pieces_and_several_in_a_piece_are_answered_in_their_order(
    shelf: ModelShelf, short: list[bytes]
) -> None:
    async def test(port: int) -> None:
        values = [{"tokens": [["Anna"] * n], "probabilities": False} for n in range(1, 6)]
        streams = await opened(port)
        for size in (1, 30, 90, 10_000):
            data = b"".join(map(request, values))
            for begin in range(0, len(data), size):
                streams[1].write(data[begin : begin + size])
                await asyncio.sleep(0.001 if size < 10_000 else 0)
            for n in range(1, 6):
                status, _, body = await answer(streams)
                assert (status, len(json.loads(body)["results"][0]["tags"])) == (200, n)
        streams[1].write(request(PLAIN))
        assert (await answer(streams))[0] == 200
        assert short
        streams[1].close()

    with_server(shelf, test, SETTINGS)


def test_a_body_that_comes_after_its_head_goes_the_short_way(shelf: ModelShelf, short: list[bytes]) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        head, body = request(PLAIN).split(b"\r\n\r\n")
        streams = await opened(port)
        for place in (0, 1, len(body) - 1):
            for piece in (head + b"\r\n\r\n" + body[:place], body[place:]):
                streams[1].write(piece)
                await asyncio.sleep(0.002)
            assert (await answer(streams))[0] == 200
        assert short
        streams[1].close()

    with_server(shelf, test, SETTINGS)


@pytest.mark.parametrize("sent", [0, 5])
def test_a_body_that_does_not_come_is_told_after_a_known_head_too(
    shelf: ModelShelf, short: list[bytes], sent: int
) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        data = request(PLAIN)
        whole, cut = await opened(port), await opened(port)
        for streams in (whole, cut):
            streams[1].write(data[: data.index(b"\r\n\r\n") + 4 + sent])
        await asyncio.sleep(0.15)
        whole[1].write(data[data.index(b"\r\n\r\n") + 4 + sent :])
        assert (await answer(whole))[0] == 200
        whole[1].close()
        assert b" 408 " in (await closed(cut)).splitlines()[0]
        gone = await opened(port)
        gone[1].write(data[:-1])
        await asyncio.sleep(0.005)
        gone[1].transport.abort()
        assert (await asked(port, data))[0] == 200
        assert short

    limits = ServerLimits(tokens=50, seconds=0.5)
    with_server(shelf, test, ServerSettings(limits, reload_seconds=0))


def test_a_server_that_stops_waits_for_the_body_of_a_known_head(shelf: ModelShelf) -> None:
    waiting: list[Any] = []

    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        streams, data = await opened(port), request(PLAIN)
        streams[1].write(data[:-5])
        await asyncio.sleep(0.005)

        async def rest() -> bytes:
            await asyncio.sleep(0.2)
            streams[1].write(data[-5:])
            return await closed(streams)

        waiting.append(asyncio.ensure_future(rest()))

    with_server(shelf, test, SETTINGS)
    assert waiting[0].result().startswith(b"HTTP/1.1 200")


def test_what_comes_before_an_answer_waits_for_it(
    shelf: ModelShelf, short: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        model, streams = Gated(monkeypatch), await opened(port)
        streams[1].write(request({"tokens": [["a"]], "probabilities": False}))
        await model.begun()
        for n in (2, 3):
            streams[1].write(request({"tokens": [["a"] * n], "probabilities": False}))
            await asyncio.sleep(0.02)
        model.gate.set()
        found = [json.loads((await answer(streams))[2]) for _ in range(3)]
        assert [len(one["results"][0]["tags"]) for one in found] == [1, 2, 3]
        streams[1].close()

    with_server(shelf, test, SETTINGS)
    assert short


def test_a_client_that_goes_away_costs_nothing_more(shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        model = Gated(monkeypatch)
        first, gone = await opened(port), await opened(port)
        first[1].write(request(PLAIN))
        await model.begun()
        gone[1].write(request(PLAIN))
        await asyncio.sleep(0.05)
        gone[1].transport.abort()
        while (b"499", b"1.0") not in await figures(port):
            await asyncio.sleep(0.01)
        assert (b"waiting", b"0.0") in await figures(port)
        model.gate.set()
        assert (await answer(first))[0] == 200
        first[1].close()
        assert {(b"499", b"1.0"), (b"200", b"2.0")} <= await figures(port)

    with_server(shelf, test, SETTINGS)


def test_a_deadline_is_told_and_the_connection_goes_on(
    shelf: ModelShelf, short: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        model, streams = Gated(monkeypatch), await opened(port)
        streams[1].write(request(PLAIN | {"timeout": 0.05}))
        status, headers, body = await answer(streams)
        assert (status, headers["retry-after"]) == (503, "1")
        assert json.loads(body)["error"]["code"] == "deadline_passed"
        model.gate.set()
        streams[1].write(request(PLAIN))
        assert (await answer(streams))[0] == 200
        assert len(short) == 2
        streams[1].close()

    with_server(shelf, test, SETTINGS)


def test_a_server_that_stops_answers_what_is_under_way(shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Any] = []

    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        model, streams = Gated(monkeypatch), await opened(port)
        streams[1].write(request(PLAIN))
        await model.begun()
        asyncio.get_running_loop().call_later(0.3, model.gate.set)
        waiting.append(asyncio.ensure_future(closed(streams)))

    with_server(shelf, test, SETTINGS)
    found = waiting[0].result()
    assert found.startswith(b"HTTP/1.1 200")
    assert b"\r\nconnection: close\r\n" in found
    assert found.endswith(b"]}")


def test_connections_without_requests_are_closed_and_others_are_not(shelf: ModelShelf, short: list[bytes]) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        for _ in range(12):  # longer than an idle connection lives
            streams[1].write(request(PLAIN))
            assert (await answer(streams))[0] == 200
            await asyncio.sleep(0.15)
        assert len(short) == 11
        assert await closed(streams) == b""

    with_server(shelf, test, SETTINGS, keep_alive=1.5)


def test_nothing_of_a_request_holds_itself(shelf: ModelShelf, short: list[bytes]) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        for value in (PLAIN, PLAIN, {"tokens": [[""]]}, PLAIN):
            streams[1].write(request(value))
            await answer(streams)
        await asyncio.sleep(0.05)
        assert not [one for one in gc.get_objects() if isinstance(one, Reply | QueuedJob | Group)]
        streams[1].close()

    gc.collect()
    gc.disable()
    try:
        with_server(shelf, test, SETTINGS)
    finally:
        gc.enable()
    assert len(short) == 3


HEAD = request(b"abc")
SCOPE = {
    "method": "POST",
    "http_version": "1.1",
    "path": "/v1/tag",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"3")],
}


@given(st.binary(max_size=30), st.integers(0, len(HEAD) - 4), st.binary(max_size=3), st.integers(0, 3))
def test_only_the_same_head_is_known(body: bytes, place: int, change: bytes, removed: int) -> None:
    known = KnownHeads(Gate(["localhost"], Keys()))
    known.learn(HEAD, b"/v1/tag", SCOPE)
    data = request(body)
    expected = len(data) - len(body), len(data)
    assert [known.body(own) for own in (data, data + b"x", data[: expected[0]])] == [expected] * 3
    assert known.body(data[: expected[0] - 1]) is None
    head, own = data.split(b"\r\n\r\n")[0], HEAD.split(b"\r\n\r\n")[0]
    changed = head[:place] + change + head[place + removed :]
    found = known.body(changed + b"\r\n\r\n" + body)
    form = known.form(HEAD)
    assert form is not None
    assert [form.body(one) for one in (data, changed + b"\r\n\r\n" + body)] == [expected, found]
    assert form.body(data[: expected[0] - 1]) is None
    if found is not None:  # then it differs in the length that it gives, if at all
        prefix = own[: own.rindex(b" ") + 1]
        assert changed.startswith(prefix)
        assert int(changed[len(prefix) :]) == found[1] - found[0]


def test_heads_that_may_hold_a_key_are_not_kept_by_connections() -> None:
    known = KnownHeads(Gate(["localhost"], Keys([KEY])))
    assert known.form(HEAD) is None
