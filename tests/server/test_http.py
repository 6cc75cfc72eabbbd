"""Bytes that proxies and servers read differently, clients that take their time, and nginx in front."""

import io
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.process import Running, running, serving

KEY = "correct-horse-battery"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
HEAD = (
    b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %b\r\n"
    % KEY.encode()
)
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"  # without a key


def body(count: int) -> bytes:
    return json.dumps({"tokens": [["Anna"] * count], "probabilities": False}).encode()


def asking(count: int) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body(count)) + body(count)


def chunked(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n0\r\n\r\n" % (len(data), extension, data)


def answers(data: bytes) -> list[tuple[int, Any]]:
    """Status and content of each answer, in their order."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        size = int(length[1]) if length else len(data)  # without a length, the content ends with the connection
        content = json.loads(data[:size]) if b"application/json" in head else None
        found.append((int(head.split()[1]), content))
        data = data[size:]
    return found


def tags(answer: tuple[int, Any]) -> int | None:
    """How many tags an answer has."""
    return len(answer[1]["results"][0]["tags"]) if answer[0] == 200 and "results" in answer[1] else None


@pytest.fixture(scope="module", params=["granian", "uvicorn"])
def either(request: pytest.FixtureRequest, model_folders: dict[str, Path]) -> Iterator[Running]:
    with serving(request.param, model_folders["ner"], key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def impatient(model_folders: dict[str, Path]) -> Iterator[Running]:
    limits = "head_seconds=0.5, seconds=1.0, connections=50"
    with serving("granian", model_folders["ner"], limits, KEY) as server:
        yield server


AMBIGUOUS = {
    "CL.TE": HEAD
    + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(SMUGGLED))
    + SMUGGLED,
    "TE.CL": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunked(SMUGGLED),
    "TE.TE": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE with a tab": HEAD + b"Transfer-Encoding:\tchunked\r\nContent-Length: 3\r\n\r\n" + chunked(SMUGGLED),
    "space before the colon": HEAD + b"Content-Length : 3\r\n\r\n" + SMUGGLED,
    "conflicting lengths": HEAD + b"Content-Length: 3\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    "a list of lengths": HEAD + b"Content-Length: 3, %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    "a signed length": HEAD + b"Content-Length: +3\r\n\r\n{} " + SMUGGLED,
    "an enormous length": HEAD + b"Content-Length: 99999999999999999999\r\n\r\n" + SMUGGLED,
    "obs-fold": HEAD + b"Content-Length: 3\r\nX: a\r\n Content-Length: 0\r\n\r\n{} " + SMUGGLED,
    "bare LF": (HEAD + b"Content-Length: 3\r\n\r\n").replace(b"\r\n", b"\n") + b"{} " + SMUGGLED,
    "bare CR": HEAD + b"X: a\rContent-Length: 0\r\nContent-Length: 3\r\n\r\n{} " + SMUGGLED,
    "a bad chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + SMUGGLED,
    "a long chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff1\r\n" + SMUGGLED,
    "chunk extensions": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"{} ", b";a=\nb") + SMUGGLED,
    "HTTP/1.0 with chunks": HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(SMUGGLED),
    "no version": b"GET /v1/models\r\n\r\n",
    "another version": SMUGGLED.replace(b"1.1", b"9.9"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a length that is no number": HEAD + b"Content-Length: x\r\n\r\n" + SMUGGLED,
    "an endless address": b"GET /" + b"a" * 100_000,
    "endless headers": b"GET /v1/models HTTP/1.1\r\n" + b"a: b\r\n" * 50_000,
    "nonsense": b"\x00\xff NONSENSE\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_gets_nobody_past_the_key(either: Running, name: str) -> None:
    found = either.raw(asking(2), AMBIGUOUS[name])
    assert b'"models"' not in found
    assert found.startswith(b"HTTP/1.1 200 ")  # the request before it is answered as it should be
    assert found.count(b'"tags"') == 1
    assert either.ask("/healthz") == (200, {"status": "alive"})


@pytest.mark.parametrize("extension", [b"", b";name=value", b';name="a b"'])
def test_chunks_are_a_body_whatever_their_extensions_say(either: Running, extension: bytes) -> None:
    found = answers(
        either.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body(3), extension) + asking(5), answers=2)
    )
    assert [tags(answer) for answer in found] == [3, 5]


def test_equal_lengths_that_come_twice_are_one_or_an_error(either: Running) -> None:
    length = b"Content-Length: %d\r\n" % len(body(3))
    found = answers(either.raw(HEAD + length * 2 + b"\r\n" + body(3)))
    assert [tags(found[0]), found[0][0]] in ([3, 200], [None, 400])


def test_answers_of_a_pipeline_belong_to_their_questions(either: Running) -> None:
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    missing = health.replace(b"healthz", b"nothing")
    found = answers(
        either.raw(asking(1) + health + asking(4) + SMUGGLED + asking(2) + missing + asking(3) * 3, answers=9)
    )
    assert [answer[0] for answer in found] == [200, 200, 200, 401, 200, 401, 200, 200, 200]
    assert [tags(answer) for answer in found] == [1, None, 4, None, 2, None, 3, 3, 3]


@pytest.mark.parametrize(
    "name", [b"Authorization: Bearer wrong", b"Host: evil.example", b"Origin: http://evil.example"]
)
def test_headers_that_decide_may_not_come_twice(either: Running, name: bytes) -> None:
    twice = (
        asking(1)
        .replace(b"\r\nHost", b"\r\nOrigin: http://localhost\r\nHost")
        .replace(b"\r\nHost", b"\r\n" + name + b"\r\nHost", 1)
    )
    (status, answer), *_ = answers(either.raw(twice))
    assert status == 400
    assert answer is None or "comes twice" in answer["error"]["message"] or b"Host" in name


def test_a_slow_head_ends_the_connection(impatient: Running) -> None:
    assert impatient.raw(b"") == b""
    assert impatient.raw(b"GET /healthz HT") == b""
    second = asking(1) + b"GET /heal"
    assert len(answers(impatient.raw(second, seconds=20))) == 1


@pytest.mark.parametrize("sent", [b"", b'{"texts": ['])
def test_a_slow_body_is_told_and_ends_the_connection(impatient: Running, sent: bytes) -> None:
    ((status, answer),) = answers(impatient.raw(HEAD + b"Content-Length: 100\r\n\r\n" + sent, seconds=20))
    assert (status, answer["error"]["code"]) == (408, "too_slow")


def test_slow_clients_keep_nobody_else_waiting(impatient: Running) -> None:
    slow = [socket.create_connection(("127.0.0.1", impatient.port)) for _ in range(40)]
    for i, sock in enumerate(slow):
        sock.sendall(b"GET /heal" if i % 2 else HEAD + b"Content-Length: 100\r\n\r\n{")
    assert impatient.ask("/healthz")[0] == 200
    for sock in slow:
        sock.close()


def test_trailers_without_end_are_not_kept(impatient: Running) -> None:
    (worker,) = impatient.workers()
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=20) as sock:
        sock.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
        with pytest.raises(ConnectionError):
            sock.sendall(b"a: b\r\n" * 30_000_000)
    assert memory(worker) < 2**30
    assert impatient.ask("/healthz")[0] == 200


def memory(process: int) -> int:
    return 1024 * int(Path(f"/proc/{process}/status").read_text().partition("VmRSS:")[2].split()[0])


@pytest.mark.parametrize("data", [asking(3), asking(3)[:-5], HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"])
def test_a_client_that_ends_its_half_harms_nobody(impatient: Running, data: bytes) -> None:
    found = answers(impatient.raw(data, half_close=True, seconds=20))
    assert [tags(answer) for answer in found if answer[0] == 200] in ([], [3])
    assert impatient.ask("/healthz")[0] == 200


@contextmanager
def nginx(place: Path, port: int) -> Iterator[Running]:
    """nginx in front of a server, with connections that stay open on both sides."""
    assert NGINX is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    (place / "logs").mkdir()
    paths = "".join(
        f"{name}_temp_path {place}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (place / "nginx.conf").write_text(
        f"""daemon off; pid {place}/nginx.pid; error_log {place}/errors;
events {{ worker_connections 256; }}
http {{
access_log off; {paths}
upstream trellis {{ server 127.0.0.1:{port}; keepalive 8; }}
server {{
listen 127.0.0.1:{own};
proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host localhost;
location / {{ proxy_pass http://trellis; }}
}} }}
"""
    )
    process = subprocess.Popen(
        [NGINX, "-p", str(place), "-c", str(place / "nginx.conf"), "-e", str(place / "errors")], text=True
    )
    try:
        front = Running(process, own, f"http://127.0.0.1:{own}", io.StringIO())
        front.until("/healthz", lambda content: content == {"status": "alive"})
        yield front
    finally:
        process.terminate()
        process.wait()


@pytest.mark.skipif(NGINX is None, reason="no nginx: install it to see the server behind a proxy")
def test_behind_nginx_every_answer_belongs_to_its_question(model_folders: dict[str, Path], tmp_path: Path) -> None:
    with serving("granian", model_folders["ner"], key=KEY) as server, nginx(tmp_path, server.port) as front:
        for name, data in AMBIGUOUS.items():
            assert b'"models"' not in front.raw(data, answers=0, seconds=0.3), name
        found = answers(front.raw(b"".join(asking(1 + i % 7) for i in range(50)), answers=50))
        assert [tags(answer) for answer in found] == [1 + i % 7 for i in range(50)]
        assert answers(front.raw(SMUGGLED))[0][0] == 401


def test_a_client_that_leaves_its_lines_costs_nothing_more(impatient: Running) -> None:
    line = b'{"text": "Anna Smith met Paul in New York."}\n'
    head = HEAD.replace(b"json", b"x-ndjson") + b"Content-Length: %d\r\n\r\n" % (20_000 * len(line))
    for lines in (0, 1, 10_000, 20_000):
        with socket.create_connection(("127.0.0.1", impatient.port)) as sock:
            sock.sendall(head + lines * line)
    metrics = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + HEAD[HEAD.index(b"Authorization") :] + b"\r\n"
    end = time.monotonic() + 30
    while b"trellis_queued_tokens 0.0" not in impatient.raw(metrics, seconds=0.2):
        assert time.monotonic() < end
    assert impatient.said() == ""


def test_a_client_that_goes_away_costs_nothing_more(model_folders: dict[str, Path], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = (
        "import pathlib, time\nfrom trellis.server.inference import TagInference\nanswer = TagInference.answer\n"
        f"def wait(self, parts):\n    while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)\n"
        "    return answer(self, parts)\nTagInference.answer = wait\n"
    )
    with running(model_folders["ner"], before=slow) as server:
        connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        for sock in connections:
            sock.sendall(asking(3))
            time.sleep(0.1)
        for sock in connections[1:]:
            sock.close()
        gone = 'trellis_requests_total{path="/v1/tag",status="499"} 2.0'
        server.until("/metrics", lambda text: gone.encode() in text and b"trellis_queued_tokens 0.0" in text)
        gate.touch()
        assert connections[0].recv(65536).startswith(b"HTTP/1.1 200 ")
        connections[0].close()
