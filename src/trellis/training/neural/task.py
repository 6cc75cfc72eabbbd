"""What the loop knows about what it trains: a module, examples by number (all or a window), a loss, and a score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor, nn

from trellis.arrays import IntArray
from trellis.training.history import DevScores


class Gather(Protocol):
    """What all processes found, in the order of their ranks."""

    def __call__(self, item: Any, /) -> list[Any]:
        """The items of all of them."""


def alone(item: Any) -> list[Any]:
    """That of the only one."""
    return [item]


class Examples(Protocol):
    """Training examples that are in memory, by number."""

    @property
    def lengths(self) -> IntArray:
        """The size of each training example, used to make batches: its tokens, or subwords if those count."""

    @property
    def tokens(self) -> IntArray:
        """The tokens of each training example, for the report of the speed."""

    def loss(self, examples: IntArray) -> tuple[Tensor, int]:
        """The summed loss of these examples, and how many items it sums over (tokens or sentences).

        A step follows the gradient of the sum over all its examples divided by all its items. Random numbers come
        from the global generators of torch, NumPy or Python, which are seeded again for each step.
        """


class Trainee(Protocol):
    """What is learned. The loop puts `module` on its device; all methods compute there."""

    @property
    def module(self) -> nn.Module:
        """Everything that is trained."""

    def groups(self) -> Sequence[tuple[str, Sequence[nn.Parameter]]]:
        """All parameters that are trained, in groups by name; that called "head" has its own learning rate."""

    def validate(self, gather: Gather = alone) -> DevScores | None:
        """The score of the module in its current state; None if nothing is held out.

        All processes of a training ask for it together. They may share the work: `gather` gives each of them what all
        have found, in the order of their ranks.
        """


class TrainingTask(Trainee, Examples, Protocol):
    """Something to be learned from examples that are all in memory."""


@runtime_checkable
class StreamedExamples(Protocol):
    """Training examples that are read anew in each epoch, a window at a time."""

    def windows(self, epoch: int, first: int = 0) -> Iterator[Examples]:
        """The windows of an epoch, counted from 0, in its order, from number `first` on."""

    def window_lengths(self) -> Iterator[IntArray]:
        """The `lengths` of the windows of the first epoch; from these, the steps of a training are estimated."""


class StreamedTask(Trainee, StreamedExamples, Protocol):
    """Something to be learned from more examples than fit into memory."""


def windows_of(task: TrainingTask | StreamedTask, epoch: int, first: int) -> Iterator[Examples]:
    """What an epoch learns from: a window after the other, from number `first` on; in memory, all is one window."""
    if isinstance(task, StreamedExamples):
        return task.windows(epoch, first)
    return iter([task][first:])


def lengths_of(task: TrainingTask | StreamedTask) -> Iterator[IntArray]:
    """The lengths of the examples of each window."""
    found = task.window_lengths() if isinstance(task, StreamedExamples) else iter([task.lengths])
    return (np.asarray(lengths, dtype=np.int64) for lengths in found)
