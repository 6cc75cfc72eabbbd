"""`TrainLogParser`: what the messages of a training say, as numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

_NUMBER = r"(-?[\d.]+(?:e[-+]?\d+)?)"
_FIELDS: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("loss", "Loss", float),
    ("feature_norm", "Feature norm", float),
    ("error_norm", "Error norm", float),
    ("active_features", "Active features", int),
    ("linesearch_trials", "Line search trials", int),
    ("linesearch_step", "Line search step", float),
    ("time", "Seconds required for this iteration", float),
)
_ITERATION = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}$")
_MACRO = re.compile(rf"Macro-average precision, recall, F1: \({_NUMBER}, {_NUMBER}, {_NUMBER}\)")
_ACCURACY = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")
_LABEL = re.compile(r" {4}(.+): \((\d+), (\d+), (\d+)\) \(([\d.]+|\*+), ([\d.]+|\*+), ([\d.]+|\*+)\)$")


class LabelScore(NamedTuple):
    """Held-out figures of one label: right, predicted and true items, and None for what has no value."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


class TrainLogParser:
    """Reads the messages of a trainer one by one; `iterations` has a dict for each iteration."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []

    def feed(self, line: str) -> str | None:
        """Read the next message; the event that it ends, if it ends one."""
        self.log.append(line)
        if self.state is None:
            event: str | None = "start"
            self.state = "FEATGEN" if line.startswith("Feature generation") else "STARTING"
        else:
            event = self._event(line)
        if event is not None:
            # The line that begins an iteration or the storage belongs to what comes next.
            end = len(self.log) - (event in ("prepared", "optimization_end"))
            self.events.append((event, self.events[-1][2] if self.events else 0, end))
        return event

    @property
    def last_log(self) -> str:
        """The messages of the last event."""
        _, begin, end = self.events[-1]
        return "".join(self.log[begin:end])

    def _event(self, line: str) -> str | None:
        if self.state == "STARTING":
            if line.startswith("Feature generation"):
                self.state = "FEATGEN"
        elif self.state == "FEATGEN":
            if line == "." or line.isdigit():
                self.featgen_percent += 2
                return "featgen_progress"
            if (count := _value("Number of features", line)) is not None:
                self.featgen_num_features = int(count)
            elif (seconds := _value("Seconds required", line)) is not None:
                self.featgen_seconds, self.state = float(seconds), "AFTER_FEATGEN"
                return "featgen_end"
        elif self.state == "STORING":
            if line == "\n":
                return "end"
            if (seconds := _value("Seconds required", line)) is not None:
                self.storing_seconds = float(seconds)
        elif (begins := _ITERATION.match(line)) is not None:
            prepared = self.state == "AFTER_FEATGEN"
            self.last_iteration, self.state = {"num": int(begins[1]), "scores": {}}, "ITERATION"
            self.iterations.append(self.last_iteration)
            return "prepared" if prepared else None
        elif self.state == "ITERATION":
            if line == "\n":
                self.state = "AFTER_ITERATION"
                return "iteration"
            self._read_figure(line)
        elif self.state == "AFTER_FEATGEN" and "terminated with error" in line:
            self.state = "AFTER_ITERATION"
            return "prepare_error"
        elif (seconds := _value("Total seconds required for training", line)) is not None:
            self.training_seconds = float(seconds)
        elif self.state == "AFTER_ITERATION" and line.startswith("Storing the model"):
            self.state = "STORING"
            return "optimization_end"
        return None

    def _read_figure(self, line: str) -> None:
        last = self.last_iteration
        assert last is not None
        for name, heading, kind in _FIELDS:
            if (value := _value(heading, line)) is not None:
                last[name] = kind(value)
        if macro := _MACRO.match(line):
            names = ("avg_precision", "avg_recall", "avg_f1")
            last |= dict(zip(names, map(float, macro.groups()), strict=True))
        if (accuracy := _ACCURACY.match(line)) and int(accuracy[3]):
            share = Fraction(int(accuracy[2]), int(accuracy[3]))
            name = f"{accuracy[1].lower()}_accuracy"
            last |= {name: share, f"{name}_float": float(share)}
        if label := _LABEL.match(line):
            figures = (None if "*" in figure else float(figure) for figure in label.groups()[4:])
            last["scores"][label[1]] = LabelScore(*map(int, label.groups()[1:4]), *figures)


def _value(heading: str, line: str) -> str | None:
    found = re.match(rf"{re.escape(heading)}: {_NUMBER}", line)
    return None if found is None else found[1]
