"""The loop of epochs: steps, a score after each epoch, checkpoints, early stopping, progress, Ctrl-C.

    for each epoch:  for each step:  batches -> gradients -> optimizer -> average
                     validate (on the average) -> keep if better -> checkpoint

All randomness and all batches are functions of seed, epoch and step, so a checkpoint taken between any two steps leads
to exactly the same weights as an uninterrupted training.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from trellis.arrays import AnyArray, Arrays, IntArray
from trellis.errors import ConfigError, ModelError, warn
from trellis.store import Stored
from trellis.training.checkpoint import Checkpoint, Checkpoints, TrainingFolder
from trellis.training.history import History, Progress, Reason, Step, write_history
from trellis.training.loop import TrainingState, retry_on_interrupt
from trellis.training.neural.batches import Examples, Forecast, TrainingTask, batches_of, forecast
from trellis.training.neural.optimizer import (
    Average,
    Diverged,
    Machine,
    Schedule,
    Stepper,
    StepResult,
    optimizer_state,
    random_state_preserved,
    restore_optimizer,
)
from trellis.training.neural.settings import TrainingSettings

Tensors = dict[str, Tensor]
"""Tensors by name."""


class DivergedWarning(UserWarning):
    """Training ended because the loss was not finite any more; the best weights before that are kept."""


def train(
    task: TrainingTask,
    settings: TrainingSettings | None = None,
    *,
    folder: TrainingFolder | None = None,
    progress: Progress | None = None,
) -> History:
    """Train the task's module, which ends with the kept weights, in evaluation mode.

    Checkpoints, history.json and the learning curve go to `folder`, whose owner says which training this is, whether it
    is resumed and when it is finished. The global random generators are restored.
    """
    settings = settings or TrainingSettings()
    with random_state_preserved():
        expected = forecast(map(_lengths, task.windows(0)), settings)  # nothing holds a window as the next one is read
        if not expected.steps:
            raise ModelError("there is nothing to train on: the task has no examples")
        training = _Training(task, settings, Machine(settings), folder, progress, expected)
        training.begin()
        return training.finish(training.run())


def _lengths(examples: Examples) -> IntArray:
    return np.asarray(examples.lengths, dtype=np.int64)


@dataclass(slots=True)
class EpochProgress:
    """The position of a training; together with weights and optimizer, everything that it needs to continue."""

    epoch: int = 0
    """Finished epochs."""
    batch: int = 0
    """Finished batches of the next epoch."""
    window: int = 0
    """Finished windows of the next epoch."""
    window_start: int = 0
    """Batches of the finished windows."""
    step: int = 0
    """Finished steps, in all."""
    loss: float = 0.0
    """Summed over this epoch's `items`."""
    items: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Since training began."""
    epoch_seconds: float = 0.0
    """Seconds of the steps of this epoch."""

    @property
    def mean_loss(self) -> float:
        return self.loss / max(self.items, 1)

    def add(self, result: StepResult, batches: int, tokens: int) -> None:
        self.step += 1
        self.batch += batches
        self.loss += result.loss
        self.items += result.items
        self.tokens += tokens

    def next_epoch(self) -> None:
        self.epoch += 1
        self.batch = self.window = self.window_start = self.items = self.tokens = 0
        self.loss = self.epoch_seconds = 0.0


class _Training:
    """A training with everything that changes while it runs, and how that becomes a checkpoint and comes back."""

    def __init__(
        self,
        task: TrainingTask,
        settings: TrainingSettings,
        machine: Machine,
        folder: TrainingFolder | None,
        progress: Progress | None,
        expected: Forecast,
    ) -> None:
        self._task, self._settings, self._machine, self._folder = task, settings, machine, folder
        self._expected = expected
        task.module.to(machine.device)
        self._schedule = Schedule(settings, expected.steps)
        self._stepper = Stepper(task, settings, machine, self._schedule)
        self._average = Average(task.module, settings)
        self._at = EpochProgress()
        self._epochs = TrainingState[Tensors]()
        self._checkpoints = None if folder is None else Checkpoints(folder.path, settings.keep)
        self._board: TensorBoard | None = None
        self._progress = progress if machine.is_main else None
        self._every: float | None = getattr(progress, "every", None)
        self._clock = self._reported = time.perf_counter()

    def begin(self) -> None:
        """Train from the start, or from the newest checkpoint."""
        if self._folder is not None and self._checkpoints is not None:
            self._folder.keep = self._settings.keep_when_finished
            self._folder.identify(settings={"arithmetic": self._machine.precision})
            if self._folder.resuming:
                self._restore(self._checkpoints)
        board = tensorboard_folder(self._settings.tensorboard, None if self._folder is None else self._folder.home)
        if board is not None and self._machine.is_main:
            self._board = TensorBoard(board, self._at.step)
        self._clock = self._reported = time.perf_counter()

    def run(self) -> Reason:
        """Train until the end, for whatever reason it comes."""
        try:
            while (reason := self._epochs.stop_reason(self._settings.passes, self._settings.patience)) is None:
                self._epoch()
        except KeyboardInterrupt:
            return "interrupted"
        except Diverged as error:
            if self._epochs.weights is None:
                raise ModelError(str(error)) from None
            kept = self._epochs.steps[self._epochs.kept].iteration
            warn(f"{error}; the weights of epoch {kept} are kept", DivergedWarning)
            return "diverged"
        return reason

    def finish(self, reason: Reason) -> History:
        """Leave the module with the weights that are kept."""
        history = self._epochs.history(reason)

        def finish() -> None:
            if self._epochs.weights is not None:
                load_weights(self._task.module, self._epochs.weights)
            self._task.module.eval()
            if self._board is not None:
                self._board.close()
            self._save_history(history)

        retry_on_interrupt(finish)
        return history

    def _epoch(self) -> None:
        """Train to the end of the epoch, validate, and write a checkpoint."""
        self._task.module.train()
        result = StepResult(0.0, 0, 0.0, 0.0)
        for examples in self._task.windows(self._at.epoch, self._at.window):
            if self._at.window:
                self._checkpoint_if_due()
            result = self._window(examples, result)
            self._at.window += 1
            self._at.window_start = self._at.batch
        step = self._end_epoch(result)
        self._checkpoint()
        self._save_history(self._epochs.history("interrupted"))  # the history so far, in case the process is killed now
        if self._progress is not None:
            self._progress(step)
        if self._board is not None:
            self._board.epoch(self._at.step, step)

    def _window(self, examples: Examples, result: StepResult) -> StepResult:
        """Train to the end of the window; returns the result of its last step."""
        at = self._at
        batches = batches_of(_lengths(examples), self._settings, at.epoch, at.window)
        while (first := at.batch - at.window_start) < len(batches):
            chosen = batches[first : first + self._settings.accumulate]
            result = self._stepper.take(at.step, examples, chosen)
            self._average.step(at.epoch)
            at.add(result, len(chosen), sum(int(examples.tokens[batch].sum()) for batch in chosen))
            self._report(result)
            if at.batch - at.window_start < len(batches):
                self._checkpoint_if_due()
        return result

    def _end_epoch(self, result: StepResult) -> Step:
        """Validate and record the epoch, with its weights if they are the best so far."""
        self._tick(training=True)
        module, weights = self._task.module, None
        with self._average.in_place():
            module.eval()
            with torch.no_grad():
                # What the main process found counts for all: on other machines, rounding may differ.
                scores = self._machine.gather(self._task.validate(self._machine.gather))[0]
            dev = None if scores is None else scores.score
            if self._epochs.is_better(dev):
                weights = {name: value.clone() for name, value in trained_weights(module).items()}
        self._tick(training=False)
        self._schedule.epoch(dev, self._at.mean_loss)
        step = self._as_step(result, self._at.batch)
        if scores is not None:
            step = replace(step, **scores.figures(), best=self._epochs.score if weights is None else scores.score)
        self._epochs.add(step, weights)
        self._at.next_epoch()
        return step

    def _report(self, result: StepResult) -> None:
        if self._board is not None:
            loss = result.loss / max(result.items, 1)
            self._board.step(self._at.step, loss, result.learning_rate, result.gradient_norm)
        batches = self._expected.batches[self._at.epoch]
        if self._progress is None or self._every is None or self._at.batch >= batches:
            return
        now = time.perf_counter()
        if now - self._reported >= self._every:
            self._reported = now
            self._tick(training=True)
            self._progress(self._as_step(result, batches))

    def _tick(self, *, training: bool) -> None:
        now = time.perf_counter()
        self._at.seconds += now - self._clock
        self._at.epoch_seconds += now - self._clock if training else 0.0
        self._clock = now

    def _as_step(self, result: StepResult, batches: int) -> Step:
        at, epochs = self._at, self._settings.passes
        done = (at.epoch + at.batch / batches) / epochs
        return Step(
            iteration=at.epoch + 1,
            loss=at.mean_loss,
            gradient_norm=result.gradient_norm,
            dev=None,
            seconds=at.seconds,
            seconds_left=at.seconds / done - at.seconds,
            iterations=epochs,
            batch=at.batch,
            batches=batches,
            learning_rate=result.learning_rate,
            tokens_per_second=at.tokens / at.epoch_seconds if at.epoch_seconds else None,
            best=self._epochs.score,
        )

    def _save_history(self, history: History) -> None:
        if self._folder is not None and self._machine.is_main:
            write_history(self._folder.path, history)

    def _checkpoint_if_due(self) -> None:
        every = self._settings.checkpoint_every
        if every is not None and self._at.step % every == 0:
            self._checkpoint()

    def _checkpoint(self) -> None:
        if self._checkpoints is None or not self._machine.is_main:
            return
        module, optimizer, scaler = self._task.module, self._stepper.optimizer, self._machine.scaler
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        parts = {
            "weights": trained_weights(module),
            "optimizer": optimizer_state(optimizer, names),
            "average": self._average.state(),
            "best": self._epochs.weights or {},
        }
        values = {
            "progress": asdict(self._at),
            "history": self._epochs.history("interrupted").to_dict(),
            "schedule": self._schedule.state(),
            "averaged": self._average.count,
            "scaler": None if scaler is None else scaler.state_dict(),
        }
        self._checkpoints.save(self._at.step, values, {part: to_arrays(tensors) for part, tensors in parts.items()})

    def _restore(self, checkpoints: Checkpoints) -> None:
        """Continue from the newest undamaged checkpoint; if there is none, nothing changes."""
        newest = checkpoints.newest(self._read)
        if newest is None:
            return
        checkpoint, parts = newest
        scaler, values = self._machine.scaler, checkpoint.values
        done, epochs = values["progress"]["epoch"], self._settings.passes
        if epochs < done:
            raise ConfigError(f"cannot resume with training.epochs = {epochs}: {done} epochs are done")
        load_weights(self._task.module, parts["weights"])
        restore_optimizer(self._stepper.optimizer, dict(self._task.module.named_parameters()), parts["optimizer"])
        self._average.restore(parts["average"], values["averaged"])
        self._schedule.restore(values["schedule"])
        self._at = EpochProgress(**values["progress"])
        self._epochs.restore(checkpoint, parts["best"] or None)
        if scaler is not None:
            scaler.load_state_dict(values["scaler"])

    def _read(self, checkpoint: Checkpoint) -> tuple[Checkpoint, dict[str, Tensors]]:
        """A checkpoint, and its tensors by part and name; a `StoreError` if it is damaged."""
        current = trained_weights(self._task.module)
        arrays = {part: checkpoint.part(part) for part in ("weights", "optimizer", "average", "best")}
        saved = arrays["weights"].arrays
        for name in sorted(current.keys() | saved.keys()):
            there = saved[name].shape if name in saved else "missing"
            here = tuple(current[name].shape) or (1,) if name in current else "missing"  # as numbers are stored
            if there != here:
                raise ModelError(f"the checkpoint is of another model: weights {name!r} are {there} there, {here} here")
        counter = torch.zeros(())  # of steps: what else an optimizer knows has the type and shape of a parameter
        like = {key: current.get(key.rpartition("/")[0], counter) for key in arrays["optimizer"].arrays}
        like |= {key: counter for key in like if key.endswith("/step")}
        return checkpoint, {
            "weights": to_tensors(arrays["weights"], current),
            "optimizer": to_tensors(arrays["optimizer"], like),
            "average": to_tensors(arrays["average"], {name: current[name] for name in arrays["average"].arrays}),
            "best": to_tensors(arrays["best"], current if arrays["best"].arrays else {}),
        }


# Types that the store does not have are stored as whole numbers of the same width.
_AS_BITS = dict.fromkeys((torch.bfloat16, torch.float16, torch.int16), torch.uint16)
_AS_BITS |= dict.fromkeys((torch.bool, torch.int8), torch.uint8)


def to_arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    """The tensors as arrays of types that the store has."""

    def to_array(tensor: Tensor) -> AnyArray:
        plain = tensor.detach().cpu().contiguous()
        bits = _AS_BITS.get(plain.dtype)
        return (plain if bits is None else plain.view(bits)).numpy()

    return {name: to_array(tensor) for name, tensor in tensors.items()}


def to_tensors(stored: Stored, like: Mapping[str, Tensor]) -> Tensors:
    """The inverse of `to_arrays`: tensors with the names, types and shapes of these."""
    tensors = {}
    for name, other in like.items():
        bits = np.dtype(str(_AS_BITS.get(other.dtype, other.dtype)).removeprefix("torch."))
        limits = (-np.inf, np.inf) if bits.kind == "f" else ()
        array = np.array(stored.array(name, bits, tuple(other.shape), *limits))
        tensors[name] = torch.from_numpy(array).view(other.dtype)
    return tensors


def trained_weights(module: nn.Module) -> Tensors:
    """Parameters that are trained, and buffers: the module's own tensors, by name. Frozen parameters never change."""
    frozen = {name for name, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}
    return {name: value for name, value in module.state_dict().items() if name not in frozen}


