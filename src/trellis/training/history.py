"""What training reports while it runs and leaves behind: one `Step` per iteration, and a `History` of them.

Next to a model, the history is in history.json, and learning-curve.svg is a picture of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from trellis import config, files
from trellis.arrays import Arrays
from trellis.errors import ConfigError, StoreError, number_of
from trellis.report import data_frame
from trellis.training.objective import Vector
from trellis.untrusted import read_json

HISTORY, CURVE = "history.json", "learning-curve.svg"
Reason = Literal["converged", "max_iterations", "no_progress", "early_stopping", "interrupted", "diverged"]
"""Why training ended. no_progress: no step along the search direction lowers the loss any more; diverged: the loss or
its gradient is not finite any more."""


class Iterate(NamedTuple):
    """What an optimizer yields after each iteration; `stop` says why it is the last, if it is."""

    weights: Vector
    loss: float
    gradient_norm: float | None
    stop: Reason | None = None
    state: Callable[[], Arrays] | None = None
    """What it knows besides the weights, until the next iteration: from both it can go on with the same steps."""


class DevScores(NamedTuple):
    """The score on held-out sentences that decides: an F1 with precision and recall, or an accuracy without them."""

    score: float
    precision: float | None = None
    recall: float | None = None
    accuracy: float | None = None
    """Share of tokens with the right label."""

    def figures(self) -> dict[str, Any]:
        """As a `Step` calls them."""
        return {"dev": self.score, "precision": self.precision, "recall": self.recall, "accuracy": self.accuracy}


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration as others see it."""

    iteration: int
    loss: float
    gradient_norm: float | None
    dev: float | None
    """The score on the held-out sentences, if there are any; higher is better."""
    seconds: float
    """Since the start of training."""
    seconds_left: float | None
    """At most this many more, if the number of iterations is limited."""
    iterations: int | None = None
    """How many there will be at most."""
    batch: int | None = None
    """If an iteration is an epoch of batches: how many of them are done; fewer than `batches` means it is running."""
    batches: int | None = None
    learning_rate: float | None = None
    tokens_per_second: float | None = None
    precision: float | None = None
    """On the held-out sentences, as is `recall`; `dev` is their F1."""
    recall: float | None = None
    accuracy: float | None = None
    """Share of the held-out tokens with the right label."""
    best: float | None = None
    """The highest `dev` so far."""

    @property
    def is_whole(self) -> bool:
        """Whether the iteration is over."""
        return self.batch == self.batches


@dataclass(frozen=True, slots=True)
class History:
    """All steps, why they ended, and which one's weights were kept (-1: none was made)."""

    steps: tuple[Step, ...]
    reason: Reason
    kept: int

    @property
    def loss(self) -> float:
        """The loss of the weights that were kept."""
        return self.steps[self.kept].loss

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; values that a step does not have are skipped."""
        steps = [{name: value for name, value in asdict(step).items() if value is not None} for step in self.steps]
        return {"reason": self.reason, "kept": self.kept, "steps": steps}

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per step; values that a step does not have are None."""
        return [asdict(step) for step in self.steps]

    def to_pandas(self) -> Any:
        """One row per step, as a `pandas.DataFrame`, without the columns that no step has."""
        rows = self.to_records()
        names = [item.name for item in fields(Step) if any(row[item.name] is not None for row in rows)]
        return data_frame([{name: row[name] for name in names} for row in rows], names)

    def _repr_html_(self) -> str:
        """The learning curve, for notebooks."""
        from trellis.training.curve import draw_curve

        kept = f", weights of step {self.kept + 1} kept" if self.steps else ""
        curve = draw_curve(self) if len(self.steps) > 1 else ""
        return f"<div>{number_of(len(self.steps), 'step')}, ended: {self.reason}{kept}</div>{curve}"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The history of these values; fields that a later version adds to a step are ignored."""
        empty = {item.name: None for item in fields(Step)}
        known = ({name: step.get(name) for name in empty} for step in values["steps"])
        return cls(tuple(config.from_dict(Step, step) for step in known), values["reason"], values["kept"])


Progress = Callable[[Step], None]
"""Called after each iteration. With an attribute `every`, it is also called within epochs, every that many seconds."""
Validate = Callable[[Vector], float | DevScores]


def write_history(folder: Path, history: History) -> None:
    """Write the history, and its picture if there is a curve to draw."""
    texts = history_texts(history)
    files.write_together({folder / name: text for name, text in texts.items()})
    if CURVE not in texts:
        (folder / CURVE).unlink(missing_ok=True)  # of an earlier training


def history_texts(history: History) -> dict[str, str]:
    """The files of a history by name: itself, and its picture unless it is a single step, as from counting."""
    texts = {HISTORY: files.json_text(history.to_dict())}
    if len(history.steps) > 1:
        from trellis.training.curve import draw_curve  # fractions are not needed to tag

        texts[CURVE] = draw_curve(history)
    return texts


def read_history(folder: str | Path) -> History | None:
    """The history of the training in this folder, if there is one."""
    path = Path(folder) / HISTORY
    values = read_json(path)
    try:
        return None if values is None else History.from_dict(values)
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise StoreError(f"{path} is not a training history: {error}") from None
