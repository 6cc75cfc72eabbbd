"""Figures of one process, and of several that share a folder."""

import os
import subprocess
import sys
from pathlib import Path

from tests.server.conftest import client_of
from trellis.server import Keys, ModelRegistry

WORKER = """
from trellis.server.batcher import BatchRecord
from trellis.server.metrics import Metrics, forget_dead_workers
forget_dead_workers()
metrics = Metrics(lambda: 7)
metrics.request("/v1/tag", 200, 0.5)
metrics.batch(BatchRecord(1, 10, 0.1))
print(metrics.text().decode())
"""


def test_what_the_guard_refuses_is_counted_and_unknown_addresses_are_one(registry: ModelRegistry) -> None:
    for client in client_of(registry, keys=Keys(["correct-horse-battery"])):
        assert client.get("/v1/models").status_code == 401
        assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 400
        allowed = {"authorization": "Bearer correct-horse-battery"}
        for path in ("/nothing", "/nowhere", "/page/nothing.js"):
            assert client.get(path, headers=allowed).status_code == 404
        lines = client.get("/metrics", headers=allowed).text.splitlines()
    assert 'trellis_requests_total{path="/v1/models",status="401"} 1.0' in lines
    assert 'trellis_requests_total{path="/healthz",status="400"} 1.0' in lines
    assert 'trellis_requests_total{path="other",status="404"} 3.0' in lines


def test_figures_of_processes_are_added_and_a_dead_one_has_no_queue(tmp_path: Path) -> None:
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    run = [sys.executable, "-c", WORKER]
    first = subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    second = subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    for lines, count in ((first, 1.0), (second, 2.0)):
        assert f'trellis_requests_total{{path="/v1/tag",status="200"}} {count}' in lines
        assert f"trellis_tokens_total {10 * count}" in lines
        assert "trellis_queued_tokens 7.0" in lines
