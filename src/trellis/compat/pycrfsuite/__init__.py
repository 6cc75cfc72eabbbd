"""python-crfsuite's interface on Trellis: ``from trellis.compat import pycrfsuite``.

Names, parameters and messages are those of python-crfsuite 0.9.12. Models are files of CRFsuite: what `Trainer.train`
writes opens in CRFsuite with the same answers, and `Tagger.open` opens what CRFsuite wrote, without reading all of it.
The parameters ``linesearch`` and ``calibration.*`` change nothing: there is one line search, and one calibration.
Held-out sequences are scored once, when training has ended.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trellis import _native, chain, models
from trellis.arrays import FloatArray
from trellis.compat.pycrfsuite._logparser import TrainLogParser
from trellis.errors import DataError, ModelError, StoreError, did_you_mean, shown
from trellis.files import replacing
from trellis.lazy import cached
from trellis.models import crfsuite
from trellis.models.data import Labelled
from trellis.training import Step

__all__ = ["CRFSUITE_VERSION", "BaseTrainer", "CRFSuiteError", "ItemSequence", "Tagger", "Trainer"]

CRFSUITE_VERSION = "0.12.2"
__version__ = "0.9.12"


class CRFSuiteError(Exception):
    """The error of CRFsuite's own trainer; Trellis raises errors that say what is wrong instead."""


class ClosedError(ModelError, RuntimeError):
    """The tagger has no model."""


def _flag(value: Any) -> bool:
    return bool(int(value))


def _integer(value: Any) -> int:
    return int(float(value))


class _Parameter(NamedTuple):
    kind: Any
    default: Any
    help: str
    setting: str | None = None
    """The setting of `trellis.CRF`; without one, the parameter changes nothing."""


_ALL = {
    "feature.minfreq": _Parameter(float, 0.0, "How often a feature must occur at least.", "min_freq"),
    "feature.possible_states": _Parameter(
        _flag,
        False,
        "Also generate features of attributes and labels that never occur together.",
        "all_possible_states",
    ),
    "feature.possible_transitions": _Parameter(
        _flag, False, "Also generate features of transitions that never occur.", "all_possible_transitions"
    ),
}
_C2 = _Parameter(float, 1.0, "Coefficient of the L2 regularization.", "c2")
_PERIOD = _Parameter(_integer, 10, "Over how many iterations the improvement is measured to stop.", "period")


def _delta(default: float) -> _Parameter:
    return _Parameter(float, default, "Training stops when the loss has improved by less than this share.", "delta")


def _limit(default: int) -> _Parameter:
    return _Parameter(_integer, default, "The largest number of iterations.", "max_iterations")


def _epsilon(default: float, what: str) -> _Parameter:
    return _Parameter(float, default, f"Training stops when {what} is below this.", "epsilon")


