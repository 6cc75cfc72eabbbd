"""Names that wait for the first who asks, and attributes that are computed once, by any thread, and across forks."""

import os
import subprocess
import sys
import threading
import time

import pytest

import trellis.metrics
from trellis.lazy import cached, lazily


def test_a_name_is_found_in_its_home_and_another_is_an_attribute_error():
    find = lazily("trellis.metrics", {"prf": ("Score",)})
    assert find("Score") is trellis.metrics.prf.Score
    with pytest.raises(AttributeError, match=r"module 'trellis.metrics' has no attribute 'Skore'"):
        find("Skore")


def test_who_tags_loads_nothing_that_scores():
    code = "import sys, trellis.models; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    waiting = {
        "trellis.metrics.entities",
        "trellis.metrics.significance",
        "trellis.models.crf.training",
        "trellis.vectors",
    }
    assert "trellis.models.crf.model" in loaded
    assert not waiting & set(loaded)


class Slow:
    """Counts how often it computes; `wait` lets it take its time."""

    def __init__(self, wait: threading.Event | None = None) -> None:
        self.computed, self.begun, self._wait = 0, threading.Event(), wait

    @cached
    def value(self) -> int:
        """What takes time."""
        self.computed += 1
        self.begun.set()
        if self._wait is not None:
            self._wait.wait(20)
        return 7


def test_it_is_computed_once():
    slow = Slow()
    assert (slow.value, slow.value, slow.computed) == (7, 7, 1)
    assert Slow.value.__doc__ == "What takes time."


def test_instances_do_not_wait_for_each_other_nor_does_a_fork():
    go = threading.Event()
    busy = Slow(go)
    thread = threading.Thread(target=lambda: busy.value)
    thread.start()
    assert busy.begun.wait(20)
    assert Slow().value == 7
    child = os.fork()
    if child == 0:
        os._exit(Slow().value)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, 9)
    assert os.waitstatus_to_exitcode(ended[1]) == 7
    go.set()
    thread.join()
