"""Long questions hear signals (Ctrl-C), and work goes on where the system starts no threads."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from trellis.chain import ChainScores, SegmentScores, get_num_threads, set_num_threads

L = 9


class Alarm(Exception):
    pass


@contextmanager
def third_signal_raises() -> Iterator[None]:
    """A signal that comes again and again; a call that does not look for signals hears one of them, when it is over."""
    heard = 0

    def hear(*_: object) -> None:
        nonlocal heard
        heard += 1
        if heard == 3:
            raise Alarm

    before = signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def chains(sequences: int, length: int) -> ChainScores:
    random = np.random.default_rng(0)
    return ChainScores(random.normal(size=(sequences * length, L)), [length] * sequences, random.normal(size=(L, L)))


def segments(length: int) -> SegmentScores:
    random = np.random.default_rng(0)
    return SegmentScores(random.normal(size=(length, 8, L)), [length], random.normal(size=(L, L)))


LONG: dict[str, Callable[[], object]] = {
    "kbest": lambda: chains(1, 60).kbest(2_000_000),
    "kbest of several": lambda: chains(8, 60).kbest(250_000),
    "sample": lambda: chains(1, 60).sample(2_000_000, seed=0),
    "segments, kbest": lambda: segments(60).kbest(200_000),
    "segments, sample": lambda: segments(60).sample(200_000, seed=0),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", LONG)
def test_signals_are_heard_while_a_question_is_answered(name: str, threads: int) -> None:
    before = get_num_threads()
    set_num_threads(threads)
    try:
        with pytest.raises(Alarm), third_signal_raises():
            LONG[name]()
        assert len(chains(1, 5).kbest(3).scores[0]) == 3  # all is as before
    finally:
        set_num_threads(before)


PROGRAM = """
import threading
import numpy as np
from trellis.chain import ChainScores, set_num_threads
set_num_threads(4)
random = np.random.default_rng(0)
scores = ChainScores(random.normal(size=(8000, 9)), [40] * 200, random.normal(size=(9, 9)))
print(scores.log_partition().tobytes().hex())
try:
    threading.Thread(target=print).start()
except RuntimeError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, stacks of absurd size are reserved without a word")
def test_work_goes_on_where_no_thread_can_be_started() -> None:
    limit = resource.getrlimit(resource.RLIMIT_STACK)
    if limit[1] != resource.RLIM_INFINITY or "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("the size of stacks is limited")

    def run(stack: int) -> list[str]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (stack, limit[1])),
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.splitlines()

    with_threads, without = run(limit[0]), run(1 << 46)  # a stack that no thread gets
    assert without == [with_threads[0], "can't start new thread"]
