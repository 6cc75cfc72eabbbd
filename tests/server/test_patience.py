"""Clients that take their time: heads and bodies that do not come, in a server of this process."""

import asyncio
from collections.abc import Awaitable, Callable

import uvicorn

from trellis.server import ModelShelf, ServerLimits, ServerSettings
from trellis.server.workers import listening, uvicorn_config

LIMITS = ServerLimits(
    head_seconds=0.2, seconds=0.4, head_bytes=4000, connections=20, body_bytes=10_000, held_bytes=20_000
)
HEAD = b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def with_server(shelf: ModelShelf, test: Callable[[int], Awaitable[None]]) -> None:
    async def run() -> None:
        with listening("127.0.0.1", 0) as sock:
            server = uvicorn.Server(uvicorn_config(shelf, ServerSettings(LIMITS, reload_seconds=0)))
            serving = asyncio.ensure_future(server.serve(sockets=[sock]))
            while not server.started:
                await asyncio.sleep(0.01)
            try:
                await asyncio.wait_for(test(sock.getsockname()[1]), 60)
            finally:
                server.should_exit = True
                await serving

    asyncio.run(run())


async def opened(port: int) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port)


async def closed(streams: Streams) -> bytes:
    """What comes until the server ends the connection."""
    found = await asyncio.wait_for(streams[0].read(), 30)
    streams[1].close()
    return found


def test_a_head_that_does_not_come_ends_the_connection(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        silent, slow = await opened(port), await opened(port)
        slow[1].write(b"GET /healthz HT")
        assert await closed(silent) == b""
        assert await closed(slow) == b""

    with_server(shelf, test)


def test_a_slow_second_request_ends_the_connection_too(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b'{"status":"alive"}' in await streams[0].readuntil(b"}")
        streams[1].write(b"GET /heal")
        assert await closed(streams) == b""

    with_server(shelf, test)


def test_a_body_that_does_not_come_is_told(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(HEAD + b'{"texts": [')
        assert b" 408 " in (await closed(streams)).splitlines()[0]

    with_server(shelf, test)


def test_a_head_that_is_too_long_ends_the_connection(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 2000)
        assert await closed(streams) == b""
        whole = await opened(port)
        whole[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 20_000 + b"\r\n\r\n")
        assert await closed(whole) == b""
        second = await opened(port)
        second[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await second[0].readuntil(b'{"status":"alive"}')
        second[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 20_000 + b"\r\n\r\n")
        assert await closed(second) == b""

    with_server(shelf, test)


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
        assert b"" in ends

    with_server(shelf, test)


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

    with_server(shelf, test)
