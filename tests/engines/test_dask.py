"""Dask with two worker processes: frames, as one process gives them."""

from __future__ import annotations

from collections.abc import Iterator

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster

from tests.engines.conftest import as_bytes
from trellis.distributed import tag_dask, tag_ray, tag_spark
from trellis.errors import DataError


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as found:
        yield found


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


@pytest.mark.usefixtures("client")
def test_a_frame_gets_what_one_process_gives(texts, tagger):
    frame = dd.from_pandas(texts.to_pandas(), npartitions=7)
    assert as_bytes(to_arrow(tag_dask(frame, tagger).compute())) == as_bytes(tagger(texts))


@pytest.mark.usefixtures("client")
def test_a_frame_whose_worker_is_killed_is_whole(texts, tagger, deadly, tmp_path):
    frame = dd.from_pandas(texts.to_pandas(), npartitions=7)
    found = tag_dask(frame, deadly).compute()
    assert (tmp_path / "met").exists()
    assert as_bytes(to_arrow(found)) == as_bytes(tagger(texts))


@pytest.mark.parametrize("call", [tag_dask, tag_ray, tag_spark])
def test_a_table_in_memory_is_refused_by_the_functions_of_engines(tagger, call):
    with pytest.raises(DataError, match=r"expected a .* of .*, found pandas\..*DataFrame; a table in memory goes to"):
        call(pd.DataFrame({"text": ["Anna"]}), tagger)
