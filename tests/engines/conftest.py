"""What the tests of all engines share: a model, shards, what one process makes of them, and workers that die."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.distributed.conftest import TEXTS, ner_model, shards, tree
from tests.distributed.test_folders import DeadlyJob
from trellis.distributed import BulkTagger, FolderReport, folders, tag_folder

__all__ = ["ner_model", "shards", "tree"]

ROWS = 300
"""Texts of a table; one in fifty is bad."""


@dataclass(frozen=True)
class DeadlyTagger(BulkTagger):
    """Kills the first worker that it comes to."""

    met: str = ""
    home: int = 0

    def __call__(self, table: Any) -> Any:
        if os.getpid() != self.home and not Path(self.met).exists():
            Path(self.met).write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(table)


@pytest.fixture
def texts() -> pa.Table:
    """Many texts, with some that cannot be tagged."""
    found = [None if i % 50 == 7 else TEXTS[i % 5] for i in range(ROWS)]
    return pa.table({"id": range(ROWS), "text": found})


@pytest.fixture
def tagger(ner_model: Path) -> BulkTagger:
    return BulkTagger(ner_model, outputs=["tags", "spans", "probabilities"], on_error="mark")


@pytest.fixture
def deadly(tagger: BulkTagger, tmp_path: Path) -> DeadlyTagger:
    given = {"outputs": tagger.outputs, "on_error": "mark"}
    return DeadlyTagger(tagger.path, met=str(tmp_path / "met"), home=os.getpid(), **given)


def as_bytes(table: pa.Table) -> bytes:
    """A table by its values, however it was cut into pieces and whatever its columns are called within."""
    sink = pa.BufferOutputStream()
    plain = pa.Table.from_pylist(sorted(table.to_pylist(), key=lambda row: row["id"]))
    with pa.ipc.new_stream(sink, plain.schema) as stream:
        stream.write_table(plain)
    return bytes(sink.getvalue())


def check_folder(engine: str, model: Path, place: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in which workers die, and the run that goes on with it, give what one process gives, byte for byte."""
    (place / "part-3.txt").write_bytes(b"Anna slept.\n\xff poisoned\nRome.\n")
    whole = out.with_name("whole")
    one = tag_folder(model, [place], whole, workers=1)
    assert one.bad == 1
    monkeypatch.setattr(folders, "ShardJob", DeadlyJob)
    report: FolderReport = tag_folder(model, [place], out, engine=engine, workers=2)
    assert list(report.failed) == [str(place / "part-1.txt")]
    assert "3 times" in report.failed[str(place / "part-1.txt")]
    monkeypatch.undo()
    for met in out.glob("*.met"):
        met.unlink()
    report = tag_folder(model, [place], out, engine=engine, workers=2, resume=True)
    assert (report.before, report.failed, report.bad) == (5, {}, 1)
    assert tree(out) == tree(whole)
