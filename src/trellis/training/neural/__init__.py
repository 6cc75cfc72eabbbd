"""Training of torch modules: a loop that sees a `TrainingTask`, never a model.

Names that need torch are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.lazy import lazily
from trellis.training.checkpoint import CheckpointWarning
from trellis.training.neural.settings import TrainingSettings

if TYPE_CHECKING:
    from trellis.training.neural.batches import TrainingTask
    from trellis.training.neural.epochs import DivergedWarning, train

__all__ = ["CheckpointWarning", "DivergedWarning", "TrainingSettings", "TrainingTask", "train"]

__getattr__ = lazily(__name__, {"batches": ["TrainingTask"], "epochs": ["DivergedWarning", "train"]})
