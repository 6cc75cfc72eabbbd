"""What is no request of HTTP/1.1: a problem in the form of all others, and the end of the connection."""

import asyncio
import json
from typing import Any

import pytest

from tests.server.conftest import check
from tests.server.raw import Streams, closed, opened, with_server
from tests.server.test_lane import PLAIN, SETTINGS, answer, asked, request
from trellis.server import ModelShelf, ServerLimits, ServerSettings
from trellis.server.openapi import document
from trellis.server.security import HEADERS

NOT_HTTP = [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "Invalid method"),  # TLS
    (b"hello\r\n\r\n", 400, "Invalid method"),
    (b"GET /healthz HTTP/x.1\r\n\r\n", 400, "Invalid major version"),
    (b"GET /healthz HTTP/1.1\nHost: localhost\n\n", 400, "Expected CRLF"),
    (b"GET /\xff HTTP/1.1\r\n\r\n", 400, "Invalid char in url"),
    (b"GET http:///// HTTP/1.1\r\n\r\n", 400, "Invalid target"),
    (b"CONNECT a:1 HTTP/1.1\r\n\r\n", 400, "Invalid target"),
    (b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", 400, "Invalid header"),
    (b"POST /v1/tag HTTP/1.1\r\nContent-Length: ten\r\n\r\n", 400, "Invalid character in Content-Length"),
    (b"POST /v1/tag HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "Invalid character in Content-Length"),
    (b"POST /v1/tag HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "Duplicate Content-Length"),
    (b"POST /v1/tag HTTP/1.1\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n", 400, "Content-Length overflow"),
    (
        b"POST /v1/tag HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
        "Transfer-Encoding can't be present with Content-Length",
    ),
    (b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n", 505, "another version"),
    (b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", 505, "got HTTP/2.0"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "another version"),
    (b"GET /healthz\r\n\r\n", 505, "got HTTP/0.9"),
    (b"GET /healthz HTTP/1.1\r\nA: " + b"b" * 100_000 + b"\r\n\r\n", 431, "at most 65536 bytes"),
    (b"GET /" + b"a" * 100_000, 431, "at most 65536 bytes"),
]


def check_problem(found: bytes, status: int, message: str) -> Any:
    """The one form, the headers of all answers, and nothing after it."""
    head, _, body = found.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert first.startswith(f"HTTP/1.1 {status} ")
    assert (headers["content-type"], headers["connection"]) == ("application/json", "close")
    assert all(headers[name.decode()] == value.decode() for name, value in HEADERS)
    assert int(headers["content-length"]) == len(body)
    whole = document(ServerLimits())
    check(json.loads(body), whole["components"]["schemas"]["Error"], whole)
    assert message in json.loads(body)["error"]["message"]
    assert str(status) in whole["paths"]["/v1/tag"]["post"]["responses"]
    assert str(status) in whole["paths"]["/healthz"]["get"]["responses"]


@pytest.mark.parametrize(("data", "status", "message"), NOT_HTTP)
@pytest.mark.parametrize("before", ["nothing", "an ordinary request", "a short one", "both at once", "a head alone"])
def test_what_is_not_http_is_told_in_the_form_of_all_problems(
    shelf: ModelShelf, short: list[bytes], before: str, data: bytes, status: int, message: str
) -> None:
    async def test(port: int) -> None:
        await asked(port, request(PLAIN))
        streams = await opened(port)
        if before == "an ordinary request":
            streams[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await answer(streams))[0] == 200
        elif before == "a short one":
            streams[1].write(request(PLAIN))
            assert (await answer(streams))[0] == 200
            assert len(short) == 1
        elif before == "both at once":
            streams[1].write(request(PLAIN) + data)
            assert (await answer(streams))[0] == 200
        elif before == "a head alone":
            streams[1].write(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + data)
            assert b" 200 " in (await streams[0].readuntil(b"\r\n\r\n")).splitlines()[0]
        streams[1].write(data if before not in ("both at once", "a head alone") else b"")
        check_problem(await closed(streams), status, message)
        assert (await asked(port, request(PLAIN)))[0] == 200

    with_server(shelf, test, ServerSettings(reload_seconds=0))


def test_the_answer_reaches_a_client_that_goes_on_sending(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        sending = asyncio.ensure_future(_flood(streams))
        check_problem(await asyncio.wait_for(streams[0].read(), 30), 431, "too long")
        sending.cancel()
        streams[1].close()

    with_server(shelf, test, SETTINGS)


async def _flood(streams: Streams) -> None:
    streams[1].write(b"GET / HTTP/1.1\r\n")
    while True:
        streams[1].write(b"A: b\r\n" * 10_000)
        await streams[1].drain()


CHUNKED = b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_body_whose_chunks_are_wrong_is_told_once(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(CHUNKED % b"application/json" + b"3\r\nabc\r\n")
        await asyncio.sleep(0.05)
        streams[1].write(b"zz\r\n")
        check_problem(await closed(streams), 400, "Invalid character in chunk size")

    with_server(shelf, test, SETTINGS)


@pytest.mark.parametrize(
    "endless", [b"0\r\nX: " + b"a" * 100_000, b"0\r\n" + b"A: b\r\n" * 20_000, b"5;" + b"a" * 100_000]
)
def test_what_comes_between_and_after_chunks_is_bounded(shelf: ModelShelf, endless: bytes) -> None:
    async def test(port: int) -> None:
        streams = await opened(port)
        streams[1].write(CHUNKED % b"application/json" + b"3\r\nabc\r\n" + endless)
        check_problem(await closed(streams), 431, "between or after chunks")

    with_server(shelf, test, SETTINGS)


def test_chunks_of_one_byte_are_no_headers(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        body = json.dumps(PLAIN).encode() + b" " * 15_000
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        found = await asked(port, CHUNKED % b"application/json" + chunks + b"0\r\nA: b\r\n\r\n")
        assert found[0] == 200

    with_server(shelf, test, SETTINGS)


def test_an_answer_that_has_begun_is_not_followed_by_a_problem(shelf: ModelShelf) -> None:
    async def test(port: int) -> None:
        streams, line = await opened(port), b'{"text": "Anna slept"}\n'
        streams[1].write(CHUNKED % b"application/x-ndjson" + b"%x\r\n%b\r\n" % (len(line), line))
        begin = await streams[0].readuntil(b"Anna")
        assert begin.startswith(b"HTTP/1.1 200 ")
        streams[1].write(b"zz\r\n")
        rest = await closed(streams)
        assert b"HTTP/1.1" not in rest
        assert not rest.endswith(b"0\r\n\r\n")

    with_server(shelf, test, SETTINGS)
