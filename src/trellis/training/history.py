"""What training reports while it runs and leaves behind: one `Step` per iteration, and a `History` of them.

Next to a model, the history is in history.json, and learning-curve.svg is a picture of it. `LiveLine` shows the steps
to people who watch; `fit` does so by itself in a terminal or a notebook, if it takes long.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from trellis import config, files
from trellis.arrays import Arrays, FloatArray
from trellis.errors import ConfigError, StoreError, number_of
from trellis.plots import Chart, Curve, Picture, Pictured, svg
from trellis.results import data_frame
from trellis.untrusted import read_json

if TYPE_CHECKING:
    from rich.console import Console

HISTORY, CURVE = "history.json", "learning-curve.svg"
Reason = Literal["converged", "max_iterations", "no_progress", "early_stopping", "interrupted", "diverged"]
"""Why training ended. no_progress: no step along the search direction lowers the loss any more; diverged: the loss or
its gradient is not finite any more."""


class Iterate(NamedTuple):
    """An iteration of an optimizer; `stop` says why it is the last, if it is."""

    weights: FloatArray
    loss: float
    gradient_norm: float | None
    stop: Reason | None = None
    state: Callable[[], Arrays] | None = None
    """What the optimizer knows besides the weights, until its next iteration; from both it takes the same steps."""


class DevScores(NamedTuple):
    """The score on held-out sentences that decides: an F1 with precision and recall, or an accuracy without them."""

    score: float
    precision: float | None = None
    recall: float | None = None
    accuracy: float | None = None
    """Share of tokens with the right label."""

    def figures(self) -> dict[str, Any]:
        """The scores by the names of the fields of a `Step`."""
        return {"dev": self.score, "precision": self.precision, "recall": self.recall, "accuracy": self.accuracy}


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration, as it is reported."""

    iteration: int
    loss: float
    gradient_norm: float | None
    dev: float | None
    """The score on the held-out sentences, if there are any; higher is better."""
    seconds: float
    """Since the start of training."""
    seconds_left: float | None
    """The most seconds that training may still take, if the number of iterations is limited."""
    iterations: int | None = None
    """How many there will be at most."""
    batch: int | None = None
    """If an iteration is an epoch of batches: how many of them are done; fewer than `batches` means it is running."""
    batches: int | None = None
    learning_rate: float | None = None
    tokens_per_second: float | None = None
    precision: float | None = None
    """Precision on the held-out sentences, whose F1 is `dev`."""
    recall: float | None = None
    accuracy: float | None = None
    """Share of the held-out tokens with the right label."""
    best: float | None = None
    """The highest `dev` so far."""

    @property
    def is_whole(self) -> bool:
        return self.batch == self.batches


