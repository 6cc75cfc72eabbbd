"""Averages of the weights over steps, which generalise better than the last weights.

ema   a <- d a + (1 - d) w     with d rising to its setting: min(d, (n + 1) / (n + 10)) after n steps
swa   a <- a + (w - a) / (n + 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from trellis.training.neural.settings import TrainingSettings


class Average:
    """The average of a module's trained parameters; with averaging "none", it never begins."""

    def __init__(self, module: nn.Module, settings: TrainingSettings) -> None:
        self._kind, self._start, self._decay = settings.averaging, settings.averaging_start - 1, settings.ema_decay
        named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._names, self._weights = list(named), [p.detach() for p in named.values()]
        self._average: list[Tensor] = []
        self.count = 0

    def step(self, epoch: int) -> None:
        """Include the weights after a step of this epoch, counted from 0."""
        if self._kind == "none" or epoch < self._start:
            return
        if not self._average:
            self._average = [w.clone() for w in self._weights]
        else:
            torch._foreach_lerp_(self._average, self._weights, self._share())
        self.count += 1

    def _share(self) -> float:
        """How far the average moves towards the weights."""
        if self._kind == "swa":
            return 1 / (self.count + 1)
        return 1 - min(self._decay, (self.count + 1) / (self.count + 10))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The module with averaged weights, inside the context."""
        if not self._average:
            yield
            return
        own = [w.clone() for w in self._weights]
        torch._foreach_copy_(self._weights, self._average)
        try:
            yield
        finally:
            torch._foreach_copy_(self._weights, own)

    def state(self) -> dict[str, Tensor]:
        """The averages by parameter; none before the first step that counts."""
        return dict(zip(self._names, self._average, strict=True)) if self._average else {}

    def restore(self, state: Mapping[str, Tensor], count: int) -> None:
        """Continue from `state` after this many steps."""
        self._average = [state[name].to(w) for name, w in zip(self._names, self._weights, strict=True)] if state else []
        self.count = count