_MISTAKES = {"max_iterations": _limit(100)}
_UNLIMITED = 2**31 - 1
_ALGORITHMS: dict[str, tuple[str, str, dict[str, _Parameter]]] = {  # our name, the heading of the log, parameters
    "lbfgs": (
        "lbfgs",
        "L-BFGS optimization",
        {
            "c1": _Parameter(float, 0.0, "Coefficient of the L1 regularization.", "c1"),
            "c2": _C2,
            "max_iterations": _limit(_UNLIMITED),
            "num_memories": _Parameter(_integer, 6, "How many steps approximate the inverse Hessian.", "memory"),
            "epsilon": _epsilon(1e-5, "the norm of the gradient over that of the weights"),
            "period": _PERIOD,
            "delta": _delta(1e-5),
            "linesearch": _Parameter(str, "MoreThuente", "MoreThuente, Backtracking or StrongBacktracking."),
            "max_linesearch": _Parameter(_integer, 20, "The largest number of trials per step.", "max_linesearch"),
        },
    ),
    "l2sgd": (
        "sgd",
        "Stochastic Gradient Descent (SGD)",
        {
            "c2": _C2,
            "max_iterations": _limit(1000),
            "period": _PERIOD,
            "delta": _delta(1e-6),
            "calibration.eta": _Parameter(float, 0.1, "The first rate that calibration tries."),
            "calibration.rate": _Parameter(float, 2.0, "By which factor calibration changes the rate."),
            "calibration.samples": _Parameter(float, 1000.0, "How many sequences calibration looks at."),
            "calibration.candidates": _Parameter(_integer, 10, "How many rates calibration compares."),
            "calibration.max_trials": _Parameter(_integer, 20, "The largest number of trials of calibration."),
        },
    ),
    "averaged-perceptron": (
        "ap",
        "Averaged perceptron",
        {**_MISTAKES, "epsilon": _epsilon(0.0, "the share of wrong labels")},
    ),
    "passive-aggressive": (
        "pa",
        "Passive Aggressive",
        {
            "type": _Parameter(_integer, 1, "0: without slack variables; 1: type I; 2: type II.", "pa_type"),
            "c": _Parameter(float, 1.0, "How aggressive an update is.", "aggressiveness"),
            "error_sensitive": _Parameter(_flag, True, "Whether more wrong labels cost more.", "error_sensitive"),
            "averaging": _Parameter(_flag, True, "Whether weights are averaged over all updates.", "averaging"),
            **_MISTAKES,
            "epsilon": _epsilon(0.0, "the mean loss"),
        },
    ),
    "arow": (
        "arow",
        "Adaptive Regularization of Weights (AROW)",
        {
            "variance": _Parameter(float, 1.0, "The variance of each weight at the beginning.", "variance"),
            "gamma": _Parameter(float, 1.0, "How much an update changes.", "gamma"),
            **_MISTAKES,
            "epsilon": _epsilon(0.0, "the mean loss"),
        },
    ),
}
_ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}


class ItemSequence:
    """The features of the items of a sequence, read once: for each a list of names, or a dict.

    Values of a dict are numbers, bools, texts (``{"w": "a"}`` is ``{"w:a": 1.0}``), or lists and dicts again.
    """

    def __init__(self, pyseq: Iterable[Any]) -> None:
        self._items: list[list[tuple[str, float]]]
        if isinstance(pyseq, ItemSequence):
            self._items = pyseq._items
        elif isinstance(pyseq, str | bytes):
            raise DataError(f"expected a sequence with the features of each item, got {shown(pyseq)}")
        else:
            self._items = [list(_attributes(item)) for item in pyseq]

    def items(self) -> list[dict[str, float]]:
        """For each item its features by name."""
        return [dict(item) for item in self._items]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"

    @cached
    def ready(self) -> list[dict[str, float]]:
        """Features by name; values of those that occur several times in an item are added up, as they would be."""
        sums = []
        for item in self._items:
            sums.append(dict.fromkeys((name for name, _ in item), 0.0))
            for name, value in item:
                sums[-1][name] += value
        return sums


def _attributes(item: Any, prefix: str = "") -> Iterable[tuple[str, float]]:
    if isinstance(item, str | bytes):
        raise DataError(f"the features of an item must be a dict, list or set, got {shown(item)}")
    for key in item:
        if not isinstance(key, str | bytes):
            raise DataError(f"a feature's name must be a string, got {shown(key)}")
        name = prefix + _text(key)
        value = item[key] if isinstance(item, dict) else 1.0
        if isinstance(value, dict | list | set):
            yield from _attributes(value, f"{name}:")
        elif isinstance(value, str | bytes):
            yield f"{name}:{_text(value)}", 1.0
        else:
            try:
                yield name, float(value)
            except (TypeError, ValueError):
                raise DataError(f"feature {name!r} must be a string, a number or a bool, got {shown(value)}") from None


