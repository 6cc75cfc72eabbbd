"""Servers in processes of their own: they start with one command, survive what happens to them, and end cleanly."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import TEXT
from tests.server.process import Running, running, until
from tests.server.test_registry import MODEL, other_model
from trellis.errors import ConfigError
from trellis.server.runner import free_port


@pytest.fixture(scope="module")
def server(model_folders: dict[str, Path]) -> Any:
    with running(model_folders["ner"], f"other={model_folders['hmm']}") as found:
        yield found


def test_it_serves_models_under_their_names(server: Running) -> None:
    _, found = server.ask("/v1/models")
    assert [model["name"] for model in found["models"]] == ["ner", "other"]
    status, answer = server.ask("/v1/tag", {"texts": [TEXT]})
    assert (status, answer["results"][0]["text"]) == (200, TEXT)


def test_malformed_requests_do_not_fill_the_log(server: Running) -> None:
    before = server.said()
    for _ in range(5):
        assert b" 400 " in server.raw(b"\x00\xff NONSENSE\r\n\r\n").splitlines()[0]
    assert server.said() == before


def test_lines_are_answered_while_the_next_ones_are_not_sent_yet(server: Running) -> None:
    head = b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as sock:
        sock.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        for i in range(3):
            line = b'{"text": "Anna slept", "id": "%d"}\n' % i
            sock.sendall(b"%x\r\n%b\r\n" % (len(line), line))
            assert b'"id":"%d"' % i in sock.recv(65536)
        sock.sendall(b"0\r\n\r\n")
        assert sock.recv(65536) == b"0\r\n\r\n"


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Running) -> None:
    head = (
        b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000000\r\n\r\n"
    )
    found = server.raw(head)
    assert b" 413 " in found.splitlines()[0]
    assert b'"too_large"' in found
    status, answer = server.ask("/v1/tag", {"texts": ["x" * 5_000_000]})
    assert (status, answer["error"]["code"]) == (413, "too_large")


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


def _requests(metrics: bytes) -> float:
    """How many requests for tags all workers have counted."""
    lines = metrics.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith('trellis_requests_total{path="/v1/tag"'))


def test_a_worker_that_is_killed_is_replaced_and_all_share_one_port(model_folders: dict[str, Path]) -> None:
    with running(model_folders["ner"], "--workers", 2) as server:
        first = server.workers()
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        until(lambda: set(server.workers()) - set(first))
        assert first[1] in server.workers()
        server.until("/healthz", lambda answer: answer["status"] == "alive")  # the other may listen only now
        for _ in range(20):
            assert server.ask("/v1/tag", {"texts": [TEXT]})[0] == 200
        # a worker counts a request after it has answered
        server.until("/metrics", lambda text: _requests(text) == 20)
        code, errors = server.stop()
        assert code == 0
        assert "Unexpected exit from worker" in errors


def test_a_killed_worker_costs_only_the_requests_that_were_in_it(model_folders: dict[str, Path]) -> None:
    with running(model_folders["ner"], "--workers", 2) as server:
        found: list[int] = []
        lost: list[Exception] = []
        ended = threading.Event()

        def ask() -> None:
            while not ended.is_set():
                try:
                    found.append(server.ask("/v1/tag", {"texts": [TEXT]})[0])
                except (OSError, http.client.HTTPException) as error:
                    lost.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(found) >= 50)
            os.kill(server.workers()[0], signal.SIGKILL)
            after = len(found) + 200
            until(lambda: len(found) >= after)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert set(found) == {200}
        assert len(lost) <= 8  # each client at most once in the worker, and once in its queue of connections


def test_a_worker_that_has_just_been_started_ends_too(model_folders: dict[str, Path]) -> None:
    with running(model_folders["ner"], "--workers", 2, "--timeout", 1000) as server:  # more than the test waits
        first = server.workers()
        os.kill(first[0], signal.SIGKILL)
        until(lambda: set(server.workers()) - set(first))
        assert server.stop()[0] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="workers share memory where they are forked")
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="granian spawns its workers from Python 3.14 on")
def test_two_workers_share_the_memory_of_a_model(model_folders: dict[str, Path]) -> None:
    taken = []
    for workers in (1, 2):
        with running(model_folders["ner"], "--workers", workers) as server:
            for _ in range(20):
                assert server.ask("/v1/tag", {"texts": [TEXT]})[0] == 200
            taken.append(sum(map(proportional, [server.process.pid, *server.workers()])))
    assert taken[1] <= 1.5 * taken[0]


def proportional(process: int) -> int:
    """Kilobytes of a process, of which shared ones count in part."""
    return int(Path(f"/proc/{process}/smaps_rollup").read_text().partition("Pss:")[2].split()[0])


def test_workers_that_are_spawned_open_the_models_themselves(model_folders: dict[str, Path]) -> None:
    spawn = "import multiprocessing\nmultiprocessing.set_start_method('spawn')"
    with running(model_folders["ner"], "--workers", 2, before=spawn) as server:
        assert server.ask("/v1/tag", {"texts": [TEXT]})[0] == 200
        assert server.stop() == (0, "")


def test_workers_end_with_their_parent(model_folders: dict[str, Path]) -> None:
    with running(model_folders["ner"], "--workers", 2) as server:
        own = server.workers()
        server.process.kill()
        server.process.wait()
        until(lambda: all(state(pid) == "Z" for pid in own))


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_the_demo_needs_no_model_and_knows_english_and_chinese(tmp_path: Path) -> None:
    with running("--demo", "--corrections", tmp_path / "kept.jsonl") as server:
        _, answer = server.ask("/v1/tag", {"texts": ["Farid Ito flew to London on Monday."]})
        assert "London" in [span["text"] for span in answer["results"][0]["spans"]]
        _, answer = server.ask("/v1/tag", {"model": "chinese", "texts": ["研究生说，明天会下雨。"]})
        assert [span["text"] for span in answer["results"][0]["spans"]][:2] == ["研究生", "说"]
        assert server.ask("/v1/annotation")[1]["learning"] is True


def test_an_address_that_is_taken_is_an_error_that_says_so(server: Running, model_folders: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen at 127.*in use"):
        free_port("127.0.0.1", server.port)
    command = [sys.executable, "-m", "trellis", "serve", str(model_folders["ner"]), "--port", str(server.port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert "cannot listen at 127.0.0.1" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_an_address_that_is_taken_is_told_before_a_model_is_trained_or_opened(server: Running) -> None:
    for models in (["--demo"], ["nowhere/model"]):
        command = [sys.executable, "-m", "trellis", "serve", *models, "--port", str(server.port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (ended.returncode != 0, ended.stdout) == (True, "")
        assert "cannot listen at 127.0.0.1" in ended.stderr


def test_keys_are_asked_for(model_folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("0123456789abcdef\n")
    with running(model_folders["ner"], "--keys", tmp_path / "keys") as server:
        assert server.ask("/v1/models")[0] == 401
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/v1/models", headers={"Authorization": "Bearer 0123456789abcdef"})
        assert connection.getresponse().status == 200
        connection.close()
        assert "0123456789abcdef" not in server.stop()[1]
