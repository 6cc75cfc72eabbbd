"""Small models, shards of all formats, and an engine that works in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ner_model, sentences
from trellis.chain import get_num_threads, set_num_threads
from trellis.distributed import folders
from trellis.distributed.engines import Engine, Tell, attempt
from trellis.distributed.folders import Done, Shard, ShardJob
from trellis.models import CRF
from trellis.models import folder as model_folder

__all__ = ["ner_model"]

TEXTS = [
    "Anna lives in Rome.",
    "",
    "Paul Jones slept. He met Anna in New York.",
    "It rained.",
    "In Paris, Paul met Anna Smith.",
]


class InlineEngine(Engine):
    """Tags in this process, and counts how often it is asked."""

    asked: list[str]

    def __init__(self, workers: int | None = None) -> None:
        self.workers, self.asked = workers or 1, []

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Done | str:
        self.asked.append(shard.name)
        return attempt(job, shard, tell)

    def close(self) -> None:
        pass


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Iterator[InlineEngine]:
    """The engine of all folders that the test tags."""
    engine, threads = InlineEngine(), get_num_threads()
    monkeypatch.setattr(folders, "open_engine", lambda name, workers: engine)
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    yield engine
    set_num_threads(threads)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = model_folder.prepare(tmp_path_factory.mktemp("models") / "other")
    model_folder.save_model(place, CRF(features="ner", c2=1.0).fit(sentences()))
    return place


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Six shards of text."""
    place = tmp_path / "in"
    place.mkdir()
    for number in range(6):
        lines = TEXTS[number % 5 :] + TEXTS[: number % 5]
        (place / f"part-{number}.txt").write_text("".join(f"{line}\n" for line in lines))
    return place


def tree(out: Path) -> dict[str, bytes]:
    """What a run wrote, but for the marks: those have paths and times of the input."""
    found = (path for path in sorted(out.rglob("*")) if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found if "done" not in path.parts}
