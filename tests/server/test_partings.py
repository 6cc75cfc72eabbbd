"""Clients that end their half of the connection: who waits gets the answers, who has gone costs nothing."""

import asyncio
import json
import socket

import pytest

from tests.server.raw import Streams, closed, opened, with_server
from tests.server.test_lane import PLAIN, SETTINGS, Gated, answer, asked, figures, request
from tests.server.test_malformed import check_problem
from trellis.server import ModelShelf

ORDINARY = request(PLAIN).replace(b"\r\nHost", b"\r\nTE: trailers\r\nHost")
WAYS = {
    "ordinary": ORDINARY,
    "short": request(PLAIN),
    "chunked": b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(json.dumps(PLAIN)), json.dumps(PLAIN).encode()),
    "HTTP/1.0": ORDINARY.replace(b"HTTP/1.1", b"HTTP/1.0"),
}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def half_closed(port: int, data: bytes) -> Streams:
    streams = await opened(port)
    streams[1].write(data)
    streams[1].write_eof()
    return streams


@pytest.mark.parametrize("way", WAYS)
def test_who_sends_nothing_more_gets_the_answer_and_the_end(shelf: ModelShelf, short: list[bytes], way: str) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        found = (await closed(await half_closed(port, WAYS[way]))).replace(CONTINUE, b"")
        assert found.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nconnection: close\r\n" in found
        assert found.endswith(b"]}")
        assert len(short) == (way == "short")

    with_server(shelf, test, SETTINGS)


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_takes_long_comes_too(shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        model, streams = Gated(monkeypatch), await half_closed(port, WAYS[way])
        await model.begun()
        if way == "HTTP/1.0":  # which does not know such answers
            await asyncio.sleep(0.2)
        else:
            assert await streams[0].readexactly(2 * len(CONTINUE)) == 2 * CONTINUE
        model.gate.set()
        found = (await closed(streams)).replace(CONTINUE, b"" if way != "HTTP/1.0" else CONTINUE)
        assert found.startswith(b"HTTP/1.1 200 ")
        assert found.endswith(b"]}")

    with_server(shelf, test, SETTINGS)


@pytest.mark.parametrize("way", ["ordinary", "short", "chunked"])
def test_all_requests_that_came_whole_are_answered(
    shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        model, streams = Gated(monkeypatch), await half_closed(port, WAYS[way] * 3 + WAYS[way][:-1])
        await model.begun()
        await asyncio.sleep(0.1)
        model.gate.set()
        found = (await closed(streams)).replace(CONTINUE, b"")
        assert found.count(b"HTTP/1.1 200 ") == 3
        assert found.count(b"HTTP/1.1 400 ") == 1  # the last request is cut off

    with_server(shelf, test, SETTINGS)


@pytest.mark.parametrize("way", ["ordinary", "short"])
def test_who_closes_the_connection_costs_nothing_more(
    shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        model = Gated(monkeypatch)
        first = await opened(port)
        first[1].write(request(PLAIN))
        await model.begun()
        with socket.create_connection(("127.0.0.1", port)) as gone:
            gone.sendall(WAYS[way])
            await asyncio.sleep(0.05)
        while (b"499", b"1.0") not in await figures(port):
            await asyncio.sleep(0.01)
        assert (b"waiting", b"0.0") in await figures(port)
        model.gate.set()
        assert (await answer(first))[0] == 200
        first[1].close()

    with_server(shelf, test, SETTINGS)


def test_who_waits_and_then_goes_is_found_too(shelf: ModelShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        model, streams = Gated(monkeypatch), await half_closed(port, request(PLAIN))
        await model.begun()
        await streams[0].readexactly(len(CONTINUE))
        streams[1].transport.abort()
        while (b"499", b"1.0") not in await figures(port):
            await asyncio.sleep(0.01)
        model.gate.set()

    with_server(shelf, test, SETTINGS)


@pytest.mark.parametrize("cut", [20, -1])
@pytest.mark.parametrize("way", ["ordinary", "short"])
def test_a_request_that_is_cut_off_is_told(shelf: ModelShelf, way: str, cut: int) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        found = await closed(await half_closed(port, WAYS[way][:cut]))
        check_problem(found, 400, "the connection ended within a request")

    with_server(shelf, test, SETTINGS)


def test_lines_are_answered_to_the_end(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        body = b'{"text": "Anna slept"}\n' * 2000
        asking = request(body, ("Host: localhost", "Content-Type: application/x-ndjson"))
        found = await closed(await half_closed(port, asking))
        assert found.count(b'"tags"') == 2000
        assert found.endswith(b"0\r\n\r\n")

    with_server(shelf, test, SETTINGS)


def test_a_connection_without_requests_just_ends(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        assert await closed(await half_closed(port, b"")) == b""
        streams = await opened(port)
        streams[1].write(request(PLAIN))
        assert (await answer(streams))[0] == 200
        streams[1].write_eof()
        assert await closed(streams) == b""

    with_server(shelf, test, SETTINGS)


def test_an_answer_without_a_body_comes_too(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        for _ in range(20):
            found = await closed(await half_closed(port, b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            assert found.startswith(b"HTTP/1.1 200 ")

    with_server(shelf, test, SETTINGS)