def load_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in trained_weights(module).items():
            value.copy_(weights[name])


class TensorBoard:
    """Scalars for TensorBoard, each by step."""

    def __init__(self, folder: Path, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError("setting 'tensorboard' needs TensorBoard: pip install tensorboard") from None
        # What a killed training wrote after its last checkpoint will be written again.
        self._writer = SummaryWriter(str(folder), purge_step=step)

    def step(self, step: int, loss: float, learning_rate: float, gradient_norm: float) -> None:
        for name, value in (("loss", loss), ("learning rate", learning_rate), ("gradient norm", gradient_norm)):
            self._writer.add_scalar(f"step/{name}", value, step)

    def epoch(self, step: int, done: Step) -> None:
        for name in ("loss", "dev", "precision", "recall", "accuracy", "tokens_per_second"):
            value = getattr(done, name)
            if value is not None:
                self._writer.add_scalar(f"epoch/{name.replace('_', ' ')}", value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def tensorboard_folder(setting: bool | str, folder: Path | None) -> Path | None:
    """Where TensorBoard's files go, if anywhere."""
    if not setting:
        return None
    if isinstance(setting, str):
        return Path(setting)
    if folder is None:
        raise ConfigError("tensorboard = true writes next to the model: name a folder, or give its path as the setting")
    return folder / "tensorboard"
