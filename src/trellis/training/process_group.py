"""Processes that train one model together: each has its own sentences, and sums over sentences go over all of them.

    loss(w) = sum over processes of loss(w; sentences of the process), and likewise gradients and expected counts

An objective knows the sentences of its own process only; the group adds up. The first process runs the optimizer, which
asks for one sum after another, and it alone writes files. The others evaluate the weights that they are sent, until the
first has the final ones. Numbers travel through ``torch.distributed`` (gloo), between processes that torchrun started.
A sum is always the same for a given number of processes, and the same up to rounding for any other number.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.errors import ModelError, ProcessError, TrellisError
from trellis.training.lbfgs import Objective

T = TypeVar("T")
PATIENCE = timedelta(minutes=30)
"""The time that a process waits for another one that is alive but does not answer."""


class ProcessGroup:
    """The processes that train together, as one of them sees them. This one is alone, and needs no torch."""

    rank = 0
    """The number of this process; 0 is the first."""
    count = 1

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """The items for this process: every `count`-th, beginning with number `rank`."""
        return items

    def gather(self, item: T) -> list[T]:
        """The items of all processes, in the order of their ranks."""
        return [item]

    def add(self, array: FloatArray) -> FloatArray:
        """The sum of the arrays of all processes."""
        return array

    def add_by_key(self, keys: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """The different keys of all processes, in rising order, and the sum of the values of each."""
        return keys, values

    def all_or_none(self, compute: Callable[[], T]) -> T:
        """The result of `compute` in this process if it succeeds in all; else the error of the first that failed."""
        return compute()

    def run(self, objective: Objective, optimize: Callable[[Objective], tuple[FloatArray, T]]) -> tuple[FloatArray, T]:
        """The result of `optimize` in the first process, given an objective that adds up those of all processes."""
        return optimize(objective)

    def require_single(self, what: str) -> None:
        """Refuse what goes from sentence to sentence, which several processes cannot share."""
        if self.count > 1:
            raise ModelError(f"{what} cannot be shared by {self.count} processes: train in one process")


def sum_by_key(keys: Sequence[IntArray], values: Sequence[FloatArray]) -> tuple[IntArray, FloatArray]:
    """The different keys of all arrays, in rising order, and the sum of the values of each."""
    unique, places = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(unique))
    np.add.at(sums, places, np.concatenate(values))
    return unique, sums


SINGLE = ProcessGroup()
_FAILED, _DONE, _NEXT = -1.0, 0.0, 1.0  # sent after the weights: training failed, these are final, evaluate these


class GlooGroup(ProcessGroup):
    """Several processes that are connected by gloo."""

    def __init__(self) -> None:
        try:
            import torch
            from torch import distributed
        except ImportError:
            raise ImportError("training in several processes needs torch: pip install 'trellis-crf[neural]'") from None
        try:
            if distributed.is_initialized():  # by whoever called us
                self._group: Any = distributed.new_group(backend="gloo", timeout=PATIENCE)
            else:
                distributed.init_process_group("gloo", timeout=PATIENCE)
                self._group = distributed.group.WORLD
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ProcessError(f"the processes of this training do not find each other: {reason}") from None
        self._distributed, self._tensor = distributed, torch.from_numpy
        self.rank, self.count = distributed.get_rank(self._group), distributed.get_world_size(self._group)

    def close(self) -> None:
        """Leave the group: its threads, if they still ran when the interpreter ends, would abort the process."""
        self._distributed.destroy_process_group(self._group)
        self._group = None

    def share(self, items: Sequence[T]) -> Sequence[T]:
        return items[self.rank :: self.count]

    def gather(self, item: T) -> list[T]:
        items: list[Any] = [None] * self.count
        self._exchange("all_gather_object", items, item)
        return items

    def add(self, array: FloatArray) -> FloatArray:
        result = np.array(array, dtype=np.float64)
        self._exchange("all_reduce", self._tensor(result))
        return result

    def add_by_key(self, keys: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
        return sum_by_key(*zip(*self.gather((keys, values)), strict=True))

    def all_or_none(self, compute: Callable[[], T]) -> T:
        result = problem = None
        try:
            result = compute()
        except TrellisError as error:
            problem = error
        if self.add(np.array([0.0 if problem is None else 1.0]))[0]:
            raise next(error for error in self.gather(problem) if error is not None)
        return result  # type: ignore[return-value]

    def run(self, objective: Objective, optimize: Callable[[Objective], tuple[FloatArray, T]]) -> tuple[FloatArray, T]:
        if self.rank:
            return self._follow(objective), self.gather(None)[0]  # type: ignore[return-value]
        try:
            weights, rest = optimize(SummedObjective(self, objective))
        except ProcessError:
            raise
        except BaseException:
            with signals_deferred():
                self.broadcast(np.append(np.zeros(objective.size), _FAILED))
            raise
        with signals_deferred():
            self.broadcast(np.append(weights, _DONE))
            self.gather(rest)
        return weights, rest

    def _follow(self, objective: Objective) -> FloatArray:
        """Evaluate the weights that the first process sends until they are final. Signals are for the first process."""
        gradient, message = np.empty(objective.size), np.empty(objective.size + 1)
        with signals_deferred(forget=True):
            while True:
                self.broadcast(message)
                weights, word = message[:-1], message[-1]
                if word == _DONE:
                    return weights
                if word == _FAILED:
                    raise ProcessError("the training ended in the first process, which says why")
                self.reduce(objective, weights, gradient)

    def reduce(self, objective: Objective, weights: FloatArray, gradient: FloatArray) -> float:
        """The sums of losses and gradients, in the first process; a failure in one process is one in all."""
        loss = self.all_or_none(lambda: objective.evaluate(weights, gradient))
        sums = np.append(gradient, loss)
        self._exchange("reduce", self._tensor(sums), dst=0)
        gradient[:] = sums[:-1]
        return float(sums[-1])

    def broadcast(self, message: FloatArray) -> None:
        """Write the message of the first process over those of the others."""
        self._exchange("broadcast", self._tensor(message), src=0)

    def _exchange(self, operation: str, *arguments: Any, **options: int) -> None:
        try:
            getattr(self._distributed, operation)(*arguments, **options, group=self._group)
        except RuntimeError as error:
            # The first sentence of gloo's message, without the place in its source that comes before it.
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            reason = re.sub(r"^\[\S+\]\s*", "", line).partition(". ")[0]
            raise ProcessError(
                f"process {self.rank} of {self.count} lost another one of this training, which was killed or cannot be "
                f"reached any more ({reason})"
            ) from None


class SummedObjective:
    """In the first process: losses and gradients of all processes, added up."""

    def __init__(self, group: GlooGroup, objective: Objective) -> None:
        self._group, self._objective, self.size = group, objective, objective.size

    def evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        with signals_deferred():  # an exchange is never left half-way: the others would wait for the rest of it
            self._group.broadcast(np.append(weights, _NEXT))
            return self._group.reduce(self._objective, weights, gradient)


_CURRENT: ContextVar[ProcessGroup] = ContextVar("_CURRENT", default=SINGLE)


def current_group() -> ProcessGroup:
    """The processes that train together in this context."""
    return _CURRENT.get()


def are_several() -> bool:
    """Whether this process was started together with others, by torchrun or the like."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1") and "RANK" in os.environ


def is_first_process() -> bool:
    """Whether this process is alone, or the first of those that were started together: it writes and speaks."""
    return os.environ.get("RANK", "0") == "0"


def process_slice() -> slice:
    """Which items of a list are for this process, if those that were started together share them."""
    return slice(int(os.environ["RANK"]), None, int(os.environ["WORLD_SIZE"])) if are_several() else slice(None)


@contextmanager
def together() -> Iterator[ProcessGroup]:
    """The processes that were started with this one train one model together, each with its own sentences."""
    group = GlooGroup() if are_several() else SINGLE
    token = _CURRENT.set(group)
    try:
        yield group
    finally:
        _CURRENT.reset(token)
        if isinstance(group, GlooGroup):
            group.close()


@contextmanager
def signals_deferred(*, forget: bool = False) -> Iterator[None]:
    """Keep SIGINT and SIGTERM until the end of the block, or `forget` them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(handler := signal.getsignal(number)):
            handlers[number] = handler
            signal.signal(number, lambda heard, frame: received.append((heard, frame)))
    try:
        yield
    finally:
        for ours, handler in handlers.items():
            signal.signal(ours, handler)
    for heard, frame in received[:1] if not forget else []:
        handlers[heard](heard, frame)
