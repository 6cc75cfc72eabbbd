"""Training of torch modules: a loop that sees a `TrainingTask`, never a model.

Names are loaded when they are first used, so `trellis.training.neural.settings` and `.batches` can be imported without
torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trellis.training.neural.checkpoints import CheckpointWarning
    from trellis.training.neural.loop import DivergedWarning, train
    from trellis.training.neural.settings import TrainingSettings
    from trellis.training.neural.task import DevScores, TrainingTask

__all__ = ["CheckpointWarning", "DevScores", "DivergedWarning", "TrainingSettings", "TrainingTask", "train"]

_HOMES = {
    "CheckpointWarning": "checkpoints",
    "DevScores": "task",
    "DivergedWarning": "loop",
    "TrainingSettings": "settings",
    "TrainingTask": "task",
    "train": "loop",
}


def __getattr__(name: str) -> Any:
    name = "TrainingTask" if name == "Task" else name  # the former name
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
