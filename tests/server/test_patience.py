"""Clients that take their time: heads and bodies that do not come, in a server of this process."""

import asyncio
import gc
import socket
from contextlib import suppress

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.server.raw import closed, opened, with_server
from trellis.server import ModelShelf, ServerLimits, ServerSettings

LIMITS = ServerLimits(
    head_seconds=0.2, seconds=0.4, head_bytes=4000, connections=20, body_bytes=10_000, held_bytes=20_000
)
HEAD = b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
SETTINGS = ServerSettings(LIMITS, reload_seconds=0)


def test_a_head_that_does_not_come_ends_the_connection(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        silent, slow = await opened(port), await opened(port)
        slow[1].write(b"GET /healthz HT")
        assert await closed(silent) == b""
        assert await closed(slow) == b""

    with_server(shelf, test, SETTINGS)


def test_a_slow_second_request_ends_the_connection_too(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b'{"status":"alive"}' in await streams[0].readuntil(b"}")
        streams[1].write(b"GET /heal")
        assert await closed(streams) == b""

    with_server(shelf, test, SETTINGS)


def test_a_body_that_does_not_come_is_told(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(HEAD + b'{"texts": [')
        assert b" 408 " in (await closed(streams)).splitlines()[0]

    with_server(shelf, test, SETTINGS)


def test_a_head_that_is_too_long_ends_the_connection(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 2000)
        assert b" 431 " in (await closed(streams)).splitlines()[0]
        whole = await opened(port)
        whole[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 20_000 + b"\r\n\r\n")
        assert b" 431 " in (await closed(whole)).splitlines()[0]
        second = await opened(port)
        second[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await second[0].readuntil(b'{"status":"alive"}')
        second[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 20_000 + b"\r\n\r\n")
        assert b" 431 " in (await closed(second)).splitlines()[0]

    with_server(shelf, test, SETTINGS)


def test_others_are_answered_meanwhile_and_connections_are_bounded(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        slow = [await opened(port) for _ in range(15)]
        for streams in slow:
            streams[1].write(HEAD)
        quick = await opened(port)
        quick[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b" 200 " in (await closed(quick)).splitlines()[0]
        many = [await opened(port) for _ in range(15)]
        ends = await asyncio.gather(*(closed(streams) for streams in (*many, *slow)))
        assert sum(end.startswith(b"HTTP/1.1 503 ") and b'"code": "unavailable"' in end for end in ends) >= 10

    with_server(shelf, test, SETTINGS)


def test_bodies_that_do_not_end_are_bounded_together(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        slow = [await opened(port) for _ in range(5)]
        for streams in slow:
            streams[1].write(HEAD.replace(b"100", b"9000") + b'{"texts": ["' + b"a" * 5000)
        ends = [(await closed(streams)).partition(b"\r\n")[0] for streams in slow]
        assert {end.split()[1] for end in ends} == {b"408", b"429"}
        assert sum(b" 429 " in end for end in ends) == 2
        again = await opened(port)
        again[1].write(HEAD.replace(b"100", b"19\r\nConnection: close") + b'{"texts": ["Rome"]}')
        assert b" 200 " in (await closed(again)).splitlines()[0]

    with_server(shelf, test, SETTINGS)


def test_lines_that_stop_in_the_middle_are_told(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        head = HEAD.replace(b"application/json", b"application/x-ndjson").replace(b"100", b"10000")
        streams[1].write(head + b'{"text": "Anna slept"}\n{"te')
        lines = (await closed(streams)).splitlines()
        assert any(b'"tags"' in line for line in lines)
        assert any(b"the next line did not come within 0.4 seconds" in line for line in lines)

    with_server(shelf, test, SETTINGS, keep_alive=60)


def test_a_client_that_does_not_read_is_left(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, ("127.0.0.1", port))
            await loop.sock_sendall(sock, b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
            await asyncio.sleep(1.5)
            found = b""
            with suppress(ConnectionResetError):
                while piece := await asyncio.wait_for(loop.sock_recv(sock, 1 << 20), 10):
                    found += piece
            assert 0 < found.count(b"HTTP/1.1 200") < 1000

    with_server(shelf, test, SETTINGS)


def test_requests_that_nobody_waits_for_are_answered_in_order_and_wait_as_bytes(shelf: ModelShelf) -> None:
    deepest = 0

    async def test(port: int) -> None:
        nonlocal deepest
        streams, count = await opened(port), 3000
        asks = [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", _tagging(b'{"texts": ["Anna slept"]}')]
        streams[1].write(b"".join(asks[i % 2] for i in range(count)))
        for i in range(count):
            head = await asyncio.wait_for(streams[0].readuntil(b"\r\n\r\n"), 30)
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await streams[0].readexactly(length)
            assert b'"alive"' in body if i % 2 == 0 else b'"Anna"' in body
            waiting = [one for one in gc.get_objects() if isinstance(one, RequestResponseCycle)] if i % 500 == 0 else []
            deepest = max(deepest, len(waiting))
        streams[1].close()

    with_server(shelf, test, ServerSettings(reload_seconds=0))
    assert deepest < 200


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_wish_for_another_protocol_is_ignored_or_the_last(shelf: ModelShelf, pieces: int) -> None:
    inner = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    whole = _tagging(inner).replace(b"Host:", b"Connection: Upgrade\r\nUpgrade: h2c\r\nHost:", 1)
    places = {1: [len(whole)], 2: [whole.index(inner)], 3: [whole.index(b"grade: h2c"), whole.index(inner)]}[pieces]

    async def test(port: int) -> None:
        streams, done = await opened(port), 0
        for place in [*places, len(whole)]:
            streams[1].write(whole[done:place])
            done = place
            await asyncio.sleep(0.05)
        found = await closed(streams)
        assert found.count(b"HTTP/1.1 ") == 1
        assert b" 400 " in found.splitlines()[0]

    with_server(shelf, test, ServerSettings(LIMITS, reload_seconds=0), keep_alive=0.3)


def test_a_request_of_a_client_that_knows_http_2_is_answered(shelf: ModelShelf) -> None:
    wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\nHost:"

    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(_tagging(b'{"texts": ["Anna slept"]}').replace(b"Host:", wish))
        assert b" 200 " in (await closed(streams)).splitlines()[0]

    with_server(shelf, test, SETTINGS, keep_alive=0.3)


def _tagging(body: bytes) -> bytes:
    return HEAD.replace(b"100", b"%d" % len(body)) + body
