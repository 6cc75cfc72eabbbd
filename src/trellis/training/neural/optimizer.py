"""One step of training: the gradients of some batches, shortened if too long, applied at the scheduled rate.

The learning rate over steps, as a factor of its peak:

warm-up    (k + 1) / W                              steps k = 0 .. W - 1
constant   1
linear     (K - k) / (K - W)                        steps k = W .. K - 1
cosine     (1 + cos(pi (k - W) / (K - W))) / 2
plateau    factor^n, n: how often `patience` epochs in a row were not better

K is the number of steps of the whole training; W may be a share of it. A training that is resumed with more epochs
uses the rates of the new K and W for its further steps, so that a linear or cosine schedule jumps up to the rate that
a training of the new length has at that step. With the constant or plateau schedule, and W a number of steps, rates
do not depend on K: more epochs lead to the same weights, bit for bit, as if they had been set from the start.

Averages of the weights over steps generalise better than the last weights:

ema   a <- d a + (1 - d) w     with d rising to its setting: min(d, (n + 1) / (n + 10)) after n steps
swa   a <- a + (w - a) / (n + 1)
"""

from __future__ import annotations

import atexit
import math
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from trellis import _native
from trellis.arrays import IntArray, plain_tensor
from trellis.errors import ConfigError, ModelError
from trellis.training.neural.batches import Examples, TrainingTask
from trellis.training.neural.settings import TrainingSettings
from trellis.training.process_group import are_several

try:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import gather_object
except ImportError:
    raise ImportError("training a neural model needs accelerate: pip install 'trellis-crf[neural]'") from None

_MODES = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}


class Machine:
    """The device, and the processes that share the work."""

    def __init__(self, settings: TrainingSettings) -> None:
        self._accelerator = _accelerator(settings.precision)
        self._seed = settings.seed
        self.device: torch.device = self._accelerator.device
        self.precision = str(self._accelerator.mixed_precision)
        self.rank, self.processes = self._accelerator.process_index, self._accelerator.num_processes
        self.is_main: bool = self._accelerator.is_main_process
        if are_several() and self.processes == 1:
            raise ModelError("this process was started together with others, but accelerate finds it alone")
        self.scaler: Any = self._accelerator.scaler
        if self.processes > 1:
            atexit.register(_leave_group)

    def autocast(self) -> AbstractContextManager[Any]:
        """The context in which a loss is computed."""
        return nullcontext() if self.precision == "no" else self._accelerator.autocast()

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of the loss to those of the parameters."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def share(self, examples: Any) -> Any:
        return examples if self.processes == 1 else examples[self.rank :: self.processes]

    def reduce(self, parameters: list[nn.Parameter], loss: Tensor, items: int) -> tuple[Tensor, int]:
        """Add up gradients, losses and items over all processes."""
        for p in parameters:  # A process whose share did not use a parameter still takes part in its sum.
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = self._accelerator.reduce(torch.cat([gradient.reshape(-1) for gradient in gradients]), "sum")
        pieces = flat.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(gradients, [piece.view_as(g) for piece, g in zip(pieces, gradients, strict=True)])
        sums = torch.stack((loss.double(), torch.tensor(float(items), dtype=torch.float64, device=loss.device)))
        sums = self._accelerator.reduce(sums, "sum")
        return sums[0].to(loss), int(sums[1])

    def gather(self, item: Any) -> list[Any]:
        return [item] if self.processes == 1 else list(gather_object([item]))

    def seed(self, step: int) -> None:
        """Randomness as a function of seed, step and process, so that no state of it has to be saved."""
        seed_all(zlib.crc32(f"{self._seed} {step} {self.rank}".encode()))


def _leave_group() -> None:
    """Leave the group that accelerate made: threads of it that still ran when the interpreter ends could abort it."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def seed_all(seed: int) -> None:
    """Seed torch, NumPy and Python; ``torch.manual_seed`` takes 300 microseconds, this takes ten."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    np.random.seed(seed)
    random.seed(seed)


@contextmanager
def random_state_preserved() -> Iterator[None]:
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def _accelerator(precision: str) -> Accelerator:
    mode = _MODES.get(precision)
    if precision == "auto" and torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False):
        mode = "bf16"
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != (mode or "no"):
        # accelerate allows one precision per process; a second model may need another.
        AcceleratorState._reset_state(reset_partial_state=False)
    kinds = (getattr(torch, name, None) for name in ("cuda", "xpu", "npu"))
    has_device = any(kind is not None and kind.is_available() for kind in kinds)
    try:
        # Of processes without a device, accelerate makes a group only if it is told that they are to use the CPU.
        accelerator = Accelerator(mixed_precision=mode, cpu=are_several() and not has_device)
    except ValueError as error:
        raise ConfigError(f"precision {precision!r} does not work on this device: {error}") from None
    if mode == "fp16" and accelerator.scaler is None:
        raise ConfigError(f"precision 'fp16' needs a GPU, the device is {accelerator.device}: use bf16 or fp32")
    return accelerator


_FUSED_ON = ("cpu", "cuda", "xpu", "mps")


