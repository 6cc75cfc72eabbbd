"""Spark on this machine with two cores: frames and folders, as one process gives them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.engines.conftest import as_bytes, check_folder
from trellis.distributed import tag_spark

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, which is not here")


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    found = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "17").getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()


def test_a_frame_gets_what_one_process_gives(session, texts, tagger):
    frame = session.createDataFrame(texts).repartition(5)
    assert as_bytes(tag_spark(frame, tagger).toArrow()) == as_bytes(tagger(texts))


def test_pandas_frames_go_through_map_in_pandas(session, texts, tagger):
    frame = session.createDataFrame(texts).repartition(5)
    schema = tag_spark(frame, tagger).schema
    found = frame.mapInPandas(lambda frames: map(tagger, frames), schema).toArrow()
    assert as_bytes(found) == as_bytes(tagger(texts))


def test_a_frame_whose_worker_is_killed_is_whole(session, texts, tagger, deadly, tmp_path):
    frame = session.createDataFrame(texts).repartition(5)
    found = tag_spark(frame, deadly).toArrow()
    assert (tmp_path / "met").exists()
    assert as_bytes(found) == as_bytes(tagger(texts))


@pytest.mark.usefixtures("session")
def test_folders_with_poison_and_dying_workers(ner_model, shards, tmp_path, monkeypatch):
    check_folder("spark", ner_model, shards, tmp_path / "out", monkeypatch)
