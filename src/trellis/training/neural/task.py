"""What the loop knows of what it trains: a module, examples by number, a loss, and a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor, nn

from trellis.arrays import IntArray
from trellis.training.history import DevScores


class Task(Protocol):
    """Something to be learnt. The loop puts `module` on its device; what the others compute, they compute there."""

    @property
    def module(self) -> nn.Module:
        """All that is trained."""

    @property
    def lengths(self) -> IntArray:
        """The size of each training example, by which batches are made: its tokens, or subwords where those count."""

    @property
    def tokens(self) -> IntArray:
        """The tokens of each training example, for the report of the speed."""

    def loss(self, examples: IntArray) -> tuple[Tensor, int]:
        """The summed loss of these examples, and how many items it sums over (tokens or sentences).

        A step goes down the gradient of the sum over all its examples divided by all its items. Chance is drawn
        from the global generators of torch, NumPy or Python, which are seeded anew for each step.
        """

    def groups(self) -> Sequence[tuple[str, Sequence[nn.Parameter]]]:
        """All parameters that are trained, in groups by name; that called "head" has its own learning rate."""

    def validate(self) -> DevScores | None:
        """The score of the module as it stands; None where nothing is held out."""
