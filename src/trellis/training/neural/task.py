"""What the loop knows about what it trains: a module, examples by number, a loss, and a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

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


class TrainingTask(Protocol):
    """Something to be learned. The loop puts `module` on its device; all methods compute there."""

    @property
    def module(self) -> nn.Module:
        """Everything that is trained."""

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

    def groups(self) -> Sequence[tuple[str, Sequence[nn.Parameter]]]:
        """All parameters that are trained, in groups by name; that called "head" has its own learning rate."""

    def validate(self, gather: Gather = alone) -> DevScores | None:
        """The score of the module in its current state; None if nothing is held out.

        All processes of a training ask for it together. They may share the work: `gather` gives each of them what all
        have found, in the order of their ranks.
        """
