"""The loop: epochs of steps, a score after each, checkpoints, early stopping, progress, Ctrl-C.

    for each epoch:  for each step:  batches -> gradients -> optimizer -> average
                     validate (on the average) -> keep if better -> checkpoint

All randomness and all batches are functions of seed, epoch and step, so a checkpoint taken between any two steps leads
to exactly the same weights as an uninterrupted training.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from trellis.arrays import IntArray
from trellis.errors import ConfigError, ModelError, StoreError, warn
from trellis.training.checkpoint import Checkpoints, TrainingFolder
from trellis.training.history import DevScores, History, Progress, Reason, Step, write_history
from trellis.training.lock import locked
from trellis.training.loop import TrainingState, retry_on_interrupt
from trellis.training.neural.averaging import Average
from trellis.training.neural.batches import Forecast, batches_of, forecast
from trellis.training.neural.machine import Machine, chance_restored
from trellis.training.neural.optimizer import Schedule
from trellis.training.neural.settings import TrainingSettings
from trellis.training.neural.state import EpochProgress, Kept, NeuralState, copy_of, load_weights, trained_weights
from trellis.training.neural.stepper import Diverged, Stepper, Taken
from trellis.training.neural.task import Examples, StreamedTask, TrainingTask, lengths_of, windows_of


class DivergedWarning(UserWarning):
    """Training ended because the loss was not finite any more; the best weights before that are kept."""


def train(
    task: TrainingTask | StreamedTask,
    settings: TrainingSettings | None = None,
    *,
    folder: str | Path | TrainingFolder | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> History:
    """Train the task's module, which ends with the kept weights, in evaluation mode.

    Checkpoints, history.json and the learning curve go to `folder`. With `resume`, training continues from the newest
    checkpoint there, if there is one; without it, a folder with an unfinished training is refused. A `TrainingFolder`
    contains both, and its owner says when it is finished. The global random generators are restored.
    """
    settings = settings or TrainingSettings()
    machine = Machine(settings)
    with chance_restored(), _opened(folder, resume, machine) as place:
        own = None if place is folder else place
        if own is not None:
            own.identify(settings=settings.identity(), data={"examples": _fingerprint(task)})
        expected = forecast(lengths_of(task), settings)
        if not expected.steps:
            raise ModelError("there is nothing to train on: the task has no examples")
        run = _Run(task, settings, machine, place, progress, expected)
        run.begin()
        history = run.finish(run.go())
        if own is not None and history.reason != "interrupted":
            own.finish()
        return history


@contextmanager
def _opened(
    folder: str | Path | TrainingFolder | None, resume: bool, machine: Machine
) -> Iterator[TrainingFolder | None]:
    """The folder, if there is one; it is locked here unless its owner has locked it."""
    if folder is None and resume:
        raise ModelError("resume needs the folder of the training to continue, got none")
    if folder is None or isinstance(folder, TrainingFolder):
        yield folder
        return
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
    with locked(path) if machine.is_main else nullcontext():
        yield TrainingFolder(path, "neural", resume=resume, is_main=machine.is_main)


def _fingerprint(task: TrainingTask | StreamedTask) -> str:
    """A fingerprint of what the loop knows about the examples."""
    examples = tokens = crc = 0
    for lengths in lengths_of(task):
        examples, tokens, crc = examples + len(lengths), tokens + int(lengths.sum()), zlib.crc32(lengths.tobytes(), crc)
    return f"{examples} of {tokens} tokens, {crc:08x}"


class _Run:
    def __init__(
        self,
        task: TrainingTask | StreamedTask,
        settings: TrainingSettings,
        machine: Machine,
        folder: TrainingFolder | None,
        progress: Progress | None,
        expected: Forecast,
    ) -> None:
        self._expected = expected
        self._task, self._settings, self._machine, self._folder = task, settings, machine, folder
        task.module.to(machine.device)
        self._schedule = Schedule(settings, expected.steps)
        self._stepper = Stepper(task, settings, machine, self._schedule)
        self._average = Average(task.module, settings)
        self._at, self._epochs = EpochProgress(), TrainingState[Kept]()
        self._checkpoints = None if folder is None else Checkpoints(folder.path, settings.keep)
        self._board: TensorBoard | None = None
        self._progress = progress if machine.is_main else None
        self._every: float | None = getattr(progress, "every", None)
        self._clock = self._told = time.perf_counter()

    def begin(self) -> None:
        """From the start, or from the newest checkpoint."""
        if self._folder is not None and self._checkpoints is not None:
            self._folder.keep = self._settings.keep_when_finished
            self._folder.identify(machine={"arithmetic": self._machine.precision})
            if self._folder.resuming:
                self._state().restore(self._checkpoints, self._settings.passes)
        board = tensorboard_folder(self._settings.tensorboard, None if self._folder is None else self._folder.home)
        if board is not None and self._machine.is_main:
            self._board = TensorBoard(board, self._at.step)
        self._clock = self._told = time.perf_counter()

    def go(self) -> Reason:
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
        retry_on_interrupt(lambda: self._put_away(history))
        return history

    def _put_away(self, history: History) -> None:
        if self._epochs.weights is not None:
            load_weights(self._task.module, self._epochs.weights.weights)
        self._task.module.eval()
        if self._board is not None:
            self._board.close()
        self._save_history(history)

    def _epoch(self) -> None:
        """The rest of an epoch, and what follows it."""
        self._task.module.train()
        taken = Taken(0.0, 0, 0.0, 0.0)
        for examples in windows_of(self._task, self._at.epoch, self._at.window):
            if self._at.window:
                self._checkpoint_if_due()
            taken = self._window(examples, taken)
            self._at.next_window()
        step = self._end_epoch(taken)
        self._checkpoint()
        self._save_history(self._epochs.history("interrupted"))  # the history so far, in case the process is killed now
        self._tell_of_epoch(step)

    def _window(self, examples: Examples, taken: Taken) -> Taken:
        """The rest of a window; returns its last step."""
        lengths, at = np.asarray(examples.lengths, dtype=np.int64), self._at
        plan = batches_of(lengths, self._settings, at.epoch, at.window)
        end = at.earlier + len(plan)
        while at.batch < end:
            taken = self._step(examples, plan)
            self._tell_of_step(taken)
            if at.batch < end:
                self._checkpoint_if_due()
        return taken

    def _step(self, examples: Examples, plan: list[IntArray]) -> Taken:
        first = self._at.batch - self._at.earlier
        batches = plan[first : first + self._settings.accumulate]
        taken = self._stepper.take(self._at.step, examples, batches)
        self._average.step(self._at.epoch)
        self._at.add(taken, len(batches), sum(int(examples.tokens[batch].sum()) for batch in batches))
        return taken

    def _checkpoint_if_due(self) -> None:
        every = self._settings.checkpoint_every
        if every is not None and self._at.step % every == 0:
            self._checkpoint()

    def _end_epoch(self, taken: Taken) -> Step:
        self._tick(training=True)
        scores: DevScores | None
        kept = None
        with self._average.in_place():
            scores = self._validate()
            dev = None if scores is None else scores.score
            if self._epochs.is_better(dev):
                kept = Kept(copy_of(trained_weights(self._task.module)), self._at.step)
        self._tick(training=False)
        self._schedule.epoch(dev, self._mean_loss())
        step = self._as_step(taken, self._at.batch)
        if scores is not None:
            best = self._epochs.score if kept is None else scores.score
            step = replace(step, **scores.figures(), best=best)
        self._epochs.add(step, kept)
        self._at.next_epoch()
        return step

    def _validate(self) -> DevScores | None:
        self._task.module.eval()
        with torch.no_grad():
            if self._machine.processes == 1:
                return self._task.validate()
            # What the main process found counts for all: on other machines, rounding may differ.
            found: list[DevScores | None] = self._machine.gather(self._task.validate(self._machine.gather))
        return found[0]

    def _checkpoint(self) -> None:
        if self._checkpoints is not None and self._machine.is_main:
            self._state().save(self._checkpoints)

    def _state(self) -> NeuralState:
        return NeuralState(
            module=self._task.module,
            optimizer=self._stepper.optimizer,
            schedule=self._schedule,
            average=self._average,
            progress=self._at,
            epochs=self._epochs,
            scaler=self._machine.scaler,
        )

    def _tell_of_epoch(self, step: Step) -> None:
        if self._progress is not None:
            self._progress(step)
        if self._board is not None:
            self._board.epoch(self._at.step, step)

    def _tell_of_step(self, taken: Taken) -> None:
        if self._board is not None:
            loss = taken.loss / max(taken.items, 1)
            self._board.step(self._at.step, loss, taken.learning_rate, taken.gradient_norm)
        batches = self._expected.batches[self._at.epoch]
        if self._progress is None or self._every is None or self._at.batch >= batches:
            return
        now = time.perf_counter()
        if now - self._told >= self._every:
            self._told = now
            self._tick(training=True)
            self._progress(self._as_step(taken, batches))

    def _tick(self, *, training: bool) -> None:
        """Update the time."""
        now = time.perf_counter()
        self._at.seconds += now - self._clock
        self._at.epoch_seconds += now - self._clock if training else 0.0
        self._clock = now

    def _as_step(self, taken: Taken, batches: int) -> Step:
        at, epochs = self._at, self._settings.passes
        done = (at.epoch + at.batch / batches) / epochs
        return Step(
            iteration=at.epoch + 1,
            loss=self._mean_loss(),
            gradient_norm=taken.gradient_norm,
            dev=None,
            seconds=at.seconds,
            seconds_left=at.seconds / done - at.seconds,
            iterations=epochs,
            batch=at.batch,
            batches=batches,
            learning_rate=taken.learning_rate,
            tokens_per_second=at.tokens / at.epoch_seconds if at.epoch_seconds else None,
            best=self._epochs.score,
        )

    def _mean_loss(self) -> float:
        return self._at.loss / max(self._at.items, 1)

    def _save_history(self, history: History) -> None:
        if self._folder is not None and self._machine.is_main:
            write_history(self._folder.path, history)


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
        """Write the results of a step."""
        for name, value in (("loss", loss), ("learning rate", learning_rate), ("gradient norm", gradient_norm)):
            self._writer.add_scalar(f"step/{name}", value, step)

    def epoch(self, step: int, done: Step) -> None:
        """Write the results of an epoch."""
        for name in ("loss", "dev", "precision", "recall", "accuracy", "tokens_per_second"):
            value = getattr(done, name)
            if value is not None:
                self._writer.add_scalar(f"epoch/{name.replace('_', ' ')}", value, step)
        self._writer.flush()

    def close(self) -> None:
        """Write what is still in memory."""
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
