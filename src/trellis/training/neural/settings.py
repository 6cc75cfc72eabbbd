"""How a neural model is trained, as one configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trellis.config import Rule, check, setting


def usual_batch_size(sentences: int) -> int:
    """The sentences of a batch where none are given: with large batches, a small corpus has too few steps."""
    return min(max(sentences // 32, 8), 32)


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training loop; the defaults suit a BiLSTM on a few thousand sentences."""

    optimizer: Literal["adamw", "adam", "sgd"] = setting("adamw", "adamw, adam, or sgd with momentum")
    learning_rate: float | None = setting(
        None, "peak learning rate; default: 0.005, for a fine-tuned transformer 0.00005"
    )
    head_learning_rate: float | None = setting(
        None, "peak learning rate of the head; default: learning_rate, with a fine-tuned transformer 0.001"
    )
    weight_decay: float = setting(
        1e-2,
        "decay of weights towards 0 (adamw: decoupled; adam and sgd: as a penalty in the loss); never of biases,\n"
        "norms and other vectors",
    )
    momentum: float = setting(0.9, "sgd: share of the last step that the next one keeps")
    clip: float | None = setting(5.0, "longest gradient; longer ones are shortened to it; unset: no limit")
    epochs: int | None = setting(
        None,
        "at most this many passes over the training sentences; default: 30, with a fine-tuned transformer 5, if all\n"
        "tokens are characters 10",
    )
    batch_size: int | None = setting(
        None, "at most this many sentences in a batch; default: a 32nd of the training sentences, but 8 to 32"
    )
    batch_tokens: int = setting(
        4096,
        "at most this many tokens (transformer: subwords) in a batch, padding included; a longer sentence is a batch",
    )
    window: int = setting(
        16384, "of a corpus that is streamed: how many sentences are in memory, shuffled and sorted by length together"
    )
    accumulate: int = setting(1, "how many batches make one step")
    schedule: Literal["constant", "linear", "cosine", "plateau"] = setting(
        "linear", "the learning rate after warm-up: constant, linear or cosine down to 0, or lowered on a plateau"
    )
    warmup: float = setting(0.05, "steps in which the learning rate rises to its peak; below 1: a share of all steps")
    plateau_factor: float = setting(0.5, "plateau: what the learning rate is multiplied by")
    plateau_patience: int = setting(2, "plateau: after this many epochs without a better dev score (without dev: loss)")
    patience: int | None = setting(None, "stop after this many epochs without a better dev score; unset: never")
    averaging: Literal["none", "ema", "swa"] = setting(
        "none", "weights to keep: none, the last; ema, an exponential moving average over steps; swa, their plain mean"
    )
    averaging_start: int = setting(1, "the first epoch whose steps are averaged")
    ema_decay: float = setting(0.999, "ema: share of the average that each step keeps")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = setting(
        "auto", "arithmetic of the forward pass; auto: bf16 on a GPU that has it, else fp32"
    )
    seed: int = setting(1, "seed of the batches and of dropout")
    checkpoint_every: int | None = setting(None, "steps between checkpoints; unset: one per epoch")
    keep: int = setting(2, "how many checkpoints stay on disk; the last but one is used if the last is damaged")
    keep_when_finished: bool = setting(
        False, "keep the checkpoints of a finished training, so that it can be resumed with more epochs"
    )
    tensorboard: bool | str = setting(False, "write TensorBoard's files: true, next to the model; or a folder")

    def __post_init__(self) -> None:
        check(self, _RULES)

    @property
    def peak(self) -> float:
        return 5e-3 if self.learning_rate is None else self.learning_rate

    @property
    def passes(self) -> int:
        """The largest number of epochs."""
        return 30 if self.epochs is None else self.epochs


FREE = {"checkpoint_every", "epochs", "keep", "keep_when_finished", "patience", "tensorboard"}
"""What may be changed when a training is resumed. With more epochs, a learning rate that depends on the number of steps
then follows the schedule of the longer training; see `trellis.training.neural.optimizer`."""
_RULES: list[Rule] = [
    ("learning_rate head_learning_rate clip", "a number above 0", lambda x: x > 0),
    ("weight_decay warmup seed", "a number of at least 0", lambda x: x >= 0),
    ("epochs batch_size batch_tokens window accumulate keep", "at least 1", lambda x: x >= 1),
    ("plateau_patience patience averaging_start checkpoint_every", "at least 1", lambda x: x >= 1),
    ("momentum ema_decay", "at least 0 and below 1", lambda x: 0 <= x < 1),
    ("plateau_factor", "above 0 and below 1", lambda x: 0 < x < 1),
]
