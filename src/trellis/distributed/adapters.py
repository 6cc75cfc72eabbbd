"""Datasets of Ray, Spark and Dask, tagged: each function is the one call that the engine needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from trellis.distributed.bulk import BulkTagger
from trellis.errors import DataError
from trellis.optional import needed


def tag_ray(dataset: Any, tagger: BulkTagger, **options: Any) -> Any:
    """A `ray.data.Dataset` with the columns of the tagger; options go to ``map_batches``."""
    needed("ray", "ray", "tag_ray")
    _expect(dataset, "map_batches", "a dataset of Ray Data")
    return dataset.map_batches(tagger.on_one_core, batch_format="pyarrow", **options)


def tag_spark(frame: Any, tagger: BulkTagger) -> Any:
    """A `pyspark.sql.DataFrame` with the columns of the tagger, through ``mapInArrow``."""
    types = needed("pyspark.sql.pandas.types", "spark", "tag_spark")
    _expect(frame, "mapInArrow", "a frame of Spark")
    schema = types.from_arrow_schema(tagger.schema(types.to_arrow_schema(frame.schema)))
    return frame.mapInArrow(partial(_batches, tagger), schema)


def _batches(tagger: BulkTagger, batches: Iterable[Any]) -> Iterator[Any]:
    return map(tagger.on_one_core, batches)


def tag_dask(frame: Any, tagger: BulkTagger) -> Any:
    """A `dask.dataframe.DataFrame` with the columns of the tagger, partition by partition."""
    needed("dask.dataframe", "dask", "tag_dask")
    _expect(frame, "map_partitions", "a frame of Dask")
    return frame.map_partitions(tagger, meta=tagger(frame._meta))


def _expect(given: Any, method: str, kind: str) -> None:
    if not hasattr(given, method):
        found = f"{type(given).__module__}.{type(given).__qualname__}"
        raise DataError(f"expected {kind}, found {found}; a table in memory goes to the tagger itself")
