"""Ray with two CPUs: datasets and folders, as one process gives them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
import ray

from tests.distributed.test_folders import KILLED
from tests.engines.conftest import as_bytes, check_folder, tree
from trellis.distributed import tag_folder, tag_ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_dataset_gets_what_one_process_gives(texts, tagger):
    dataset = ray.data.from_arrow([texts.slice(i, 60) for i in range(0, len(texts), 60)])
    found = pa.concat_tables(ray.get(tag_ray(dataset, tagger, batch_size=17).to_arrow_refs()))
    assert as_bytes(found) == as_bytes(tagger(texts))


@pytest.mark.usefixtures("cluster")
def test_a_dataset_whose_worker_is_killed_is_whole(texts, tagger, deadly, tmp_path):
    dataset = ray.data.from_arrow([texts.slice(i, 60) for i in range(0, len(texts), 60)])
    found = pa.concat_tables(ray.get(tag_ray(dataset, deadly, batch_size=17).to_arrow_refs()))
    assert (tmp_path / "met").exists()
    assert as_bytes(found) == as_bytes(tagger(texts))


@pytest.mark.usefixtures("cluster")
def test_folders_with_poison_and_dying_workers(ner_model, shards, tmp_path, monkeypatch):
    check_folder("ray", ner_model, shards, tmp_path / "out", monkeypatch)


def test_after_kill_9_of_the_driver_resume_goes_on(ner_model, shards, tmp_path):
    out, whole = tmp_path / "out", tmp_path / "whole"
    command = [sys.executable, "-c", KILLED, str(ner_model), str(shards), "--workers", "2", "--out", str(out)]
    done = subprocess.run([*command, "--engine", "ray"], capture_output=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    report = tag_folder(ner_model, [shards], out, workers=1, resume=True)
    assert 3 <= report.before < 6
    tag_folder(ner_model, [shards], whole, workers=1)
    assert tree(out) == tree(whole)
