"""A worker process of this machine, asked and answering through pipes.

It is a program of its own rather than a copy of the one that starts it, so scripts need no guard against being run
again, and threads of theirs do no harm. It ends when its pipe does: when whoever started it is gone.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress

from trellis.chain import set_num_threads
from trellis.distributed.shard import Done, ShardJob, Tell
from trellis.distributed.shards import Shard
from trellis.errors import TrellisError

Result = Done | str
"""The mark of a shard, or why it could not be tagged."""


def attempt(job: ShardJob, shard: Shard, tell: Tell = lambda rows, tokens: None) -> Result:
    """Tag one shard in this process, which has one core for it; what is wrong with the shard is told, not raised."""
    set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for torch, which a neural model loads
    try:
        return job.run(shard, tell)
    except TrellisError as error:
        return str(error)
    except MemoryError:
        return f"{shard.path}: out of memory"


class WorkerProcess:
    """The process, seen from the one that starts it."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from trellis.distributed.worker import serve; serve()"]
        # As here: where modules are found, the one of a user's own tokenizer among them.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Result:
        """Have a shard tagged; the error of a pipe that is closed says that the process ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((job, shard), self._process.stdin)
        self._process.stdin.flush()
        while isinstance(message := pickle.load(self._process.stdout), tuple):
            tell(*message)
        result: Result = message
        return result

    def end(self) -> int:
        """Kill the process, if it lives; returns its exit code."""
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # for what was not yet written to a process that is gone
                pipe.close()
        return code


def serve() -> None:
    """What the process does: tag the shards that it is given."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer

    def say(message: Result | tuple[int, int]) -> None:
        pickle.dump(message, answers)
        answers.flush()

    try:
        while True:
            job, shard = pickle.load(sys.stdin.buffer)
            say(attempt(job, shard, lambda rows, tokens: say((rows, tokens))))
    except (EOFError, OSError):
        os._exit(0)  # nobody is left to be told anything
