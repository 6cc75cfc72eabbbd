"""Where shards are tagged: in processes of this machine, by Ray, or by Spark.

An engine is asked for one shard at a time by each of its threads, and answers when the shard is done; `WorkerLost` says
that the worker died on the way.
"""

from __future__ import annotations

import os
import queue
import sys
from abc import ABC, abstractmethod
from typing import Self

from trellis.chain import get_num_threads
from trellis.distributed.shard import Done, ShardJob, Tell
from trellis.distributed.shards import Shard
from trellis.distributed.worker import Result, Worker, attempt, first_line, start_worker
from trellis.errors import ConfigError, TrellisError
from trellis.optional import needed


class WorkerLost(TrellisError):  # noqa: N818 - what happened
    """A worker ended before its shard was done."""


class Engine(ABC):
    """Workers that tag shards."""

    workers: int

    @abstractmethod
    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Result:
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
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._started: list[Worker] = []
        self._closed = False
        for _ in range(self.workers):
            self._start()

    def _start(self) -> None:
        worker = start_worker()
        self._started.append(worker)
        self._idle.put(worker)

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Result:
        """Tag one shard in a process that has nothing to do; one that dies is replaced."""
        worker = self._idle.get()
        try:
            result = worker.run(job, shard, tell)
        except (EOFError, OSError, ValueError):
            code = worker.end()
            if not self._closed:
                self._started.remove(worker)
                self._start()
            raise WorkerLost(f"the worker process ended with code {code}") from None
        self._idle.put(worker)
        return result

    def close(self) -> None:
        """End the processes, whatever they do."""
        self._closed = True
        for worker in self._started:
            worker.end()


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

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Result:
        """Tag one shard in a task."""
        try:
            result: Result = self._ray.get(self._task.remote(job, shard))
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            raise WorkerLost(f"Ray lost the worker: {first_line(error)}") from None
        if isinstance(result, Done):
            tell(result.rows, result.tokens)
        return result

    def close(self) -> None:
        """Leave Ray, unless it was running before."""
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
            raise ConfigError(f"Spark does not start (it needs Java 17 or later): {first_line(error)}") from None
        if self._ours:
            self._session.sparkContext.setLogLevel("OFF")
        self.workers = workers or self._session.sparkContext.defaultParallelism

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Result:
        """Tag one shard in a job with one task."""
        context = self._session.sparkContext
        try:
            result: Result = context.parallelize([shard], 1).map(lambda one: attempt(job, one)).collect()[0]
        except Exception as error:  # Py4J's, which is there only with Spark
            raise WorkerLost(f"Spark lost the worker: {first_line(error)}") from None
        if isinstance(result, Done):
            tell(result.rows, result.tokens)
        return result

    def close(self) -> None:
        """Leave Spark, unless it was running before."""
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
