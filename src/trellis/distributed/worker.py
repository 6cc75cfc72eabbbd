"""A worker process of this machine, asked and answering through pipes.

It is a copy of the process that starts it (a fork) where that is safe: then it starts at once, with the model, whose
memory it shares. Otherwise it is a program of its own, so that scripts need no guard against being run again, and
threads of theirs do no harm. It ends when its pipe does: when whoever started it is gone.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cache
from typing import IO, NoReturn, final

from trellis.chain import set_num_threads
from trellis.distributed.columns import NameTaken
from trellis.distributed.shard import Done, ShardJob, Tell
from trellis.distributed.shards import Shard
from trellis.errors import TrellisError

Result = Done | str
"""The mark of a shard, or why it could not be tagged."""


class Hopeless(str):
    """Why no shard can be tagged, unless one has been: then it is this one alone."""


def attempt(job: ShardJob, shard: Shard, tell: Tell = lambda rows, tokens: None) -> Result:
    """Tag one shard in this process, which has one core for it; what is wrong with the shard is told, not raised."""
    set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for torch, which a neural model loads
    _settle()
    try:
        return job.run(shard, tell)
    except NameTaken as error:
        return Hopeless(_placed(error, shard))
    except TrellisError as error:
        return _placed(error, shard)
    except MemoryError:
        return f"{shard.path}: out of memory"
    except Exception as error:
        return f"{shard.path}: {type(error).__name__}: {first_line(error)}"


@cache
def _settle() -> None:
    """Have the garbage collector pass over what was imported before the first shard: with Ray, that takes 0.07 s."""
    gc.freeze()


def _placed(error: TrellisError, shard: Shard) -> str:
    said = str(error)
    return said if said.startswith(shard.path) else f"{shard.path}: {said}"


def first_line(error: Exception) -> str:
    """What an error says, as one line."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


class Worker(ABC):
    """The process, seen from the one that starts it."""

    pid: int
    """The number of the process."""
    asked: IO[bytes]
    answered: IO[bytes]

    def run(self, job: ShardJob, shard: Shard, tell: Tell) -> Result:
        """Have a shard tagged; the error of a pipe that is closed says that the process ended."""
        pickle.dump(
            pickle.dumps((job, shard)), self.asked
        )  # in one piece, so that it is read even if it makes no sense
        self.asked.flush()
        while isinstance(message := pickle.load(self.answered), tuple):
            tell(*message)
        result: Result = message
        return result

    def end(self) -> int:
        """Kill the process, if it lives; returns its exit code."""
        code = self._kill()
        for pipe in (self.asked, self.answered):
            with suppress(OSError):  # for what was not yet written to a process that is gone
                pipe.close()
        return code

    @abstractmethod
    def _kill(self) -> int:
        """Kill the process and wait for its end."""


@final
class Program(Worker):
    """A program of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from trellis.distributed.worker import serve; serve()"]
        # As here: where modules are found, the one of a user's own tokenizer among them.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.pid, self.asked, self.answered = self._process.pid, self._process.stdin, self._process.stdout

    def _kill(self) -> int:
        self._process.kill()
        return self._process.wait()


@final
class Fork(Worker):
    """A copy of this process."""

    def __init__(self) -> None:
        (questions, asked), (answered, answers) = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            # Of threads that libraries have for themselves: those of BLAS, Arrow and Trellis expect to be forked.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _be_forked(questions, answers)
        for other in (questions, answers):
            os.close(other)
        self.asked, self.answered = os.fdopen(asked, "wb"), os.fdopen(answered, "rb")
        self._code: int | None = None

    def _kill(self) -> int:
        if self._code is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except (ProcessLookupError, ChildProcessError):  # SIGCHLD is ignored here, so nobody knows
                self._code = 0
        return self._code


_UNSAFE = ("torch", "ray", "pyspark", "tensorflow", "jax")
"""Packages whose threads do not survive a fork."""
_OPEN_FILES = "/proc/self/fd"


def may_fork() -> bool:
    """Whether a copy of this process can work: it has no thread that might hold a lock, and no such package."""
    alone = threading.active_count() == 1 and threading.current_thread() is threading.main_thread()
    linux = sys.platform == "linux" and os.path.isdir(_OPEN_FILES)
    return linux and alone and not any(name in sys.modules for name in _UNSAFE)


def start_worker() -> Worker:
    """A worker, in the way that starts soonest."""
    return Fork() if may_fork() else Program()


def _be_forked(questions: int, answers: int) -> NoReturn:
    """The life of a copy: it has nothing open but its pipes and standard error, and returns to no caller."""
    try:
        gc.freeze()  # what is thrown away of the original would close files that are not its own any more
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for name in os.listdir(_OPEN_FILES):
            if int(name) > 2 and int(name) not in (questions, answers):
                with suppress(OSError):  # that of the list itself is closed already
                    os.close(int(name))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        _live(os.fdopen(questions, "rb"), os.fdopen(answers, "wb"))
    finally:
        os._exit(1)


def serve() -> None:
    """What a program of its own does."""
    _live(sys.stdin.buffer, os.fdopen(os.dup(1), "wb"))


def _live(questions: IO[bytes], answers: IO[bytes]) -> NoReturn:
    """Answer to the end; the pipes close with the process and not before, so that its own exit code is seen."""
    try:
        _answer(questions, answers)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _answer(questions: IO[bytes], answers: IO[bytes]) -> NoReturn:
    """Tag the shards that it is given."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it
    os.dup2(2, 1)  # what a library prints is no answer

    def say(message: Result | tuple[int, int]) -> None:
        pickle.dump(message, answers)
        answers.flush()

    try:
        while True:
            say(_answer_to(pickle.load(questions), lambda rows, tokens: say((rows, tokens))))
    except (EOFError, OSError):
        os._exit(0)  # nobody is left to be told anything


def _answer_to(question: bytes, tell: Tell) -> Result:
    try:
        job, shard = pickle.loads(question)
    except Exception as error:  # whatever a module says that is not found here, or does not import
        return f"the worker cannot read its job: {type(error).__name__}: {first_line(error)}"
    return attempt(job, shard, tell)
