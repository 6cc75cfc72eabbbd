"""More than one process: bulk tagging, and training by processes that torchrun starts.

Bulk tagging: tables and folders of shards, in one process, several, or on an engine such as Ray, Spark or Dask.

    tagger = BulkTagger("model", text="body", outputs=["tags", "spans"])
    tagger(table)                                  # an Arrow table, a pandas frame or a dict of columns
    tag_ray(dataset, tagger)                       # or tag_spark(frame, tagger), tag_dask(frame, tagger)
    tag_folder("model", ["in"], "out", workers=8)  # what ``trellis tag model in --out out`` does

Training: each process gives its own sentences to the same call, and gets the same model.

    with together() as team:
        tagger = trellis.CRF(features="pos").fit(team.share(sentences), dev=dev)

Engines are imported when they are asked for; what is missing is named with its extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.lazy import lazily
from trellis.training.process_group import together

if TYPE_CHECKING:
    from trellis.distributed.bulk import BulkTagger
    from trellis.distributed.engines import tag_dask, tag_ray, tag_spark
    from trellis.distributed.folders import FolderProgress, FolderReport, tag_folder

__all__ = ["BulkTagger", "FolderProgress", "FolderReport", "tag_dask", "tag_folder", "tag_ray", "tag_spark", "together"]

# Imported when they are asked for: who trains in several processes needs none of it.
__getattr__ = lazily(
    __name__,
    {
        "bulk": ("BulkTagger",),
        "engines": ("tag_dask", "tag_ray", "tag_spark"),
        "folders": ("FolderProgress", "FolderReport", "tag_folder"),
    },
)
