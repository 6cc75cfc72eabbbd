"""Where a training by iterations (L-BFGS, OWL-QN, EM) continues after it was killed.

    checkpoint-00000040.safetensors    after iteration 40: all steps, its weights, with held-out data also the best ones

One is written every so many seconds, and when another process of the training is lost. The file does not depend on
the number of processes. It also holds what a quasi-Newton method knows about the curvature, 48 bytes per weight by
default, so that a training that continues takes the steps of one that was never interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trellis import store
from trellis.arrays import Arrays
from trellis.errors import ConfigError, StoreError
from trellis.training.best import Best
from trellis.training.folder import CHECKPOINTS, TrainingFolder
from trellis.training.history import History
from trellis.training.objective import Vector

_KIND, _MEMORY = "state of a training", "memory."


@dataclass(slots=True)
class Reached:
    """Where a training is: its last weights, and the steps with the best ones so far."""

    weights: Vector
    best: Best[Vector]
    memory: Callable[[], Arrays] | None = None
    """What the optimizer knows besides."""


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
        arrays: Arrays = {"weights": place.weights}
        if place.best.weights is not None and place.best.weights is not place.weights:
            arrays["best"] = place.best.weights
        if place.memory is not None:
            arrays |= {f"{_MEMORY}{name}": array for name, array in place.memory().items()}
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
    kept = Best(list(history.steps), history.kept, weights if best is None else best)
    memory = _memory(stored, size)
    return Reached(weights, kept, None if memory is None else lambda: memory)


def _memory(stored: store.Stored, size: int) -> Arrays | None:
    """What a quasi-Newton method knew, if that was saved."""
    if f"{_MEMORY}products" not in stored:
        return None
    products = stored.array(f"{_MEMORY}products", np.float64, (None, None))
    pairs = len(products) // 2
    if products.shape != (2 * pairs + 1,) * 2:
        raise stored.refused(f"{_MEMORY}products", f"must be square, with an odd number of rows, got {products.shape}")
    steps = {name: stored.array(f"{_MEMORY}{name}", np.float32, (size,)) for name in _names(pairs)}
    losses = stored.array(f"{_MEMORY}losses", np.float64, (None,))
    return {name: np.array(array) for name, array in (("products", products), ("losses", losses), *steps.items())}


def _names(pairs: int) -> list[str]:
    return [f"{name}{i}" for i in range(pairs) for name in "sy"]
