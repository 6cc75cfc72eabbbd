"""The loop: epochs of steps, a score after each, checkpoints, early stopping, progress, Ctrl-C.

    for each epoch:  for each step:  batches -> gradients -> optimizer -> average
                     validate (on the average) -> keep if better -> checkpoint

All chance and all batches are functions of seed, epoch and step, so a checkpoint taken between any two steps leads to
the very weights that an uninterrupted training leads to.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from trellis.arrays import IntArray
from trellis.errors import ModelError
from trellis.training.history import History, Progress, Reason, Step
from trellis.training.neural.averaging import Average
from trellis.training.neural.batches import batches_of, count_steps
from trellis.training.neural.files import TensorBoard, save_history, tensorboard_folder
from trellis.training.neural.machine import Machine, chance_restored
from trellis.training.neural.place import Place, Record
from trellis.training.neural.resuming import Memory, State
from trellis.training.neural.schedules import Schedule
from trellis.training.neural.settings import TrainingSettings
from trellis.training.neural.stepper import Diverged, Stepper, Taken
from trellis.training.neural.task import DevScores, Task
from trellis.training.neural.weights import copy_of, put_back, trained_weights


class DivergedWarning(UserWarning):
    """Training ended because the loss was no number any more; the best weights before that are kept."""


def train(
    task: Task,
    settings: TrainingSettings | None = None,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> History:
    """Train the task's module, which ends up with the weights that were kept, in evaluation mode.

    Checkpoints, history.json and the learning curve go to `folder`. With `resume`, training goes on from the newest
    checkpoint there, if there is one; without it, a folder with an unfinished training is refused. The global
    generators of chance are left as they were.
    """
    if len(task.lengths) == 0:
        raise ModelError("there is nothing to train on: the task has no examples")
    with chance_restored():
        run = _Run(task, settings or TrainingSettings(), None if folder is None else Path(folder), progress)
        run.begin(resume)
        return run.finish(run.go())


class _Run:
    def __init__(self, task: Task, settings: TrainingSettings, folder: Path | None, progress: Progress | None) -> None:
        self._task, self._settings, self._folder = task, settings, folder
        self._machine = Machine(settings)
        task.module.to(self._machine.device)
        self._lengths = np.asarray(task.lengths, dtype=np.int64)
        self._schedule = Schedule(settings, count_steps(self._lengths, settings))
        self._stepper = Stepper(task, settings, self._machine, self._schedule)
        self._average = Average(task.module, settings)
        self._place, self._record = Place(), Record()
        self._memory = None if folder is None else Memory(folder, settings, self._machine, self._lengths)
        self._board: TensorBoard | None = None
        self._progress = progress if self._machine.is_main else None
        self._every: float | None = getattr(progress, "every", None)
        self._clock = self._told = time.perf_counter()

    def begin(self, resume: bool) -> None:
        """From the start, or from the newest checkpoint."""
        if self._memory is None and resume:
            raise ModelError("resume needs the folder of the training that is to go on, got none")
        if self._memory is not None and resume:
            self._memory.recall(self._state())
        elif self._memory is not None:
            self._memory.make_way()
        board = tensorboard_folder(self._settings.tensorboard, self._folder)
        if board is not None and self._machine.is_main:
            self._board = TensorBoard(board, self._place.step)
        self._clock = self._told = time.perf_counter()

    def go(self) -> Reason:
        """Train to the end, whatever it is."""
        try:
            while (reason := self._limit()) is None:
                self._epoch()
        except KeyboardInterrupt:
            return "interrupted"
        except Diverged as error:
            if self._record.weights is None:
                raise ModelError(str(error)) from None
            kept = self._record.steps[self._record.kept].iteration
            warnings.warn(f"{error}; the weights of epoch {kept} are kept", DivergedWarning, stacklevel=3)
            return "diverged"
        return reason

    def finish(self, reason: Reason) -> History:
        """Leave the module with the weights that are kept."""
        if self._record.weights is not None:
            put_back(self._task.module, self._record.weights)
        self._task.module.eval()
        if self._board is not None:
            self._board.close()
        return self._save_history(reason)

    def _limit(self) -> Reason | None:
        steps, patience = self._record.steps, self._settings.patience
        if patience is not None and steps and steps[-1].dev is not None and self._record.waited() >= patience:
            return "early_stopping"
        return "max_iterations" if self._place.epoch >= self._settings.passes else None

    def _epoch(self) -> None:
        """The rest of an epoch, and what comes after it."""
        plan = batches_of(self._lengths, self._settings, self._place.epoch)
        self._task.module.train()
        taken = Taken(0.0, 0, 0.0, 0.0)
        while self._place.batch < len(plan):
            taken = self._step(plan)
            self._tell_of_step(taken, len(plan))
            every = self._settings.checkpoint_every
            if every is not None and self._place.step % every == 0 and self._place.batch < len(plan):
                self._checkpoint()
        self._end_epoch(taken, len(plan))
        self._checkpoint()
        self._save_history("interrupted")  # Which it is for now, and for good if we are killed.

    def _step(self, plan: list[IntArray]) -> Taken:
        batches = plan[self._place.batch : self._place.batch + self._settings.accumulate]
        taken = self._stepper.take(self._place.step, batches)
        self._average.step(self._place.epoch)
        self._place.add(taken, len(batches), sum(int(self._task.tokens[batch].sum()) for batch in batches))
        return taken

    def _end_epoch(self, taken: Taken, batches: int) -> None:
        self._tick(training=True)
        scores: DevScores | None
        with self._average.in_place():
            scores = self._machine.from_main(self._validate)
            dev = None if scores is None else scores.f1
            better = self._record.is_better(dev)
            if better:
                self._record.weights = copy_of(trained_weights(self._task.module))
                self._record.weights_step = self._place.step
        self._tick(training=False)
        self._schedule.epoch(dev, self._mean_loss())
        self._add_epoch(self._as_step(taken, batches), scores, better)
        self._place.next_epoch()

    def _add_epoch(self, step: Step, scores: DevScores | None, better: bool) -> None:
        if scores is not None:
            best = scores.f1 if better else self._record.best
            step = replace(step, dev=scores.f1, precision=scores.precision, recall=scores.recall, best=best)
        self._record.steps.append(step)
        if better:
            self._record.kept = len(self._record.steps) - 1
        if self._progress is not None:
            self._progress(step)
        if self._board is not None:
            self._board.epoch(self._place.step, step)

    def _validate(self) -> DevScores | None:
        self._task.module.eval()
        with torch.no_grad():
            return self._task.validate()

    def _checkpoint(self) -> None:
        if self._memory is not None:
            self._memory.save(self._state())

    def _state(self) -> State:
        return State(
            module=self._task.module,
            optimizer=self._stepper.optimizer,
            schedule=self._schedule,
            average=self._average,
            place=self._place,
            record=self._record,
            scaler=self._machine.scaler,
        )

    def _tell_of_step(self, taken: Taken, batches: int) -> None:
        if self._board is not None:
            loss = taken.loss / max(taken.items, 1)
            self._board.step(self._place.step, loss, taken.learning_rate, taken.gradient_norm)
        if self._progress is None or self._every is None or self._place.batch >= batches:
            return
        now = time.perf_counter()
        if now - self._told >= self._every:
            self._told = now
            self._tick(training=True)
            self._progress(self._as_step(taken, batches))

    def _tick(self, *, training: bool) -> None:
        """Move the clock's hands."""
        now = time.perf_counter()
        self._place.seconds += now - self._clock
        self._place.epoch_seconds += now - self._clock if training else 0.0
        self._clock = now

    def _as_step(self, taken: Taken, batches: int) -> Step:
        place, epochs = self._place, self._settings.passes
        done = (place.epoch + place.batch / batches) / epochs
        return Step(
            iteration=place.epoch + 1,
            loss=self._mean_loss(),
            gradient_norm=taken.gradient_norm,
            dev=None,
            seconds=place.seconds,
            seconds_left=place.seconds / done - place.seconds,
            iterations=epochs,
            batch=place.batch,
            batches=batches,
            learning_rate=taken.learning_rate,
            tokens_per_second=place.tokens / place.epoch_seconds if place.epoch_seconds else None,
            best=self._record.best,
        )

    def _mean_loss(self) -> float:
        return self._place.loss / max(self._place.items, 1)

    def _save_history(self, reason: Reason) -> History:
        history = History(tuple(self._record.steps), reason, self._record.kept)
        if self._folder is not None and self._machine.is_main:
            save_history(history, self._folder)
        return history
