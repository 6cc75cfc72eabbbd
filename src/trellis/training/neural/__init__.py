"""Training of torch modules: a loop that sees a `TrainingTask`, never a model.

Names are loaded when they are first used, so `trellis.training.neural.settings` and `.batches` can be imported without
torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trellis.training.checkpoint import CheckpointWarning
    from trellis.training.neural.loop import DivergedWarning, train
    from trellis.training.neural.settings import TrainingSettings
    from trellis.training.neural.task import TrainingTask

__all__ = ["CheckpointWarning", "DivergedWarning", "TrainingSettings", "TrainingTask", "train"]

_HOMES = {
    "CheckpointWarning": "trellis.training.checkpoint",
    "DivergedWarning": "trellis.training.neural.loop",
    "TrainingSettings": "trellis.training.neural.settings",
    "TrainingTask": "trellis.training.neural.task",
    "train": "trellis.training.neural.loop",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
