"""A run over shards: which are done already, who does the rest, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from trellis import files
from trellis.distributed.engines import Engine, WorkerLost
from trellis.distributed.opening import file_digest
from trellis.distributed.shard import META, Done, ShardJob
from trellis.distributed.shards import Shard
from trellis.distributed.worker import Hopeless, Result
from trellis.errors import DataError
from trellis.training.record import read_json

_ATTEMPTS = 3
"""How often a shard is tried whose worker dies: another process may have taken the memory."""


@dataclass(frozen=True)
class FolderProgress:
    """How far a run is."""

    shards: int
    all_shards: int
    rows: int
    tokens: int
    """Of this run, those of shards that are not done among them."""
    bytes: int
    """Of the shards that this run has done."""
    left: int
    """Bytes of the shards that are not done."""
    done_tokens: int
    """Of the shards that this run has done."""


@dataclass
class FolderReport:
    """What came of a run."""

    shards: int
    before: int
    """Shards that an earlier run had done."""
    rows: int = 0
    tokens: int = 0
    bad: int = 0
    """Records that could not be tagged, of all shards: see ``_trellis/bad``."""
    failed: dict[str, str] = field(default_factory=dict)
    """Shards that could not be tagged, and why."""


class ShardRun:
    """A run: the shards that are left, and what came of those that were tried."""

    def __init__(
        self, job: ShardJob, shards: list[Shard], known: bool, progress: Callable[[FolderProgress], None]
    ) -> None:
        self._job, self._shards, self._progress = job, shards, progress
        marks = {shard.name: self._mark(shard) for shard in shards} if known else {}
        self.left = [shard for shard in shards if marks.get(shard.name) is None]
        self._marks = {name: mark for name, mark in marks.items() if mark is not None}
        self._before = len(self._marks)
        self._failed: dict[str, str] = {}
        self._rows = self._tokens = self._done_tokens = self._bytes = 0
        self._size = sum(shard.size for shard in self.left)
        self._telling, self._stopping = threading.Lock(), False

    def _mark(self, shard: Shard) -> Done | None:
        """The mark of a shard that is done and has not changed since."""
        values = read_json(self._job.place("done", shard))
        try:
            mark = Done(**values)
        except TypeError:  # none, or not one
            return None
        output = self._job.place("output", shard)
        whole = output.is_file() and output.stat().st_size == mark.output_bytes
        return mark if whole and mark.settings == self._job.settings and _is_unchanged(shard, mark) else None

    def work(self, engine: Engine) -> None:
        """Tag what is left, as many shards at a time as there are workers, large ones first."""
        waiting = sorted(self.left, key=lambda shard: -shard.size)
        with ThreadPoolExecutor(engine.workers) as pool:
            under_way: dict[Future[Result], Shard] = {}
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < engine.workers:
                        shard = waiting.pop(0)
                        under_way[pool.submit(self._try, engine, shard)] = shard
                    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                        self._take(under_way.pop(future), future.result())
            except BaseException:
                self._stopping = True
                engine.close()  # so that the threads come to their ends
                raise

    def _try(self, engine: Engine, shard: Shard) -> Result:
        lost = ""
        for _ in range(_ATTEMPTS):
            try:
                return engine.run(self._job, shard, self._tell)
            except WorkerLost as error:
                lost = str(error)
                if self._stopping:
                    break
        return f"{shard.path}: {lost}, {_ATTEMPTS} times: is it too large for the memory?"

    def _tell(self, rows: int, tokens: int) -> None:
        with self._telling:
            self._rows, self._tokens = self._rows + rows, self._tokens + tokens
            self._show()

    def _take(self, shard: Shard, result: Result) -> None:
        if isinstance(result, Done):
            self._marks[shard.name] = result
            self._done_tokens, self._bytes = self._done_tokens + result.tokens, self._bytes + shard.size
        elif self._job.strict or (isinstance(result, Hopeless) and not self._marks):
            raise DataError(result)
        else:
            self._failed[shard.path] = result
        with self._telling:
            self._show()

    def _show(self) -> None:
        shards = len(self._marks), len(self._shards)
        left = self._size - self._bytes
        self._progress(FolderProgress(*shards, self._rows, self._tokens, self._bytes, left, self._done_tokens))

    def finish(self) -> FolderReport:
        """Write the checksums if all is done, and say what came of it."""
        marks = [self._marks[name] for name in sorted(self._marks)]
        if not self._failed:
            sums = "".join(f"{mark.output_sha256}  {mark.output}\n" for mark in marks)
            files.write_text(Path(self._job.out, META, "SHA256SUMS"), sums)
        rows, tokens, bad = (sum(getattr(mark, name) for mark in marks) for name in ("rows", "tokens", "bad"))
        return FolderReport(len(self._shards), self._before, rows, tokens, bad, self._failed)


def _is_unchanged(shard: Shard, mark: Done) -> bool:
    if shard.size != mark.source_bytes:
        return False
    return shard.time == mark.source_time or file_digest(shard.path) == mark.source_sha256
