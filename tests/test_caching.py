"""Attributes that are computed once, by as many threads as want them, and across forks."""

import os
import threading
import time

from trellis.caching import cached


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
