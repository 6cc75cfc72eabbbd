"""Who tags: datasets of Ray, Spark and Dask, each by the one call that it needs, and workers for the shards of folders.

An engine is asked for one shard at a time by each of its threads, and answers when the shard is done; `WorkerLost` says
that the worker died on the way. Processes of this machine are pools of `concurrent.futures` with one process each: when
a process dies, its pool breaks, and it is known which shard was to blame.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import types
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Self

from trellis.chain import get_num_threads, set_num_threads
from trellis.distributed.bulk import BulkTagger, NameTaken
from trellis.errors import ConfigError, DataError, TrellisError, needed

if TYPE_CHECKING:
    from trellis.distributed.folders import Done, Shard, ShardJob

Tell = Callable[[int, int], None]
"""Called with how many more rows and tokens are done."""


class SettingsRefused(str):
    """Why a shard could not be tagged, which would hold for every shard: the error is in the settings."""


class WorkerLost(TrellisError):  # noqa: N818 - what happened
    """A worker ended before its shard was done."""


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


def attempt(job: ShardJob, shard: Shard, tell: Tell = lambda rows, tokens: None) -> Done | str:
    """Tag one shard in this process, which has one core for it; what is wrong with the shard is told, not raised."""
    set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for torch, which a neural model loads
    _freeze()
    try:
        return job.run(shard, tell)
    except TrellisError as error:
        problem = str(error) if str(error).startswith(shard.path) else f"{shard.path}: {error}"
        return SettingsRefused(problem) if isinstance(error, NameTaken) else problem
    except MemoryError:
        return f"{shard.path}: out of memory"
    except (Exception, SystemExit) as error:
        return f"{shard.path}: {type(error).__name__}: {_first_line(error)}"


_freeze = cache(gc.freeze)
"""The garbage collector then passes over what was imported before the first shard: with Ray, that takes 0.07 s."""


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


class Engine(ABC):
    """Workers that tag shards."""

    workers: int

    @abstractmethod
    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Done | str:
        """Tag one shard, in the thread of the caller; several threads may ask at a time."""

    @abstractmethod
    def close(self) -> None:
        """End the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class LocalEngine(Engine):
    """Processes of this machine, each of which tags one shard after another."""

    def __init__(self, workers: int | None) -> None:
        self.workers = workers or get_num_threads()
        self._idle: queue.SimpleQueue[_LocalWorker] = queue.SimpleQueue()
        self._started: list[_LocalWorker] = []
        self._starting, self._closed = threading.Lock(), False
        may_fork = _may_fork()
        for _ in range(self.workers):
            self._start("fork" if may_fork else "spawn")

    def _start(self, method: str) -> None:
        with self._starting:
            if self._closed:
                return
            worker = _LocalWorker(method)
            self._started.append(worker)
        self._idle.put(worker)

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Done | str:
        """Tag one shard in a process that has nothing to do; one that dies is replaced."""
        worker = self._idle.get()
        try:
            result = worker.run(job, shard, tell)
        except (EOFError, OSError, RuntimeError):  # its pipe or its pool is closed or broken
            code = worker.end()
            self._start("spawn")  # this process has threads by now
            raise WorkerLost(f"the worker process ended with code {code}") from None
        self._idle.put(worker)
        return result

    def close(self) -> None:
        with self._starting:
            self._closed = True
        for worker in self._started:
            worker.end()


class _LocalWorker:
    """A pool of one process, with a pipe on which that process tells how far it is.

    It is a copy of this process (fork) where that is safe: then it starts at once, with the model, whose memory it
    shares. Otherwise it is a new interpreter (spawn).
    """

    def __init__(self, method: str) -> None:
        context = multiprocessing.get_context(method)
        self._progress, progress = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin_worker, initargs=(progress,))
        before = set(multiprocessing.active_children())
        with warnings.catch_warnings(), _without_main():
            # About forking with threads: those that there are by now are of the pools of other workers.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pool.submit(os.getpid)  # starts the process
        progress.close()  # the process has it now: when that ends, so does the pipe
        (self._process,) = set(multiprocessing.active_children()) - before

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Done | str:
        """Have a shard tagged; an error of the pipe or the pool says that the process ended."""
        # As bytes, so that what cannot be unpickled there is an answer and not the end of the process.
        future = self._pool.submit(_work, pickle.dumps((job, shard)))
        while (counts := self._progress.recv()) is not None:
            tell(*counts)
        return future.result()

    def end(self) -> int | None:
        """Kill the process, if it lives; returns its exit code."""
        self._process.kill()
        self._pool.shutdown(cancel_futures=True)
        return self._process.exitcode