def _text(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text


def _sequence(xseq: Any) -> Any:
    """The items as a list or tuple, which native code reads."""
    if isinstance(xseq, list | tuple):
        return xseq
    return xseq.ready if isinstance(xseq, ItemSequence) else list(xseq)


class Unchanging(tuple[Any, ...]):
    """A sequence whose items stay as they are until the training has ended, so that none is copied."""


def _snapshot(item: Any) -> Any:
    """The features of an item as they are now."""
    if isinstance(item, dict):
        if any(isinstance(value, dict | list | set) for value in item.values()):
            return {
                key: _snapshot(value) if isinstance(value, dict | list | set) else value for key, value in item.items()
            }
        return item.copy()
    return list(item) if not isinstance(item, str | bytes) else item


@dataclass(frozen=True)
class ParsedDump:
    """All parts of a model; numbers in `header`, `labels` and `attributes` are strings, as in CRFsuite's dumps."""

    header: dict[str, str]
    labels: dict[str, str]
    attributes: dict[str, str]
    transitions: dict[tuple[str, str], float]
    state_features: dict[tuple[str, str], float]


class Tagger:
    """Labels sequences with a model that CRFsuite or `Trainer` wrote."""

    _model: _native.CrfsuiteModel | None = None

    def __init__(self) -> None:
        self._sequence: Any = None
        self._scored: chain.ChainScores | None = None

    def open(self, name: str | os.PathLike[str]) -> closing[Tagger]:
        """Open the file with this name; the result closes it at the end of a ``with``."""
        with open(name, "rb") as file:
            return self._open(file.read(), os.fspath(name))

    def open_inmemory(self, value: bytes) -> closing[Tagger]:
        """Open a model that is the content of a file."""
        return self._open(value, "the model in memory")

    def _open(self, data: bytes, where: str) -> closing[Tagger]:
        try:
            model = _native.CrfsuiteModel(np.frombuffer(data, dtype=np.uint8))
            self._labels: list[str] = model.labels
        except ValueError as error:
            raise StoreError(f"{where} is no CRFsuite model: {error}") from None
        L = len(self._labels)
        self._model, self._data, self._where, self._sequence, self._scored = model, data, where, None, None
        self._numbers = {label: i for i, label in enumerate(self._labels)}
        self._transitions: FloatArray = model.transitions.reshape(L, L)
        self._ends = np.zeros(L)
        self._labeller = _native.Labeller(self._labels, self._transitions, self._ends, self._ends)
        return closing(self)

    def close(self) -> None:
        self._model = None

    def _opened(self) -> _native.CrfsuiteModel:
        if self._model is None:
            raise ClosedError("The tagger is not opened: call open first")
        return self._model

    def labels(self) -> list[str]:
        self._opened()
        return list(self._labels)

    def set(self, xseq: Any) -> None:
        """Set the sequence that `tag`, `probability` and `marginal` are about."""
        self._opened()
        self._sequence, self._scored = _sequence(xseq), None

    def tag(self, xseq: Any = None) -> list[str]:
        """The best labels of the sequence, or of the one that was set."""
        if xseq is not None:
            self.set(xseq)
        return self.tag_all([self._current()])[0]

    def tag_all(self, sequences: Sequence[Any]) -> list[list[str]]:
        """The best labels of each sequence, as lists."""
        model = self._opened()
        try:
            best = model.best(sequences, self._labeller)
        except ValueError as error:
            raise DataError(str(error)) from None
        if best is None:
            self.scores(sequences).viterbi()  # which says why
            raise AssertionError
        return best

    def scores(self, sequences: Sequence[Any]) -> chain.ChainScores:
        """The distribution of the labels of each sequence."""
        try:
            emissions, offsets = self._opened().score(sequences)
        except ValueError as error:
            raise DataError(str(error)) from None
        lengths = np.diff(offsets)
        return chain.ChainScores(
            emissions.reshape(-1, len(self._labels)), lengths, self._transitions, self._ends, self._ends
        )

    def probability(self, yseq: Sequence[str]) -> float:
        """The probability of these labels."""
        scores = self._current_scores()
        labels = np.array([self._number(label) for label in yseq], dtype=np.int64)
        if len(labels) != len(scores.emissions):
            raise DataError(
                f"The numbers of items and labels differ: |x| = {len(scores.emissions)}, |y| = {len(labels)}"
            )
        return float(np.exp(scores.score(labels) - scores.log_partition())[0])

    def marginal(self, y: str, pos: int) -> float:
        """The probability of one label at one position."""
        tokens = self._marginals()
        if not 0 <= pos < len(tokens):
            raise DataError(f"The position {pos} is out of range of {len(tokens)}")
        return float(tokens[pos, self._number(y)])

    def marginals(self, sequences: Sequence[Any]) -> list[list[dict[str, float]]]:
        """The probability of each label of each item of each sequence."""
        scores = self.scores(sequences)
        rows = iter(scores.marginals().tokens.tolist())
        return [[dict(zip(self._labels, next(rows), strict=True)) for _ in range(n)] for n in scores.lengths.tolist()]

    def info(self) -> ParsedDump:
        """Names and weights."""
        self._opened()
        return _parsed(self._data, self._where)

    def dump(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write the model as text, to standard output if no file is named."""
        info = self.info()
        weights = (("TRANSITIONS", "1", info.transitions), ("STATE_FEATURES", "0", info.state_features))
        lines = ["FILEHEADER = {", *(f"  {name}: {value}" for name, value in info.header.items()), "}", ""]
        for title, names in (("LABELS", info.labels), ("ATTRIBUTES", info.attributes)):
            lines += [f"{title} = {{", *(f"  {number:>5}: {name}" for name, number in names.items()), "}", ""]
        for title, code, pairs in weights:
            lines += [f"{title} = {{", *(f"  ({code}) {a} --> {b}: {w:f}" for (a, b), w in pairs.items()), "}", ""]
        text = "\n".join([*lines, ""])
        if filename is None:
            sys.stdout.write(text)
        else:
            with replacing(filename) as partial:
                partial.write_text(text, encoding="utf-8")

    def _current(self) -> Any:
        self._opened()
        if self._sequence is None:
            raise ModelError("no sequence is set: call set first, or give one")
        return self._sequence

    def _current_scores(self) -> chain.ChainScores:
        if self._scored is None:
            self._scored = self.scores([self._current()])
            self._probabilities: FloatArray | None = None
        return self._scored

    def _marginals(self) -> FloatArray:
        scores = self._current_scores()
        if self._probabilities is None:
            self._probabilities = scores.marginals().tokens
        return self._probabilities

    def _number(self, label: str) -> int:
        if label not in self._numbers:
            raise _UnknownLabelError(f"Failed to convert into label identifier: {label}")
        return self._numbers[label]


class _UnknownLabelError(ModelError, RuntimeError):
    """The model has no such label."""


def _parsed(data: bytes, where: str) -> ParsedDump:
    stored = crfsuite.read(data, where)
    labels = stored.manifest.values["labels"]
    texts, lengths = stored.arrays["attributes"].tobytes(), stored.arrays["attributes.lengths"].astype(np.int64)
    ends = np.cumsum(lengths).tolist()
    names = [texts[end - size : end].decode() for end, size in zip(ends, lengths.tolist(), strict=True)]
    owners = np.repeat(np.arange(len(names)), stored.arrays["pair_counts"].astype(np.int64)).tolist()
    pairs = zip(owners, stored.arrays["pair_labels"].tolist(), stored.arrays["pair_weights"].tolist(), strict=True)
    steps, weights = np.argwhere(stored.arrays["weighted"]).tolist(), stored.arrays["transitions"]
    number = [int.from_bytes(data[at : at + 4], "little") for at in range(0, 48, 4)]
    fields = ("size", 1), ("version", 3), ("num_features", 4), ("num_labels", 5), ("num_attrs", 6)
    offsets = ("off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs")
    header = {"magic": "lCRF"} | {name: str(number[at]) for name, at in fields}
    header = {**dict(list(header.items())[:2]), "type": "FOMC", **dict(list(header.items())[2:])}
    header |= {name: f"0x{number[at]:X}" for at, name in enumerate(offsets, 7)}
    return ParsedDump(
        header,
        {label: str(i) for i, label in enumerate(labels)},
        {name: str(i) for i, name in enumerate(names)},
        {(labels[i], labels[j]): float(weights[i, j]) for i, j in steps},
        {(names[attribute], labels[label]): weight for attribute, label, weight in pairs},
    )


class BaseTrainer:
    """Learns a model from the sequences that are appended to it, and writes it as a file of CRFsuite.

    Args:
        algorithm: "lbfgs" (the default), "l2sgd", "ap", "pa" or "arow".
        params: parameters by name.
        verbose: whether messages are printed.

    """

    verbose: bool
    _sequences: list[tuple[list[Any], list[str], int]]

    def __init__(
        self, algorithm: str | None = None, params: Mapping[str, Any] | None = None, verbose: bool = True
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Subclasses need not call the constructor."""
        trainer = super().__new__(cls)
        trainer._sequences = []
        trainer.verbose = True
        trainer.select("lbfgs")
        return trainer

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose the algorithm; its parameters have their defaults then."""
        name = algorithm.lower() if isinstance(algorithm, str) else ""
        name = _ALIASES.get(name, name)
        if name not in _ALGORITHMS:
            raise ModelError(
                f"algorithm {algorithm!r} is not available here: choose one of lbfgs, l2sgd, ap, pa and arow"
            )
        if type != "crf1d":
            raise ModelError(f"type must be crf1d, got {type!r}")
        self._algorithm = name
        self._parameters = _ALL | _ALGORITHMS[name][2]
        self._values = {name: parameter.default for name, parameter in self._parameters.items()}

    def append(self, xseq: Any, yseq: Iterable[str], group: int = 0) -> None:
        """Add a sequence with its labels; `group` is what `train` can hold out."""
        items = list(xseq) if isinstance(xseq, Unchanging) else [_snapshot(item) for item in _sequence(xseq)]
        labels = [_text(label) if isinstance(label, str | bytes) else label for label in yseq]
        if len(items) != len(labels):
            raise DataError(f"The numbers of items and labels differ: |x| = {len(items)}, |y| = {len(labels)}")
        for label in labels:
            if not isinstance(label, str):
                raise TypeError(f"a label must be a string, got {shown(label)}")
        self._sequences.append((items, labels, group))

    def clear(self) -> None:
        self._sequences.clear()

    def params(self) -> list[str]:
        return list(self._parameters)

    def set_params(self, params: Mapping[str, Any]) -> None:
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        return dict(self._values)

    def set(self, name: str, value: Any) -> None:
        parameter = self._known(name)
        try:
            number = parameter.kind(value)
        except (TypeError, ValueError, OverflowError):
            kind = {_integer: "an integer", _flag: "0 or 1"}.get(parameter.kind, "a number")
            raise ModelError(f"{name} must be {kind}, got {shown(value)}") from None
        if name in ("num_memories", "c") and not 0 < number < math.inf:
            raise ModelError(f"{name} must be a finite number > 0, got {shown(value)}")
        self._values[name] = number

    def get(self, name: str) -> Any:
        self._known(name)
        return self._values[name]

    def help(self, name: str) -> str:
        return self._known(name).help

    def _known(self, name: str) -> _Parameter:
        if name not in self._parameters:
            raise ModelError(f"Parameter not found: {name}{did_you_mean(name, self._parameters)}")
        return self._parameters[name]

    def message(self, message: str) -> None:
        """Called with each message; prints it if the trainer is verbose."""
        if self.verbose:
            sys.stdout.write(message)

    def _before_train(self) -> None:
        pass

    def train(self, model: str | os.PathLike[str], holdout: int = -1) -> None:
        """Learn from the sequences, and write the model to a file, or nowhere if its name is empty.

        Args:
            model: the name of the file.
            holdout: sequences of this group are only scored; -1 holds out none.

        """
        self._before_train()
        kept = [sequence for sequence in self._sequences if holdout < 0 or sequence[2] != holdout]
        held_out = [sequence for sequence in self._sequences if holdout >= 0 and sequence[2] == holdout]
        log = _TrainingLog(self, holdout)
        labels = list(dict.fromkeys(label for _, labels, _ in self._sequences for label in labels))
        fitted: models.CRF | None = None
        if any(items for items, _, _ in kept):
            # Labels that only held-out sequences have are labels too: items without features have them, and count 0.
            known = {label for _, labels, _ in kept for label in labels}
            absent: list[tuple[list[Any], list[str], int]] = [
                ([{}], [label], 0) for label in labels if label not in known
            ]
            data = Labelled.of(*zip(*((items, labels) for items, labels, _ in [*kept, *absent]), strict=True))
            counts = [1.0] * len(kept) + [0.0] * len(absent) if absent else None
            fitted = models.CRF(**self._settings())
            fitted.fit(data.inputs, data.labels, sentence_weights=counts, progress=log.step)
            file = crfsuite.to_bytes(fitted, labels)
        else:
            labels, file = [], crfsuite.empty()
        tagger = Tagger()
        with tagger.open_inmemory(file):
            log.end(fitted, tagger, held_out)
        if os.fspath(model):
            with replacing(model) as partial:
                partial.write_bytes(file)

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            parameter.setting: self._values[name]
            for name, parameter in self._parameters.items()
            if parameter.setting is not None
        }
        if settings["max_iterations"] == _UNLIMITED:
            del settings["max_iterations"]
        fixed = {"features": "given", "constraints": False, "scheme": "plain", "prune": 0.0, "fold_width": False}
        return settings | fixed | {"algorithm": _ALGORITHMS[self._algorithm][0]}


class Trainer(BaseTrainer):
    """A trainer that reads its own messages: `logparser` has the figures of each iteration."""

    logparser: TrainLogParser | None = None

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()

    def message(self, message: str) -> None:
        """Called with each message; calls the method ``on_...`` of what has ended, if the trainer is verbose."""
        parser = self.logparser
        assert parser is not None
        event = parser.feed(message)
        if event is None or not self.verbose:
            return
        further = {"featgen_progress": parser.featgen_percent, "iteration": parser.last_iteration}
        getattr(self, f"on_{event}")(parser.last_log, *([further[event]] if event in further else []))

    def on_start(self, log: str) -> None:
        sys.stdout.write(log)

    def on_featgen_progress(self, log: str, percent: int) -> None:
        sys.stdout.write(log)

    def on_featgen_end(self, log: str) -> None:
        sys.stdout.write(log)

    def on_prepared(self, log: str) -> None:
        sys.stdout.write(log)

    def on_prepare_error(self, log: str) -> None:
        """Called if there is nothing to learn."""
        sys.stdout.write(log)

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        sys.stdout.write(log)

    def on_optimization_end(self, log: str) -> None:
        sys.stdout.write(log)

    def on_end(self, log: str) -> None:
        sys.stdout.write(log)


class _TrainingLog:
    """Messages of a training, worded as CRFsuite words them. An iteration is told when the next one is known."""

    def __init__(self, trainer: BaseTrainer, holdout: int) -> None:
        self.trainer, self._pending, self._seconds = trainer, list[str](), 0.0
        values = trainer.get_params()
        self._heading = [f"{_ALGORITHMS[trainer._algorithm][1]}\n"]
        self._heading += [f"{name}: {_spelled(value)}\n" for name, value in values.items() if name not in _ALL]
        first = [] if holdout < 0 else [f"Holdout group: {holdout + 1}\n", "\n"]
        features = [f"{name}: {_spelled(values[name])}\n" for name in _ALL]
        self._say(*first, "Feature generation\n", "type: CRF1d\n", *features)

    def step(self, step: Step) -> None:
        """Tell of the iteration before, and remember this one."""
        if not self._pending:
            self._prepared(step.seconds)
        else:
            self._say(*self._pending, "\n")
        name = "Epoch" if self.trainer._algorithm == "l2sgd" else "Iteration"
        norm = [] if step.gradient_norm is None else [f"Error norm: {step.gradient_norm:f}\n"]
        seconds, self._seconds = step.seconds - self._seconds, step.seconds
        self._pending = [f"***** {name} #{step.iteration} *****\n", f"Loss: {step.loss:f}\n", *norm]
        self._pending.append(f"Seconds required for this iteration: {seconds:.3f}\n")

    def end(self, model: models.CRF | None, tagger: Tagger, held_out: list[tuple[list[Any], list[str], int]]) -> None:
        """Tell of the last iteration, with figures of the sequences held out, and of the model."""
        attributes, features = 0, 0
        if model is not None:
            p = model.parameters_
            weights = np.concatenate([p.weights, p.transitions[p.weighted]])
            attributes, features = len(p.index), int(np.count_nonzero(weights))
            self._pending[2:2] = [f"Feature norm: {np.linalg.norm(weights):f}\n", f"Active features: {features}\n"]
            self._say(*self._pending, *(_figures(tagger, held_out) if held_out else ()), "\n")
        else:
            self._prepared(0.0)
            self._say("Training terminated with error: there is nothing to learn from\n")
        self._say(f"Total seconds required for training: {self._seconds:.3f}\n", "\n", "Storing the model\n")
        for name, count in (("features", features), ("attributes", attributes), ("labels", len(tagger.labels()))):
            self._say(f"Number of active {name}: {count} ({count})\n")
        self._say("Seconds required: 0.000\n", "\n")

    def _prepared(self, seconds: float) -> None:
        for percent in range(11):
            self._say(str(percent), *("...." if percent < 10 else ""))
        self._say("\n", f"Seconds required: {seconds:.3f}\n", "\n", *self._heading, "\n")

    def _say(self, *messages: str) -> None:
        for message in messages:
            self.trainer.message(message)


def _spelled(value: Any) -> str:
    return f"{value:f}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)


def _figures(tagger: Tagger, held_out: list[tuple[list[Any], list[str], int]]) -> Iterable[str]:
    """Figures of the labels of held-out sequences, and their means over all labels."""
    if not tagger.labels():
        return
    predicted = tagger.tag_all([items for items, _, _ in held_out])
    gold = [labels for _, labels, _ in held_out]
    pairs = [pair for true, guess in zip(gold, predicted, strict=True) for pair in zip(true, guess, strict=True)]
    match, ref, model = (
        Counter(t for t, g in pairs if t == g),
        Counter(t for t, _ in pairs),
        Counter(g for _, g in pairs),
    )
    yield "Performance by label (#match, #model, #ref) (precision, recall, F1):\n"
    sums = np.zeros(3)
    labels = dict.fromkeys([*tagger.labels(), *ref])
    for label in labels:
        m, p, r = match[label], model[label], ref[label]
        figures, shown_figures = (0.0, 0.0, 0.0), "******, ******, ******"
        if r:
            figures = (m / p if p else 0.0, m / r, 2 * m / (p + r))
            shown_figures = ", ".join(f"{figure:.4f}" for figure in figures)
        sums += figures
        yield f"    {label}: ({m}, {p}, {r}) ({shown_figures})\n"
    yield "Macro-average precision, recall, F1: ({:f}, {:f}, {:f})\n".format(*(sums / max(len(labels), 1)))
    right = sum(true == guess for true, guess in zip(gold, predicted, strict=True))
    for name, part, whole in (("Item", sum(match.values()), len(pairs)), ("Instance", right, len(gold))):
        yield f"{name} accuracy: {part} / {whole} ({part / max(whole, 1):.4f})\n"
