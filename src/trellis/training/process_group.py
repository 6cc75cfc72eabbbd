"""Processes that train one model together: each has its own sentences, and sums over sentences go over all of them.

    loss(w) = sum over processes of loss(w; sentences of the process), and likewise gradients and expected counts

The first process runs the optimizer, which asks for one sum after another, and it alone writes files. The others
compute the loss of their sentences for the weights they are sent, until the first has the final ones. Numbers travel
through ``torch.distributed`` (gloo), between processes that ``torchrun`` started.
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

from trellis.arrays import FloatArray
from trellis.errors import ModelError, ProcessError, TrellisError
from trellis.training.objective import Vector

T = TypeVar("T")
ShardLoss = Callable[[Vector, Vector], float]
"""The loss of a process's sentences for the weights; its gradient, or expected counts, are written to the second."""

PATIENCE = timedelta(minutes=30)
"""How long a process waits for another one that is alive but does not answer."""


class ProcessGroup:
    """The processes that train together, as one of them sees them; this one is alone, and needs no torch."""

    rank = 0
    """Which of them this one is; 0 is the first."""
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

    def all_or_none(self, compute: Callable[[], T]) -> T:
        """What this process computes, if all of them succeed; else the error of the first that did not."""
        return compute()

    def sum(self, shard_loss: ShardLoss, weights: Vector, out: Vector) -> float:
        """In the first process: the sum of all losses, with the sum of what all processes wrote in `out`."""
        return shard_loss(weights, out)

    def run(self, size: int, shard_loss: ShardLoss, optimize: Callable[[], tuple[Vector, T]]) -> tuple[Vector, T]:
        """The result of `optimize`, which runs in the first process; the others compute the losses it asks for."""
        return optimize()

    def require_single(self, what: str) -> None:
        """Refuse what goes from sentence to sentence, which several processes cannot share."""
        if self.count > 1:
            raise ModelError(f"{what} cannot be shared by {self.count} processes: train in one process")


SINGLE = ProcessGroup()
_FAILED, _DONE, _NEXT = -1.0, 0.0, 1.0  # sent after the weights: training failed, these are final, evaluate these


class GlooGroup(ProcessGroup):
    """Several processes that are connected by gloo."""

    def __init__(self, group: Any) -> None:
        from torch import distributed

        self._group, self._distributed = group, distributed
        self.rank, self.count = distributed.get_rank(group), distributed.get_world_size(group)

    def close(self) -> None:
        """Leave the group: its threads, if they still ran when the interpreter ends, would abort the process."""
        self._distributed.destroy_process_group(self._group)
        self._group = None

    def share(self, items: Sequence[T]) -> Sequence[T]:
        return items[self.rank :: self.count]

    def gather(self, item: T) -> list[T]:
        items: list[Any] = [None] * self.count
        self._exchange(lambda: self._distributed.all_gather_object(items, item, group=self._group))
        return items

    def add(self, array: FloatArray) -> FloatArray:
        import torch

        result = np.array(array, dtype=np.float64)
        tensor = torch.from_numpy(result)
        self._exchange(lambda: self._distributed.all_reduce(tensor, group=self._group))
        return result

    def all_or_none(self, compute: Callable[[], T]) -> T:
        result: T | None = None
        problem = None
        try:
            result = compute()
        except TrellisError as error:
            problem = error
        failures = self.add(np.array([0.0 if problem is None else 1.0]))
        if failures[0]:
            raise next(error for error in self.gather(problem) if error is not None)
        return result  # type: ignore[return-value]

    def sum(self, shard_loss: ShardLoss, weights: Vector, out: Vector) -> float:
        with signals_deferred():  # an exchange is never left half-way: the others would wait for the rest of it
            self._broadcast(np.append(weights, _NEXT))
            return self._reduce(shard_loss, weights, out)

    def run(self, size: int, shard_loss: ShardLoss, optimize: Callable[[], tuple[Vector, T]]) -> tuple[Vector, T]:
        if self.rank:
            weights = self._follow(size, shard_loss)
            return weights, self.gather(None)[0]  # type: ignore[return-value]
        try:
            weights, rest = optimize()
        except ProcessError:
            raise
        except BaseException:
            with signals_deferred():
                self._broadcast(np.append(np.zeros(size), _FAILED))
            raise
        with signals_deferred():
            self._broadcast(np.append(weights, _DONE))
            self.gather(rest)
        return weights, rest

    def _follow(self, size: int, shard_loss: ShardLoss) -> Vector:
        """Evaluate the weights that the first process sends until they are final. Signals are for the first process."""
        with signals_deferred(forget=True):
            out = np.empty(size)
            while True:
                message = self._broadcast(np.empty(size + 1))
                weights, word = message[:-1], message[-1]
                if word == _DONE:
                    return weights
                if word == _FAILED:
                    raise ProcessError("the training ended in the first process, which says why")
                self._reduce(shard_loss, weights, out)

    def _reduce(self, shard_loss: ShardLoss, weights: Vector, out: Vector) -> float:
        """The sums of loss and `out` over all processes, in the first one; a failure in one is one in all."""
        import torch

        loss = self.all_or_none(lambda: shard_loss(weights, out))
        both = torch.from_numpy(np.append(out, loss))
        self._exchange(lambda: self._distributed.reduce(both, dst=0, group=self._group))
        out[:] = both.numpy()[:-1]
        return float(both[-1])

    def _broadcast(self, message: Vector) -> Vector:
        """The message of the first process, written over those of the others."""
        import torch

        self._exchange(lambda: self._distributed.broadcast(torch.from_numpy(message), src=0, group=self._group))
        return message

    def _exchange(self, exchange: Callable[[], object]) -> None:
        try:
            exchange()
        except RuntimeError as error:
            # The first sentence of gloo's message, without the place in its source that comes before it.
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            reason = re.sub(r"^\[\S+\]\s*", "", line).partition(". ")[0]
            raise ProcessError(
                f"process {self.rank} of {self.count} lost another one of this training, which was killed or cannot be "
                f"reached any more ({reason})"
            ) from None


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
    group = GlooGroup(_connected()) if are_several() else ProcessGroup()
    token = _CURRENT.set(group)
    try:
        yield group
    finally:
        _CURRENT.reset(token)
        if isinstance(group, GlooGroup):
            group.close()


def _connected() -> Any:
    """A group of all processes that sends arrays in main memory."""
    try:
        from torch import distributed
    except ImportError:
        raise ImportError("training in several processes needs torch: pip install 'trellis-crf[neural]'") from None
    try:
        if distributed.is_initialized():  # by whoever called us
            return distributed.new_group(backend="gloo", timeout=PATIENCE)
        distributed.init_process_group("gloo", timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ProcessError(f"the processes of this training do not find each other: {reason}") from None
    return distributed.group.WORLD


@contextmanager
def signals_deferred(*, forget: bool = False) -> Iterator[None]:
    """Keep SIGINT and SIGTERM until the end of the block, or `forget` them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, lambda heard, frame: came.append((heard, frame)))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
    for heard, frame in came[:1] if not forget else []:
        handler = before[signal.Signals(heard)]
        if callable(handler):
            handler(heard, frame)
