"""Processes that train one model together: each has its own sentences, and sums over sentences go over all of them.

    loss(w) = sum over processes of loss(w; sentences of the process), and so for gradients and expected counts

The first process leads: its optimizer asks for one sum after another, and it alone writes files. The others follow:
they compute their part for the weights they are sent, until the leader has the final ones. Numbers travel through
``torch.distributed`` (gloo), between processes that ``torchrun`` started, or whatever sets the same environment.

A training without others is a team of one, which needs neither torch nor any of this.
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
from typing import Any, Protocol, TypeVar

import numpy as np

from trellis.arrays import FloatArray
from trellis.errors import ModelError, ProcessError, TrellisError
from trellis.training.leaves import (
    LEAVES,
    Leaves,
    Node,
    Total,
    computed,
    leaves_of,
    own_nodes,
    own_places,
    passes,
    total_of,
)
from trellis.training.objective import Vector

T = TypeVar("T")
Own = Callable[[Vector, Vector], float] | Leaves
"""The loss of a process's own sentences for the weights, and its derivatives (or counts), which are written.

Given as leaves, the sum over all processes does not depend on how many there are.
"""

PATIENCE = timedelta(minutes=30)
"""How long a process waits for another one that is alive but does not answer."""


class Team(Protocol):
    """The processes that train together, as one of them sees them."""

    rank: int
    """Which of them this one is; 0 is the leader."""
    count: int
    makes_parts: bool
    """Whether sums are made of parts, so that they come out the same for any number of processes."""

    def share(self, items: Sequence[T], parts: int | None = None) -> Sequence[T]:
        """The items for this process: item i is in part ``i % parts``, and each process has some of the parts."""

    def gather(self, item: T) -> list[T]:
        """The items of all processes, in the order of their ranks."""

    def add(self, array: FloatArray) -> FloatArray:
        """The sum of the arrays of all processes."""

    def succeed(self, compute: Callable[[], T]) -> T:
        """What this process computes, if all of them succeed; else the error of the first that did not."""

    def total(self, weights: Vector, out: Vector, own: Own) -> float:
        """The leader's call: the loss of all sentences; the sum of what all processes wrote is in `out`."""

    def run(self, size: int, own: Own, lead: Callable[[], tuple[Vector, T]]) -> tuple[Vector, T]:
        """The result of `lead` in the leader, for all processes; the others follow it until then."""


class Alone:
    """A team of one."""

    rank, count = 0, 1

    def __init__(self, *, makes_parts: bool = False) -> None:
        self.makes_parts = makes_parts

    def share(self, items: Sequence[T], parts: int | None = None) -> Sequence[T]:
        """All of them."""
        return items

    def gather(self, item: T) -> list[T]:
        """The item."""
        return [item]

    def add(self, array: FloatArray) -> FloatArray:
        """The array."""
        return array

    def succeed(self, compute: Callable[[], T]) -> T:
        """The result."""
        return compute()

    def total(self, weights: Vector, out: Vector, own: Own) -> float:
        """The loss."""
        if callable(own):
            return own(weights, out)
        rooms = [out]
        total = computed(own, Node(0, own.count), weights, rooms)
        return _written(total, out)

    def run(self, size: int, own: Own, lead: Callable[[], tuple[Vector, T]]) -> tuple[Vector, T]:
        """The result."""
        return lead()


def _written(total: Total, out: Vector) -> float:
    if total.out is not out:
        out[:] = total.out
    return total.loss


_FAILED, _DONE, _NEXT = -1.0, 0.0, 1.0  # what the leader says with the weights: it gave up, they are final, go on


