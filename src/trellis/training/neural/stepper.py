"""One step of descent: the gradients of some batches, shortened if too long, applied at the scheduled rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from trellis.arrays import IntArray
from trellis.training.neural.machine import Machine
from trellis.training.neural.optimizer import NativeAdam, Schedule, build_optimizer, set_learning_rate
from trellis.training.neural.settings import TrainingSettings
from trellis.training.neural.task import Examples, Trainee


class Diverged(Exception):  # noqa: N818 - it ends a training, which may still have a result
    """The loss or its gradient is not finite any more."""


class Taken(NamedTuple):
    """What a step was made of: its summed loss, over how many items, the gradient's length, the learning rate."""

    loss: float
    items: int
    gradient_norm: float
    learning_rate: float


class Stepper:
    """Takes steps; everything it does is a function of weights, optimizer state and the step's number."""

    def __init__(self, task: Trainee, settings: TrainingSettings, machine: Machine, schedule: Schedule) -> None:
        self._machine, self._schedule = machine, schedule
        self._clip = math.inf if settings.clip is None else settings.clip
        self.optimizer = build_optimizer(task, settings)
        self._native = None if machine.scaler is not None else NativeAdam.of(self.optimizer)
        self._parameters = [p for group in self.optimizer.param_groups for p in group["params"]]

    def take(self, number: int, examples: Examples, batches: Sequence[IntArray]) -> Taken:
        """Take step `number`, counted from 0, on these batches of the examples."""
        self._machine.seed(number)
        rate = set_learning_rate(self.optimizer, self._schedule.factor(number))
        total, items, scale = self._add_gradients(examples, batches)
        if self._machine.scaler is not None:
            self._machine.scaler.unscale_(self.optimizer)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        loss, norm = self._figures(total, gradients)
        norm *= scale
        self._refuse_nan(number, rate, loss / max(items, 1), norm)
        self._apply(gradients, scale if norm <= self._clip else scale * self._clip / norm)
        return Taken(loss, items, norm, rate)

    def _figures(self, total: Tensor, gradients: list[Tensor]) -> tuple[float, float]:
        """The loss and the length of the gradient: the only place in a step that waits for the device."""
        if self._native is not None:
            return total.item(), self._native.gradient_length(gradients)
        loss, norm = torch.stack((total, _norm(gradients, total))).tolist()
        return loss, norm

    def _add_gradients(self, examples: Examples, batches: Sequence[IntArray]) -> tuple[Tensor, int, float]:
        """The summed loss and its items, and what the gradients must be multiplied by to be those of the mean.

        A single batch is divided before its backward pass, which saves one pass over all gradients.
        """
        for p in self._parameters:
            p.grad = None
        alone = len(batches) == 1 and self._machine.processes == 1
        losses, items = [], 0
        for batch in batches:
            with self._machine.autocast():
                loss, count = examples.loss(self._machine.share(batch))
            if loss.requires_grad:
                self._machine.backward(loss / max(count, 1) if alone else loss)
            losses.append(loss.detach())
            items += count
        total = losses[0] if alone else torch.stack(losses).sum()
        if self._machine.processes > 1:
            total, items = self._machine.reduce(self._parameters, total, items)
        return total, items, 1.0 if alone else 1 / max(items, 1)

    def _apply(self, gradients: list[Tensor], factor: float) -> None:
        """Take the step along the gradients times the factor."""
        if self._native is not None:
            self._native.step(factor)
            return
        if factor != 1.0 and gradients:
            torch._foreach_mul_(gradients, factor)
        if self._machine.scaler is None:
            self.optimizer.step()
        else:
            self._machine.scaler.step(self.optimizer)
            self._machine.scaler.update()

    def _refuse_nan(self, number: int, rate: float, loss: float, norm: float) -> None:
        # In half precision the scaler skips steps whose gradient overflows, and continues with smaller numbers.
        if math.isfinite(loss) and (math.isfinite(norm) or self._machine.scaler is not None):
            return
        what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's length is {norm}"
        raise Diverged(
            f"training diverged at step {number + 1}: {what}, at learning rate {rate:.3g}; "
            "lower the learning rate, lengthen its warm-up, or lower clip"
        )


def _norm(gradients: list[Tensor], like: Tensor) -> Tensor:
    """The length of all gradients as one vector."""
    if not gradients:
        return torch.zeros_like(like)
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    return norm.to(like)
