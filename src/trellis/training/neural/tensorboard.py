"""TensorBoard's files, for those who want them."""

from __future__ import annotations

from pathlib import Path

from trellis.errors import ConfigError
from trellis.training.history import Step


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
