"""A process that trains and dies: run as a script, it forks a child for each line it reads.

A line is ``folder kill``. The child resumes the training in the folder and kills itself with SIGKILL at event number
`kill`, an event being a step, a write of half a file, or a change of the folder; with ``after SECONDS`` in place of a
number, this process kills it then. For each child one line comes back: "killed" or "finished".
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.training.neural.toys import Labels, train_in
from trellis import store
from trellis.training.neural import TrainingSettings, train

SETTINGS = TrainingSettings(
    epochs=2,
    batch_size=5,
    accumulate=2,
    averaging="swa",
    averaging_start=2,
    schedule="cosine",
    learning_rate=0.02,
    checkpoint_every=2,
)


def main() -> None:
    torch.set_num_threads(1)
    train(Labels(), TrainingSettings(epochs=1))  # Loads what torch loads late; with one thread, forks stay safe.
    for line in sys.stdin:
        folder, *kill = line.split()
        child = os.fork()
        if child == 0:
            _run(Path(folder), None if kill[0] == "after" else int(kill[0]))
            os._exit(0)
        if kill[0] == "after":
            time.sleep(float(kill[1]))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        told = "killed" if os.WIFSIGNALED(status) else "finished" if status == 0 else f"failed with {status}"
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()


def _run(folder: Path, kill: int | None) -> None:
    task = Labels()
    if kill is not None:
        _set_trap(task, kill)
    train_in(folder, task, SETTINGS, resume=True)


def _set_trap(task: Any, kill: int) -> None:
    count = 0

    def at(happen: Callable[..., Any], last_words: Callable[..., None] | None = None) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == kill:
                if last_words is not None:
                    last_words(*arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)
            return happen(*arguments, **options)

        return wrapped

    def half(path: Path, mode: str, **_: Any) -> None:
        """What a write of a file leaves that was cut short."""
        if mode == "wb":
            path.write_bytes(bytes(1000))

    store.open = at(open, half)  # type: ignore[attr-defined]
    os.fsync, os.replace, os.unlink = at(os.fsync), at(os.replace), at(os.unlink)
    task.loss, task.validate = at(task.loss), at(task.validate)


if __name__ == "__main__":
    main()
