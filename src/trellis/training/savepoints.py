"""Where a training by iterations (L-BFGS, OWL-QN, EM) continues after it was killed.

    checkpoint-00000040.safetensors    after iteration 40: all steps, its weights, with held-out data also the best ones

One is written every so many seconds, and when another process of the training is lost. The file does not depend on
the number of processes. A quasi-Newton method continues from the weights without what it knows about the curvature, so
that its steps differ from those of a training that was never interrupted; EM takes the same ones.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trellis import store
from trellis.errors import ConfigError, StoreError
from trellis.training.best import Best
from trellis.training.folder import CHECKPOINTS, TrainingFolder
from trellis.training.history import History
from trellis.training.objective import Vector

_KIND = "state of a training"


@dataclass(slots=True)
class Reached:
    """Where a training is: its last weights, and the steps with the best ones so far."""

    weights: Vector
    best: Best[Vector]


class Savepoints:
    """The savepoints of one training, of which the newest stays."""

    def __init__(self, folder: TrainingFolder, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._written = time.monotonic()

    def restore(self, size: int) -> Reached | None:
        """Where to continue, if that was asked for and there is something to continue from."""
        paths = sorted(self._folder.path.glob(CHECKPOINTS)) if self._folder.resuming else []
        return _read(paths[-1], size) if paths else None

    def visit(self, place: Reached) -> None:
        """Write the place if it is time."""
        if time.monotonic() - self._written >= self._seconds:
            self.write(place)

    def write(self, place: Reached) -> None:
        """Write the place, then remove those before it."""
        arrays = {"weights": place.weights}
        if place.best.weights is not None and place.best.weights is not place.weights:
            arrays["best"] = place.best.weights
        path = self._folder.path / f"checkpoint-{len(place.best.steps):08d}.safetensors"
        store.save(path, _KIND, {"history": place.best.history("interrupted").to_dict()}, arrays)
        for old in self._folder.path.glob(CHECKPOINTS):
            if old != path:
                old.unlink()
        self._written = time.monotonic()


def _read(path: Path, size: int) -> Reached:
    stored = store.load(path, _KIND)
    try:
        history = History.from_dict(stored.manifest.value("history", dict))
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise StoreError(f"{path} does not hold the steps of a training: {error}") from None
    if not -1 <= history.kept < len(history.steps):
        raise StoreError(f"{path}: step {history.kept} cannot be the best of {len(history.steps)}")
    weights, best = (
        np.array(stored.array(name, np.float64, (size,))) if name in stored else None for name in ("weights", "best")
    )
    if weights is None:
        raise stored.refused("weights", f"is missing: expected {size} numbers")
    return Reached(weights, Best(list(history.steps), history.kept, weights if best is None else best))
