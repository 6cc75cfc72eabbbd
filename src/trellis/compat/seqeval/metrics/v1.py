"""Strict mode, with seqeval's module name: only well-formed spans of the given scheme count.

What both modes share is here, too: counts of spans, figures with seqeval's rules for empty counts, the report.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.compat.seqeval.scheme import TagTypeError, Token, auto_detect, scheme_alphabet
from trellis.errors import ConfigError, shown
from trellis.metrics.entities import compare, tally
from trellis.metrics.prf import Tally, check_aligned, divide, f_measure
from trellis.tags import Role
from trellis.tags.spans import Alphabet

Tags = list[list[str]]
Average = Literal["micro", "macro", "weighted"] | None
ZeroDivision = Literal["warn", 0, 1]
Scores = tuple[Any, Any, Any, Any]  # floats and an int with an average, arrays without
ALL_METRICS = ("precision", "recall", "f-score")
_AVERAGES = (None, "micro", "macro", "weighted")
_ENTITY_LETTERS = "BIES"
_HEADINGS = ("precision", "recall", "f1-score", "support")
_MOST_DIGITS = 100


class UndefinedMetricWarning(UserWarning):
    """A figure is undefined and set to 0. If scikit-learn is loaded, its class of this name is used."""


def default_alphabet(suffix: bool) -> Alphabet:
    """Labels as seqeval's default mode reads them: any letter is accepted, and a hyphen is not needed."""

    def parse(label: str) -> tuple[Role, str]:
        if suffix:
            letter, kind = label[-1], label[:-1].rsplit("-", maxsplit=1)[0]
        else:
            letter, kind = label[0], label[1:].split("-", maxsplit=1)[-1]
        hyphen = label[-2:-1] if suffix else label[1:2]
        if label not in (*_ENTITY_LETTERS, "O") and not (letter in _ENTITY_LETTERS and hyphen == "-"):
            warnings.warn(f"{label} does not look like an entity tag", stacklevel=2)
        role = Role.DOT if letter == "." else Role[letter] if letter in ("O", *_ENTITY_LETTERS) else Role.OTHER
        return role, kind or "_"

    return Alphabet(parse, outside="_")


def check_types(y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]]) -> None:
    """Refuse tags that are not lists of lists."""
    for name, side in (("y_true", y_true), ("y_pred", y_pred)):
        if not isinstance(side, Sequence | np.ndarray) or not set(map(type, side)) <= {list}:
            raise TagTypeError(f"{name} must be a list of lists of tags, got {shown(side)}")
    if len(y_true) == len(y_pred) == 0:
        raise TagTypeError("y_true and y_pred must be lists of lists of tags, got two empty lists")


def count(y_true: list[list[str]], y_pred: list[list[str]], suffix: bool, scheme: type[Token] | None = None) -> Tally:
    """Spans by type: strict reading with a scheme, the default reading without."""
    check_types(y_true, y_pred)
    if scheme is None:
        return tally(compare(y_true, y_pred, default_alphabet(suffix)))
    return tally(compare(y_true, y_pred, scheme_alphabet(scheme, suffix), scheme.tables()))


def check_options(average: str | None, beta: float) -> None:
    """Refuse an average or a beta that has no meaning."""
    if beta < 0:
        raise ConfigError(f"beta must not be negative, got {beta}")
    if average not in _AVERAGES:
        raise ConfigError(f"average must be one of {_AVERAGES}, got {average!r}")


def figures(
    counts: Tally,
    *,
    average: str | None,
    warn_for: Collection[str] = ALL_METRICS,
    beta: float = 1.0,
    zero_division: ZeroDivision = "warn",
) -> Scores:
    """Precision, recall, F and support, per type or averaged."""
    correct, predicted, gold = counts[1:]
    warn_for = tuple(warn_for) if zero_division == "warn" else ()
    no_mean = average == "macro" and not len(gold)  # seqeval gives NaN and NumPy's RuntimeWarning
    if no_mean and warn_for:
        _warn("Macro average", "no types", RuntimeWarning)
        warn_for = ()
    if average == "micro" or no_mean:
        correct, predicted, gold = (column.sum(keepdims=True) for column in (correct, predicted, gold))
    zero = 0.0 if zero_division in ("warn", 0) else 1.0
    precision = _ratio(correct, predicted, "precision", zero, warn_for)
    recall = _ratio(correct, gold, "recall", zero, warn_for)
    if warn_for == ("f-score",) and np.any((gold == 0) & (predicted == 0)):
        _warn("F-score", "neither true nor predicted spans", _undefined_metric())
    f_score = f_measure(precision, recall, beta=beta)
    if average is None:
        return precision, recall, f_score, gold
    if average == "weighted" and gold.sum() == 0:
        nothing = zero if predicted.sum() == 0 else 0.0
        return nothing, zero, nothing, int(gold.sum())
    weights = gold if average == "weighted" else None
    means = (np.average(values, weights=weights) for values in (precision, recall, f_score))
    return (*means, gold.sum())