class Processes:
    """Several processes that are connected by gloo."""

    makes_parts = True

    def __init__(self, group: Any) -> None:
        from torch import distributed

        self._group, self._distributed = group, distributed
        self.rank, self.count = distributed.get_rank(group), distributed.get_world_size(group)

    def close(self) -> None:
        """Leave the group: its threads, if they still ran when the interpreter ends, would abort the process."""
        self._distributed.destroy_process_group(self._group)
        self._group = None

    def share(self, items: Sequence[T], parts: int | None = None) -> Sequence[T]:
        """The items for this process."""
        count = leaves_among(self.count, parts)
        own = set(leaves_of(self.rank, self.count, count))
        return [item for i, item in enumerate(items) if i % count in own]

    def gather(self, item: T) -> list[T]:
        """The items of all processes, in the order of their ranks."""
        items: list[Any] = [None] * self.count
        self._talk(lambda: self._distributed.all_gather_object(items, item, group=self._group))
        return items

    def add(self, array: FloatArray) -> FloatArray:
        """The sum of the arrays of all processes."""
        import torch

        result = np.array(array, dtype=np.float64)
        tensor = torch.from_numpy(result)
        self._talk(lambda: self._distributed.all_reduce(tensor, group=self._group))
        return result

    def total(self, weights: Vector, out: Vector, own: Own) -> float:
        """The leader's call: the loss of all sentences; the sum of what all processes wrote is in `out`."""
        with held_back():  # an exchange is never left half-way: the others would wait for the rest of it
            self._send(weights, _NEXT)
            return self._exchange(weights, out, own)

    def run(self, size: int, own: Own, lead: Callable[[], tuple[Vector, T]]) -> tuple[Vector, T]:
        """The result of `lead` in the leader, for all processes; the others follow it until then."""
        if self.rank:
            weights = self._follow(size, own)
            return weights, self.gather(None)[0]  # type: ignore[return-value]
        try:
            weights, rest = lead()
        except ProcessError:
            raise
        except BaseException:
            with held_back():
                self._send(np.zeros(size), _FAILED)
            raise
        with held_back():
            self._send(weights, _DONE)
            self.gather(rest)
        return weights, rest

    def _follow(self, size: int, own: Own) -> Vector:
        """Compute what the leader asks for until it has the final weights. Signals are for the leader."""
        with held_back(forget=True):
            out = np.empty(size)
            while True:
                weights, word = self._receive(size)
                if word == _DONE:
                    return weights
                if word == _FAILED:
                    raise ProcessError("the training ended in the first process, which says why")
                self._exchange(weights, out, own)

    def _exchange(self, weights: Vector, out: Vector, own: Own) -> float:
        """Compute a part and add up all parts in the leader; a failure in one process is one in all."""
        if not callable(own):
            return self._exchange_leaves(weights, out, own)
        import torch

        loss = self.succeed(lambda: own(weights, out))
        both = torch.from_numpy(np.append(out, loss))
        self._talk(lambda: self._distributed.reduce(both, dst=0, group=self._group))
        out[:] = both.numpy()[:-1]
        return float(both[-1])

    def _exchange_leaves(self, weights: Vector, out: Vector, own: Leaves) -> float:
        """The same for leaves: along a tree of processes, each puts the sums of another one and its own together."""
        rooms = [out]
        nodes = list(own_nodes(own_places(self.rank, self.count, own.count), own.count))
        totals = self.succeed(lambda: {node: computed(own, node, weights, rooms) for node in nodes})
        for one in passes(self.count, own.count):
            if self.rank == one.sender:
                for node in one.sent:
                    self._pass_on(totals[node], one.receiver)
                return 0.0
            if self.rank == one.receiver:
                totals |= {node: self._take(one.sender, len(out)) for node in one.sent}
                totals = {node: total_of(node, totals.get, rooms) for node in one.kept}
        return _written(totals[Node(0, own.count)], out)

    def succeed(self, compute: Callable[[], T]) -> T:
        """What this process computes, if all of them succeed; else the error of the first that did not."""
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

    def _pass_on(self, total: Total, rank: int) -> None:
        """Send a sum to another process."""
        import torch

        tensor = torch.from_numpy(np.append(total.out, total.loss))
        self._talk(lambda: self._distributed.send(tensor, dst=rank, group=self._group))

    def _take(self, rank: int, size: int) -> Total:
        """The sum that another process sends."""
        import torch

        tensor = torch.empty(size + 1, dtype=torch.float64)
        self._talk(lambda: self._distributed.recv(tensor, src=rank, group=self._group))
        array = tensor.numpy()
        return Total(float(array[-1]), array[:-1])

    def _send(self, weights: Vector, word: float) -> None:
        import torch

        message = torch.from_numpy(np.append(weights, word))
        self._talk(lambda: self._distributed.broadcast(message, src=0, group=self._group))

    def _receive(self, size: int) -> tuple[Vector, float]:
        import torch

        message = torch.empty(size + 1, dtype=torch.float64)
        self._talk(lambda: self._distributed.broadcast(message, src=0, group=self._group))
        array = message.numpy()
        return array[:-1], float(array[-1])

    def _talk(self, exchange: Callable[[], object]) -> None:
        try:
            exchange()
        except RuntimeError as error:
            raise ProcessError(
                f"process {self.rank} of {self.count} lost another one of this training, which was killed or cannot be "
                f"reached any more ({_reason(error)})"
            ) from None


def _reason(error: RuntimeError) -> str:
    """The first sentence of gloo's message, without the place in its source that comes before it."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return re.sub(r"^\[\S+\]\s*", "", line).partition(". ")[0]


ALONE = Alone()
_CURRENT: ContextVar[Team] = ContextVar("_CURRENT", default=ALONE)


def current() -> Team:
    """The processes that train together in this context."""
    return _CURRENT.get()


def are_several() -> bool:
    """Whether this process was started together with others, by torchrun or the like."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1") and "RANK" in os.environ


def was_started() -> bool:
    """Whether torchrun or the like started this process, be it alone."""
    return bool(os.environ.get("WORLD_SIZE")) and "RANK" in os.environ


def leads() -> bool:
    """Whether this process is alone, or the first of those that were started together: it writes and speaks."""
    return os.environ.get("RANK", "0") == "0"


def own_share() -> slice:
    """Which items of a list are for this process, if those that were started together share them."""
    return slice(int(os.environ["RANK"]), None, int(os.environ["WORLD_SIZE"])) if are_several() else slice(None)


def leaves_among(processes: int, parts: int | None) -> int:
    """In how many parts the sentences of some processes are: as many as asked for, or enough for all of them."""
    if parts is not None:
        return parts
    count = LEAVES
    while count < processes:
        count *= 2
    return count


@contextmanager
def together() -> Iterator[Team]:
    """The processes that were started with this one train one model together, each with its own sentences."""
    team = Processes(_connected()) if are_several() else Alone(makes_parts=was_started())
    token = _CURRENT.set(team)
    try:
        yield team
    finally:
        _CURRENT.reset(token)
        if isinstance(team, Processes):
            team.close()


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
def held_back(*, forget: bool = False) -> Iterator[None]:
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


def refuse_several(team: Team, what: str) -> None:
    """Some trainings go sentence by sentence, which several processes cannot share."""
    if team.count > 1:
        raise ModelError(f"{what} cannot be shared by {team.count} processes: train in one process")
