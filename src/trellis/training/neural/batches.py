"""What a network learns from, and which sentences go together in a step.

The loop knows about what it trains only what a `TrainingTask` tells. Batches are of similar length, within a budget of
tokens, in random order: a pure function of the lengths, the settings, the epoch and the window, so that a resumed
training needs to know only how many batches of the epoch are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from trellis.arrays import IntArray
from trellis.training.history import DevScores
from trellis.training.neural.settings import TrainingSettings, usual_batch_size

if TYPE_CHECKING:
    from torch import Tensor, nn

Gather = Callable[[Any], list[Any]]
"""Returns what each process passed to it, in the order of their ranks, in every process."""
_JITTER = 0.1
"""Lengths are compared as if they were up to this much longer, so that batches differ between epochs."""


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


class TrainingTask(Protocol):
    """A module, its examples and how it is scored. The loop puts `module` on its device; all methods compute there."""

    @property
    def module(self) -> nn.Module:
        """Everything that is trained."""

    def groups(self) -> Sequence[tuple[str, Sequence[nn.Parameter]]]:
        """All parameters that are trained, in groups by name; that called "head" has its own learning rate."""

    def windows(self, epoch: int, first: int = 0) -> Iterator[Examples]:
        """The examples of an epoch, counted from 0, as many at a time as fit into memory, from window `first` on.

        If all of them do, each epoch has the same single window: ``return iter([examples][first:])``.
        """

    def validate(self, gather: Gather) -> DevScores | None:
        """The score of the module in its current state; None if nothing is held out.

        All processes of a training ask for it at the same time; with `gather` they may share the work.
        """


def batches_of(lengths: IntArray, settings: TrainingSettings, epoch: int, window: int = 0) -> list[IntArray]:
    """The batches of one window of an epoch (both numbered from 0), as indices; each example is in exactly one."""
    rng = np.random.default_rng([settings.seed, epoch, window])
    by_length = np.argsort(lengths * (1 + _JITTER * rng.random(len(lengths))) + rng.random(len(lengths)))
    most = settings.batch_size or usual_batch_size(len(lengths))
    sizes, begin, batches = lengths[by_length], 0, []
    while begin < len(sizes):
        # As many as fit, `longest * examples <= batch_tokens`, and at least one.
        candidates = sizes[begin : begin + most]
        padded = np.maximum.accumulate(candidates) * np.arange(1, len(candidates) + 1)
        end = begin + max(1, int(np.searchsorted(padded, settings.batch_tokens, side="right")))
        batches.append(by_length[begin:end])
        begin = end
    return [batches[i] for i in rng.permutation(len(batches))]


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long a training will be; exact if there is one window, and an estimate if there are several.

    In the second epoch of a streamed corpus, other sentences share a window than in the first.
    """

    steps: int
    """Steps of the whole training."""
    batches: list[int]
    """Batches of each epoch."""


def forecast(windows: Iterable[IntArray], settings: TrainingSettings) -> Forecast:
    """The steps of a training, from the lengths of the examples in each window of its first epoch.

    Batches are drawn again in each epoch, so their number may differ.
    """
    steps, batches = 0, [0] * settings.passes
    for number, lengths in enumerate(windows):
        for epoch in range(settings.passes):
            count = len(batches_of(lengths, settings, epoch, number))
            batches[epoch] += count
            steps += -(-count // settings.accumulate)  # the last step of a window may have fewer batches
    return Forecast(steps, batches)
