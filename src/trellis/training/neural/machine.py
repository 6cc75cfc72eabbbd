"""What the loop runs on: device, precision, processes. Only this module uses accelerate.

The hot path of a single process in full precision avoids it: there `autocast` does nothing and `reduce` is not called,
since wrapped optimizers and contexts are too expensive for a small step.
"""

from __future__ import annotations

import atexit
import random
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.errors import ConfigError, ModelError
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
    """Restore the global random generators at the end."""
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
