"""Servers in processes of their own: they start with one command, survive what happens to them, and end cleanly."""

import http.client
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import TEXT
from tests.server.process import Running, running, started
from tests.server.test_shelf import MODEL, other_model
from trellis.errors import ConfigError
from trellis.server.workers import listening


@pytest.fixture(scope="module")
def server(model_folders: dict[str, Path]) -> Any:
    with running(model_folders["ner"], f"other={model_folders['hmm']}") as found:
        yield found


HEAD = b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def raw(server: Running, data: bytes, *, half_close: bool = False) -> bytes:
    """What comes back for these bytes until the server closes, or for a second."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as sock:
        sock.sendall(data)
        if half_close:
            sock.shutdown(socket.SHUT_WR)
        sock.settimeout(1.0)
        found = b""
        try:
            while piece := sock.recv(65536):
                found += piece
        except (TimeoutError, ConnectionError):
            pass
    return found


def children(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_it_serves_models_under_their_names(server: Running) -> None:
    _, found = server.ask("/v1/models")
    assert [model["name"] for model in found["models"]] == ["ner", "other"]
    status, answer = server.ask("/v1/tag", {"texts": [TEXT]})
    assert (status, answer["results"][0]["text"]) == (200, TEXT)


def test_malformed_requests_do_not_fill_the_log(server: Running) -> None:
    before = server.said()
    for _ in range(5):
        assert b" 400 " in raw(server, b"\x00\xff NONSENSE\r\n\r\n").splitlines()[0]
    assert server.said() == before


def test_an_answer_of_two_packets_does_not_wait_for_the_client() -> None:
    with listening("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        accepted, _ = sock.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_head_and_body_of_an_answer_come_in_one_piece(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as sock:
        for _ in range(3):
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(65536).endswith(b'{"status":"alive"}')


def test_a_stream_begins_before_its_first_line_is_sent(server: Running) -> None:
    head = b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as sock:
        sock.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_name_of_another_machine_is_refused(server: Running) -> None:
    assert b" 400 " in raw(server, b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n").splitlines()[0]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 50_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_bytes_that_are_no_request_harm_nobody(server: Running, data: bytes) -> None:
    found = raw(server, data)
    assert int(found.split()[1]) in (400, 415, 431, 505)
    assert server.ask("/healthz") == (200, {"status": "alive"})


def test_a_half_closed_connection_harms_nobody(server: Running) -> None:
    body = json.dumps({"texts": [TEXT]}).encode()
    for size in (len(body), len(body) + 10):
        raw(server, HEAD % size + body, half_close=True)
    assert server.ask("/v1/tag", {"texts": [TEXT]})[0] == 200


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Running) -> None:
    head = (
        b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000000\r\n\r\n"
    )
    found = raw(server, head)
    assert b" 413 " in found.splitlines()[0]
    assert b'"too_large"' in found
    status, answer = server.ask("/v1/tag", {"texts": ["x" * 5_000_000]})
    assert (status, answer["error"]["code"]) == (413, "too_large")


def test_clients_that_leave_are_forgotten(server: Running) -> None:
    body = json.dumps({"texts": [TEXT] * 2000, "k_best": 5}).encode()
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(HEAD % len(body) + body)
    # Some of them may still be on their way in.
    server.until("/v1/tag", lambda answer: "error" not in answer, {"texts": [TEXT]})
    server.until("/metrics", lambda text: b"trellis_queued_tokens 0.0" in text)


def test_a_model_is_reloaded_when_its_folder_changes(own_folders: dict[str, Path]) -> None:
    with running(own_folders["ner"]) as server:
        whole = (own_folders["ner"] / MODEL).read_bytes()
        (own_folders["ner"] / MODEL).write_bytes(whole[:1000])
        _, ready = server.until("/readyz", lambda content: content["problems"])
        assert list(ready["problems"]) == ["ner"]
        assert server.ask("/v1/tag", {"texts": [TEXT]})[0] == 200
        other_model(own_folders["ner"])
        server.until("/v1/models", lambda content: "HUMAN" in content["models"][0]["kinds"])
        server.until("/readyz", lambda content: not content["problems"])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_requests_that_are_under_way_are_answered_before_it_ends(
    model_folders: dict[str, Path], how: signal.Signals
) -> None:
    with running(model_folders["ner"]) as server:
        found: list[Any] = []
        request = {"texts": [TEXT] * 5000}
        asking = threading.Thread(target=lambda: found.append(server.ask("/v1/tag", request)))
        asking.start()
        server.until("/metrics", lambda text: b"trellis_batch_seconds_count 0.0" not in text)
        code, errors = server.stop(how)
        asking.join()
        assert found[0][0] == 200
        assert len(found[0][1]["results"]) == 5000
        assert code in (0, -how, 128 + how)
        assert "Traceback" not in errors


def test_a_worker_that_is_killed_is_replaced_and_all_share_one_port(model_folders: dict[str, Path]) -> None:
    with running(model_folders["ner"], "--workers", 2) as server:
        first = children(server.process.pid)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        end = time.monotonic() + 30
        while len(set(children(server.process.pid)) - set(first)) < 1:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert first[1] in children(server.process.pid)
        for _ in range(20):
            assert server.ask("/v1/tag", {"texts": [TEXT]})[0] == 200
        total = sum(
            float(line.split()[-1])
            for line in server.ask("/metrics")[1].decode().splitlines()
            if line.startswith('trellis_requests_total{path="/v1/tag"')
        )
        assert total == 20
        code, errors = server.stop()
        assert code == 0
        assert "is replaced" in errors


def test_workers_end_with_their_parent(model_folders: dict[str, Path]) -> None:
    with running(model_folders["ner"], "--workers", 2) as server:
        own = children(server.process.pid)
        server.process.kill()
        server.process.wait()
        end = time.monotonic() + 30
        while any(Path(f"/proc/{pid}/stat").exists() and "Z" not in state(pid) for pid in own):
            assert time.monotonic() < end
            time.sleep(0.1)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_the_demo_needs_no_model() -> None:
    with running("--demo") as server:
        _, answer = server.ask("/v1/tag", {"texts": ["Farid Ito flew to London on Monday."]})
        assert "London" in [span["text"] for span in answer["results"][0]["spans"]]


def test_an_address_that_is_taken_is_an_error_that_says_so() -> None:
    with listening("127.0.0.1", 0) as sock, pytest.raises(ConfigError, match="cannot listen at 127"):
        listening("127.0.0.1", sock.getsockname()[1])


def test_keys_are_asked_for(model_folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("0123456789abcdef\n")
    with running(model_folders["ner"], "--keys", tmp_path / "keys") as server:
        assert server.ask("/v1/models")[0] == 401
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/v1/models", headers={"Authorization": "Bearer 0123456789abcdef"})
        assert connection.getresponse().status == 200
        connection.close()
        assert "0123456789abcdef" not in server.stop()[1]


def test_a_folder_that_moves_away_does_not_end_it(own_folders: dict[str, Path]) -> None:
    with running(own_folders["ner"]) as server:
        shutil.rmtree(own_folders["ner"])
        server.until("/readyz", lambda content: content["problems"])
        assert server.ask("/v1/tag", {"texts": [TEXT]})[0] == 200


def test_granian_runs_the_application_too(model_folders: dict[str, Path], tmp_path: Path) -> None:
    path = str(model_folders["ner"])
    (tmp_path / "served.py").write_text(
        "from trellis.server import ModelShelf, create_app\n" + f"app = create_app(ModelShelf({{'ner': {path!r}}}))\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-u", "-m", "granian", "--interface", "asgi", "--port", str(port), "served:app"]
    with started(command, tmp_path) as server:
        status, answer = server.ask("/v1/tag", {"texts": [TEXT]})
        assert (status, answer["results"][0]["text"]) == (200, TEXT)
        assert server.ask("/v1/tag", {"texts": 1})[0] == 422
        assert b" 400 " in raw(server, b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n").splitlines()[0]
        assert server.stop()[0] == 0