def _ratio(correct: IntArray, total: IntArray, metric: str, zero: float, warn_for: tuple[str, ...]) -> FloatArray:
    if metric in warn_for and np.any(total == 0):
        names = metric.capitalize() + (" and F-score" if "f-score" in warn_for else "")
        _warn(names, f"no {'predicted' if metric == 'precision' else 'true'} spans", _undefined_metric())
    return divide(correct, total, zero=zero)


def _undefined_metric() -> type[Warning]:
    loaded = sys.modules.get("sklearn.exceptions")
    category: type[Warning] = getattr(loaded, "UndefinedMetricWarning", UndefinedMetricWarning)
    return category


def _warn(names: str, lacking: str, category: type[Warning]) -> None:
    message = f"{names} undefined since there are {lacking}; set to 0.0 (zero_division chooses another value)"
    warnings.warn(message, category, stacklevel=2)


def report(counts: Tally, *, digits: int, output_dict: bool, zero_division: ZeroDivision) -> str | dict[str, Any]:
    """One row per type, then the averages."""
    if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= _MOST_DIGITS:
        raise ConfigError(f"digits must be an integer from 0 to {_MOST_DIGITS}, got {shown(digits)}")
    types = list(zip(counts.names, *figures(counts, average=None, zero_division=zero_division), strict=True))
    averages = [
        (f"{average} avg", *figures(counts, average=average, zero_division=zero_division)) for average in _AVERAGES[1:]
    ]
    if output_dict:
        return {name: dict(zip(_HEADINGS, values, strict=True)) for name, *values in (*types, *averages)}
    width = max(len("weighted avg"), digits, *map(len, counts.names))

    def line(name: str, cells: Sequence[str]) -> str:
        return f"{name:>{width}} " + "".join(f" {cell:>9}" for cell in cells)

    lines = [line("", _HEADINGS), ""]
    for rows in (types, averages):
        for name, *values, support in rows:
            lines.append(line(name, [*(f"{value:.{digits}f}" for value in values), str(support)]))
        lines.append("")
    return "\n".join(lines)


def precision_recall_fscore_support(
    y_true: Tags,
    y_pred: Tags,
    *,
    average: Average = None,
    warn_for: Collection[str] = ALL_METRICS,
    beta: float = 1.0,
    sample_weight: list[int] | None = None,
    zero_division: ZeroDivision = "warn",
    scheme: type[Token] | None = None,
    suffix: bool = False,
) -> Scores:
    """Figures per type or averaged; ``sample_weight`` is accepted and, as in seqeval, has no effect."""
    check_options(average, beta)
    if scheme is None:
        raise ConfigError("strict mode needs a scheme, for example scheme=IOB2")
    counts = count(y_true, y_pred, suffix, scheme)
    return figures(counts, average=average, warn_for=warn_for, beta=beta, zero_division=zero_division)


def classification_report(
    y_true: Tags,
    y_pred: Tags,
    *,
    sample_weight: list[int] | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: ZeroDivision = "warn",
    suffix: bool = False,
    scheme: type[Token] | None = None,
) -> str | dict[str, Any]:
    """The report of strict mode; without a scheme it is detected from ``y_true``."""
    check_types(y_true, y_pred)
    check_aligned(y_true, y_pred)
    counts = count(y_true, y_pred, suffix, scheme or auto_detect(y_true, suffix))
    return report(counts, digits=digits, output_dict=output_dict, zero_division=zero_division)
