"""Sums over sentences that come out the same, to the last bit, for any number of processes.

The sentences are dealt out to `count` leaves of a binary tree, each of which is summed by itself; then neighbours are
added, and their sums, up to the root. Sentence i belongs to leaf ``i % count``, and in the tree those of the same
remainder by 2, 4, ... lie together:

    0 4   2 6   1 5   3 7        of 8 leaves: (((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)))

A process has neighbouring leaves, adds up what lies together among them, and sends these few sums to a neighbour, which
adds them to its own and passes them on: no process gets sums from more than log2 of all others. Who computes a sum does
not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from trellis.arrays import IntArray
from trellis.errors import ModelError
from trellis.training.objective import Vector

LEAVES = 8
"""How many there are unless somebody asks for more."""


class Leaves(Protocol):
    """A loss, or counts, as a sum over leaves."""

    count: int
    """How many leaves there are, a power of two."""

    def evaluate(self, leaf: int, weights: Vector, out: Vector) -> float:
        """The loss of a leaf, of this process; its derivatives are written to `out`."""


class Node(NamedTuple):
    """The leaves from one place in the tree to another."""

    first: int
    last: int

    @property
    def halves(self) -> tuple[Node, Node]:
        """The nodes below."""
        middle = (self.first + self.last) // 2
        return Node(self.first, middle), Node(middle, self.last)


class Total(NamedTuple):
    """The sum of a node: of the losses and of what was written."""

    loss: float
    out: Vector


def leaves_of(rank: int, processes: int, count: int) -> list[int]:
    """The leaves of a process, in their order in the tree."""
    if count < processes:
        raise ModelError(f"parts = {count} cannot be shared by {processes} processes: expected at least as many parts")
    places = own_places(rank, processes, count)
    return _reversed_bits(count)[places.first : places.last]


def own_places(rank: int, processes: int, count: int) -> Node:
    """Where the leaves of a process stand in the tree."""
    seat = _seats(processes)[rank]
    return _places(seat, seat + 1, processes, count)


def _seats(processes: int) -> list[int]:
    """Where each process stands among all in the order of the tree; read the other way, it is the same list."""
    if processes & (processes - 1):
        return list(range(processes))
    return _reversed_bits(processes)  # then a process has the sentences rank, rank + processes, ...


def _places(first: int, last: int, processes: int, count: int) -> Node:
    """The leaves of the processes on neighbouring seats."""
    return Node(first * count // processes, min(last, processes) * count // processes)


def numbers_of(leaves: list[int], count: int, sentences: int) -> IntArray:
    """The numbers, among the sentences of all processes, of those of a process that has these leaves."""
    i = np.arange(sentences)
    return i // len(leaves) * count + np.sort(np.array(leaves, dtype=np.int64))[i % len(leaves)]


def own_nodes(places: Node, count: int) -> Iterator[Node]:
    """The largest nodes of the tree between these places."""
    waiting = [Node(0, count)]
    while waiting:
        node = waiting.pop()
        if places.first <= node.first and node.last <= places.last:
            yield node
        elif node.first < places.last and places.first < node.last:
            waiting += reversed(node.halves)


class Pass(NamedTuple):
    """A process gives its sums to another one, and has done its part."""

    sender: int
    receiver: int
    sent: list[Node]
    kept: list[Node]
    """What the receiver has after that: the largest nodes of what both had."""


def passes(processes: int, count: int) -> Iterator[Pass]:
    """Who sends what to whom, in this order, until the first process has the sum of all."""
    ranks, step = _seats(processes), 1
    while step < processes:
        for seat in range(0, processes - step, 2 * step):
            sent, kept = (
                list(own_nodes(_places(first, seat + 2 * step, processes, count), count))
                for first in (seat + step, seat)
            )
            yield Pass(ranks[seat + step], ranks[seat], sent, kept)
        step *= 2


def total_of(node: Node, find: Callable[[Node], Total | None], rooms: list[Vector]) -> Total:
    """The sum of a node from the sums of nodes below that can be found; arrays that are free again go to `rooms`."""
    found = find(node)
    if found is not None:
        return found
    left, right = (total_of(half, find, rooms) for half in node.halves)
    np.add(left.out, right.out, out=left.out)
    rooms.append(right.out)
    return Total(left.loss + right.loss, left.out)


def computed(own: Leaves, node: Node, weights: Vector, rooms: list[Vector]) -> Total:
    """The sum of a node of this process, in one of these arrays if there are any left."""
    order = _reversed_bits(own.count)

    def find(node: Node) -> Total | None:
        if node.last - node.first > 1:
            return None
        out = rooms.pop() if rooms else np.empty_like(weights)
        return Total(own.evaluate(order[node.first], weights, out), out)

    return total_of(node, find, rooms)


def _reversed_bits(count: int) -> list[int]:
    """0 .. count - 1, each number with its bits from last to first; `count` is a power of two."""
    order = [0]
    while len(order) < count:
        order = [2 * i for i in order] + [2 * i + 1 for i in order]
    return order