def build_optimizer(task: TrainingTask, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The optimizer over all parameters that are trained; each group remembers its `peak` learning rate."""
    members: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameters in task.groups():
        head_rate = settings.head_learning_rate if name == "head" else None
        peak = settings.peak if head_rate is None else head_rate
        for p in parameters:
            if p.requires_grad:
                # Weights of matrices decay, those of vectors (biases, norms) do not.
                members.setdefault((peak, settings.weight_decay if p.ndim > 1 else 0.0), []).append(p)
    trained = [p for group in members.values() for p in group]
    if not trained:
        raise ModelError("there is nothing to train: no parameter of the module asks for a gradient")
    known = {id(p) for p in trained}
    forgotten = [name for name, p in task.module.named_parameters() if p.requires_grad and id(p) not in known]
    if forgotten:
        raise ModelError(f"parameters in no group would never be trained: {', '.join(forgotten)}")
    groups = [
        {"params": parameters, "peak": peak, "lr": peak, "weight_decay": decay}
        for (peak, decay), parameters in members.items()
    ]
    # One pass over the weights instead of a dozen: several times faster on the CPU.
    fused = all(p.device.type in _FUSED_ON and p.is_floating_point() for p in trained)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.peak, momentum=settings.momentum, fused=fused)
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=settings.peak, fused=fused)


def optimizer_state(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> dict[str, Tensor]:
    """The optimizer's state of each parameter, as ``parameter/what``; `names` are by the parameter's id."""
    return {
        f"{names[id(parameter)]}/{what}": value
        for parameter, entries in optimizer.state.items()
        for what, value in entries.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], state: Mapping[str, Tensor]
) -> None:
    """Restore what `optimizer_state` returned."""
    optimizer.state.clear()
    for name, value in state.items():
        parameter, _, what = name.rpartition("/")
        owner = parameters[parameter]
        # Step counters stay on the CPU, except those of fused kernels.
        waits = what == "step" and not optimizer.defaults["fused"]
        optimizer.state[owner][what] = value if waits else value.to(owner.device)


class Schedule:
    """The factor at each step of a training of `total` steps."""

    def __init__(self, settings: TrainingSettings, total: int) -> None:
        self._settings, self._total = settings, total
        warmup = settings.warmup  # below 1 a share of all steps, otherwise a number of steps
        self.warmup = round(warmup * total) if warmup < 1 else int(warmup)
        self._lowered, self._waited = 1.0, 0  # of the plateau
        self._best: float | None = None

    def factor(self, step: int) -> float:
        """The rate of this step, counted from 0, as a share of the peak."""
        kind = self._settings.schedule
        if step < self.warmup:
            return (step + 1) / self.warmup
        if kind == "constant":
            return 1.0
        if kind == "plateau":
            return self._lowered
        left = max(0, self._total - step) / max(1, self._total - self.warmup)
        return left if kind == "linear" else (1 + math.cos(math.pi * (1 - left))) / 2

    def epoch(self, dev: float | None, loss: float) -> None:
        """Record the result of an epoch: its dev score, or if there is none, its loss."""
        score = -loss if dev is None else dev
        if self._best is None or score > self._best:
            self._best, self._waited = score, 0
            return
        self._waited += 1
        if self._waited >= self._settings.plateau_patience:
            self._lowered, self._waited = self._lowered * self._settings.plateau_factor, 0

    def state(self) -> dict[str, Any]:
        return {"factor": self._lowered, "best": self._best, "waited": self._waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._lowered, self._best, self._waited = state["factor"], state["best"], state["waited"]


class NativeAdam:
    """Steps of torch's Adam and AdamW by the native kernels, for parameters of one type, on the CPU.

    They are one pass, and give the same numbers up to rounding. The state is torch's, so that checkpoints are the same.
    A step of `torch.optim` spends most of its time on looking up what it is about, and shortening a gradient is a
    further pass over it; here the factor is part of the step.
    """

    def __init__(self, optimizer: torch.optim.Adam | torch.optim.AdamW) -> None:
        self._optimizer = optimizer
        self._decoupled = isinstance(optimizer, torch.optim.AdamW)
        self._doubles = optimizer.param_groups[0]["params"][0].dtype == torch.float64

    @staticmethod
    def of(optimizer: torch.optim.Optimizer) -> NativeAdam | None:
        """The native side of an optimizer, or None if there is none for it."""
        if not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):  # one of the other only since torch 2.7
            return None
        parameters: list[nn.Parameter] = [p for group in optimizer.param_groups for p in group["params"]]
        kinds = {(p.device.type, p.dtype) for p in parameters}
        if len(kinds) > 1 or kinds.isdisjoint({("cpu", torch.float32), ("cpu", torch.float64)}):
            return None
        # Weights are changed where they are, so they must be there as the kernels expect them.
        return NativeAdam(optimizer) if all(plain_tensor(p) is p for p in parameters) else None

    def gradient_length(self, gradients: Sequence[Tensor]) -> float:
        """The length of all gradients as one vector."""
        plain = [plain_tensor(gradient) for gradient in gradients]
        addresses = np.array([[gradient.data_ptr()] for gradient in plain], dtype=np.uint64).reshape(-1, 1)
        return _native.gradient_length(self._doubles, torch.get_num_threads(), addresses, _counts(plain))

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """One step along the gradients times the factor."""
        tensors, numbers, known = [], [], {}
        for i, group in enumerate(self._optimizer.param_groups):
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self._state(parameter)
                tensors.append((plain_tensor(parameter.grad), parameter, state["exp_avg"], state["exp_avg_sq"]))
                step = state["step"].add_(1).item()
                if (i, step) not in known:
                    known[i, step] = self._numbers(group, step, factor)
                numbers.append(known[i, step])
        addresses = np.array([x.data_ptr() for row in tensors for x in row], dtype=np.uint64).reshape(-1, 4)
        table = np.array(numbers, dtype=np.float64).reshape(-1, 8)
        counts = _counts([row[0] for row in tensors])
        _native.adam_step(self._doubles, torch.get_num_threads(), addresses, counts, table)

    def _state(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """The state of a parameter in torch's optimizer, zeros at first."""
        state: dict[str, Tensor] = self._optimizer.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state

    def _numbers(self, group: dict[str, Any], step: float, factor: float) -> tuple[float, ...]:
        """The numbers of a step, in the order of native/optimizers/adam.h."""
        b1, b2 = group["betas"]
        rate, decay = float(group["lr"]), float(group["weight_decay"])
        penalty, shrink = (0.0, 1 - rate * decay) if self._decoupled else (decay, 1.0)
        first, second = 1 - b1**step, 1 - b2**step
        return factor, penalty, shrink, b1, b2, rate / first, 1 / math.sqrt(second), group["eps"]


def _counts(tensors: Sequence[Tensor]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([x.numel() for x in tensors], dtype=np.int64)


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
            n = self.count
            share = 1 / (n + 1) if self._kind == "swa" else 1 - min(self._decay, (n + 1) / (n + 10))
            torch._foreach_lerp_(self._average, self._weights, share)
        self.count += 1

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The module with averaged weights, inside the context."""
        if not self._average:
            yield
            return
        current = [w.clone() for w in self._weights]
        torch._foreach_copy_(self._weights, self._average)
        try:
            yield
        finally:
            torch._foreach_copy_(self._weights, current)

    def state(self) -> dict[str, Tensor]:
        """The averages by parameter; none before the first step that counts."""
        return dict(zip(self._names, self._average, strict=True)) if self._average else {}

    def restore(self, state: Mapping[str, Tensor], count: int) -> None:
        """Continue from `state` after this many steps."""
        self._average = [state[name].to(w) for name, w in zip(self._names, self._weights, strict=True)] if state else []
        self.count = count


class Diverged(Exception):  # noqa: N818 - it ends a training, which may still have a result
    """The loss or its gradient is not finite any more."""


class StepResult(NamedTuple):
    loss: float
    """Summed over the items."""
    items: int
    gradient_norm: float
    learning_rate: float


class Stepper:
    """Takes steps; everything it does is a function of weights, optimizer state and the step's number."""

    def __init__(self, task: TrainingTask, settings: TrainingSettings, machine: Machine, schedule: Schedule) -> None:
        self._machine, self._schedule = machine, schedule
        self._clip = math.inf if settings.clip is None else settings.clip
        self.optimizer = build_optimizer(task, settings)
        self._native = None if machine.scaler is not None else NativeAdam.of(self.optimizer)
        self._parameters = [p for group in self.optimizer.param_groups for p in group["params"]]

    def take(self, number: int, examples: Examples, batches: Sequence[IntArray]) -> StepResult:
        """Take step `number`, counted from 0, on these batches of the examples."""
        self._machine.seed(number)
        for group in self.optimizer.param_groups:
            group["lr"] = self._schedule.factor(number) * group["peak"]
        rate = float(self.optimizer.param_groups[0]["lr"])
        total, items, scale = self._add_gradients(examples, batches)
        if self._machine.scaler is not None:
            self._machine.scaler.unscale_(self.optimizer)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        # The only place in a step that waits for the device.
        if self._native is not None:
            loss, norm = total.item(), self._native.gradient_length(gradients)
        else:
            length = torch.zeros_like(total)
            if gradients:
                length = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))).to(total)
            loss, norm = torch.stack((total, length)).tolist()
        norm *= scale
        # In half precision the scaler skips steps whose gradient overflows, and continues with smaller numbers.
        mean = loss / max(items, 1)
        if not (math.isfinite(mean) and (math.isfinite(norm) or self._machine.scaler is not None)):
            what = f"the loss is {mean}" if not math.isfinite(mean) else f"the gradient's length is {norm}"
            raise Diverged(
                f"training diverged at step {number + 1}: {what}, at learning rate {rate:.3g}; "
                "lower the learning rate, lengthen its warm-up, or lower clip"
            )
        self._apply(gradients, scale if norm <= self._clip else scale * self._clip / norm)
        return StepResult(loss, items, norm, rate)

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