@dataclass(frozen=True, repr=False)
class History(Pictured):
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

    def __repr__(self) -> str:
        texts = [f"{number_of(len(self.steps), 'step')} in {self.steps[-1].seconds if self.steps else 0:.1f} s"]
        texts.append(f"ended: {self.reason}")
        if self.steps:
            texts.append(f"loss {self.steps[0].loss:,.4f} to {self.steps[-1].loss:,.4f}")
            dev = self.steps[self.kept].dev
            texts.append(f"weights of step {self.kept + 1} kept{'' if dev is None else f', dev {100 * dev:.2f}'}")
        return f"History({', '.join(texts)})"

    def _repr_html_(self) -> str:
        """The learning curve, for notebooks."""
        return f"<div>{self!r}</div>{svg(self.pictures()) if len(self.steps) > 1 else ''}"

    def pictures(self) -> list[Picture]:
        """The loss, and the score on the held-out data if there is one; the iteration that was kept is marked."""

        def curve(name: str, field: str, colour: str, factor: float = 100.0) -> Curve:
            values = ((step.iteration, getattr(step, field)) for step in self.steps)
            # A loss that overflowed is not drawn.
            return Curve(name, colour, [(x, factor * y) for x, y in values if y is not None and math.isfinite(y)])

        unit = "epoch" if any(step.batches is not None for step in self.steps) else "iteration"
        kept = (self.steps[self.kept].iteration, "kept") if self.kept >= 0 else None
        charts: list[Picture] = [Chart("training loss", [curve("loss", "loss", "#2563eb", 1.0)], unit, kept)]
        named = (("precision", "precision", "#a3b8cc"), ("recall", "recall", "#d9b99b"), ("F1", "dev", "#c2410c"))
        scores = [curve(*line) for line in named]
        if scores[-1].points:
            charts.append(Chart("dev score", [line for line in scores if line.points], unit, kept))
        return charts

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The history of these values; fields that a later version adds to a step are ignored."""
        empty = {item.name: None for item in fields(Step)}
        known = ({name: step.get(name) for name in empty} for step in values["steps"])
        return cls(tuple(config.from_dict(Step, step) for step in known), values["reason"], values["kept"])


_PATIENCE = 2.0  # seconds of a training before anything is shown
Progress = Callable[[Step], None]
"""Called after each iteration. With an attribute `every`, it is also called during an epoch, every `every` seconds."""
Validate = Callable[[FloatArray], float | DevScores]


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
        texts[CURVE] = svg(history.pictures())
    return texts


def read_history(folder: str | Path) -> History | None:
    """The history of the training in this folder, if there is one."""
    path = Path(folder) / HISTORY
    values = read_json(path)
    try:
        return None if values is None else History.from_dict(values)
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise StoreError(f"{path} is not a training history: {error}") from None


class LiveLine:
    """Shows each step in place of the one before; the last one stays: ``progress=LiveLine()``.

    In a training in epochs, each epoch leaves its line, and a bar below it shows how far the next one is. Without a
    terminal, the bar becomes a line every half a minute, and of iterations only the last is shown. Best used as a
    context manager, which always restores the cursor. Nothing is shown in the first `delay` seconds of a training.
    """

    def __init__(self, console: Console | None = None, *, delay: float = 0.0) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=console or Console(stderr=True), auto_refresh=False, transient=False)
        self._nested = False
        self._last: Step | None = None
        self._delay = delay
        self.every = 0.1 if self._live.console.is_terminal else 30.0
        """Seconds between two updates within an epoch."""

    def __enter__(self) -> LiveLine:
        self._nested = True
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._last is not None:
            self._print(self._last)

    def __call__(self, step: Step) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        if step.seconds < self._delay:
            return
        if self._nested:
            self._live.start()
        if self._nested and step.batches is None and not self._live.console.is_terminal:
            self._last = step
        elif not self._nested or not self._live.console.is_terminal:
            self._print(step)
        elif step.batches is not None and step.is_whole:
            self._print(step)
            self._live.update(Text(""), refresh=True)
        else:
            line = Table.grid(padding=(0, 1))
            done, total = step.batch or 0.0, float(step.batches or 0)
            if step.batches is None and step.seconds_left is not None:  # of a limited number of iterations
                done, total = step.seconds, step.seconds + step.seconds_left
            bar = [ProgressBar(total=total, completed=done, width=24)] if total else []
            line.add_row(*bar, Text(describe(step)))
            self._live.update(line, refresh=True)

    def _print(self, step: Step) -> None:
        self._live.console.print(describe(step), soft_wrap=True, markup=False, highlight=False)


class NotebookLine:
    """Shows each step after the first `delay` seconds in place of the one before in the output of a notebook's cell."""

    every = 0.5

    def __init__(self, display: Callable[..., Any], delay: float) -> None:
        self._display, self._delay = display, delay
        self._handle: Any = None

    def __call__(self, step: Step) -> None:
        if step.seconds < self._delay:
            return
        limit = step.iterations
        share = 0.0 if step.is_whole else (step.batch or 0) / (step.batches or 1) - 1
        bar = f'<progress value="{step.iteration + share:.2f}" max="{limit}"></progress> ' if limit else ""
        shown = {"text/plain": describe(step), "text/html": f"<div>{bar}{describe(step)}</div>"}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


@contextmanager
def reporting(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """The function that a training calls: the one that is given, or a line on the screen while somebody watches.

    A training of less than two seconds shows nothing by itself; True shows every training, False none.
    """
    shell, delay = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), 0.0 if progress else _PATIENCE
    if callable(progress) or progress is False:
        yield progress or None
    elif getattr(shell, "kernel", None) is not None:
        yield NotebookLine(sys.modules["IPython"].display.display, delay)
    elif progress or sys.stderr.isatty():
        with LiveLine(delay=delay) as line:
            yield line
    else:
        yield None


def describe(step: Step) -> str:
    """One step in one line."""
    words = ["iteration" if step.batches is None else "epoch"]
    words[0] += f" {step.iteration}" + ("" if step.iterations is None else f"/{step.iterations}")
    if not step.is_whole:
        words.append(f"batch {step.batch}/{step.batches}")
    words.append(f"loss {step.loss:,.4f}")
    if step.gradient_norm is not None and step.batches is None:
        words.append(f"gradient {step.gradient_norm:.3g}")
    if step.dev is not None:
        words.append(f"dev {100 * step.dev:.2f}")
    if step.precision is not None and step.recall is not None:
        words.append(f"P {100 * step.precision:.2f}  R {100 * step.recall:.2f}")
        if step.accuracy is not None:
            words.append(f"acc {100 * step.accuracy:.2f}")
    if step.best is not None:
        words.append(f"best {100 * step.best:.2f}")
    if step.learning_rate is not None:
        words.append(f"rate {step.learning_rate:.3g}")
    if step.tokens_per_second is not None:
        words.append(f"{step.tokens_per_second:,.0f} tokens/s")
    words.append(f"{step.seconds:.1f} s")
    if step.seconds_left is not None:
        words.append(f"at most {step.seconds_left:.0f} s left")
    return "  ".join(words)