_UNSAFE = ("torch", "ray", "pyspark", "tensorflow", "jax")
"""Packages whose threads do not survive a fork."""


def _may_fork() -> bool:
    """Whether a copy of this process can work: it has no thread that might hold a lock, and no such package."""
    alone = threading.active_count() == 1 and threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and alone and not any(name in sys.modules for name in _UNSAFE)


@contextmanager
def _without_main() -> Iterator[None]:
    """Have multiprocessing not run the main script again in a new interpreter, so that scripts need no guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


_told: Connection
"""The connection by which a worker process reports its progress."""


def _begin_worker(progress: Connection) -> None:
    """Prepare a worker process, which ends when the one that started it does."""
    global _told
    _told = progress
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(2, 1)  # what a library prints is no output of the command
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _work(pickled: bytes) -> Done | str:
    """Tag a shard in a worker process; None on the pipe says that the result follows."""
    try:
        job, shard = pickle.loads(pickled)
    except Exception as error:  # whatever a module says that is not found here, or does not import
        _told.send(None)
        return f"the worker cannot read its job: {type(error).__name__}: {_first_line(error)}"
    try:
        return attempt(job, shard, lambda rows, tokens: _told.send((rows, tokens)))
    finally:
        _told.send(None)


class RayEngine(Engine):
    """Tasks of Ray: of the cluster that RAY_ADDRESS names, of one that is running already, or of this machine."""

    def __init__(self, workers: int | None) -> None:
        self._ray = needed("ray", "ray", "the engine ray")
        self._ours = not self._ray.is_initialized()
        if self._ours:
            here = {} if os.environ.get("RAY_ADDRESS") or workers is None else {"num_cpus": workers}
            self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **here)
        self.workers = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(attempt)

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Done | str:
        try:
            result: Done | str = self._ray.get(self._task.remote(job, shard))
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            raise WorkerLost(f"Ray lost the worker: {_first_line(error)}") from None
        if not isinstance(result, str):
            tell(result.rows, result.tokens)
        return result

    def close(self) -> None:
        if self._ours:
            self._ray.shutdown()


class SparkEngine(Engine):
    """Jobs of Spark with one task each, on the master that its configuration names, or on this machine."""

    def __init__(self, workers: int | None) -> None:
        spark = needed("pyspark", "spark", "the engine spark")
        session = needed("pyspark.sql", "spark", "the engine spark").SparkSession
        self._ours = session.getActiveSession() is None
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not whatever python3 is on the path
        try:
            settings = spark.SparkConf()  # with what spark-submit or a file of settings says
            if self._ours and not settings.contains("spark.master"):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
                settings.setMaster(f"local[{workers or '*'}]").set("spark.ui.enabled", "false")
            self._session = session.builder.appName("trellis tag").config(conf=settings).getOrCreate()
        except Exception as error:
            raise ConfigError(f"Spark does not start (it needs Java 17 or later): {_first_line(error)}") from None
        if self._ours:
            self._session.sparkContext.setLogLevel("OFF")
        self.workers = workers or self._session.sparkContext.defaultParallelism

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Done | str:
        context = self._session.sparkContext
        try:
            result: Done | str = context.parallelize([shard], 1).map(lambda one: attempt(job, one)).collect()[0]
        except Exception as error:  # Py4J's, which is there only with Spark
            raise WorkerLost(f"Spark lost the worker: {_first_line(error)}") from None
        if not isinstance(result, str):
            tell(result.rows, result.tokens)
        return result

    def close(self) -> None:
        if self._ours:
            self._session.stop()


ENGINES: dict[str, type[Engine]] = {"local": LocalEngine, "ray": RayEngine, "spark": SparkEngine}


def check_engine(name: str, workers: int | None) -> None:
    """Refuse a name that no engine has, and a number of workers that none can have."""
    if name not in ENGINES:
        raise ConfigError(f"unknown engine {name!r}, expected one of {', '.join(ENGINES)}")
    if workers is not None and not 1 <= workers <= 100_000:
        raise ConfigError(f"the number of workers must be in 1..100000, got {workers}")


def open_engine(name: str, workers: int | None) -> Engine:
    """An engine by its name, with this many workers; by default with as many as it has cores."""
    return ENGINES[name](workers)  # type: ignore[call-arg]
