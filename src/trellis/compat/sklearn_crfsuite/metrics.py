"""``sklearn_crfsuite.metrics``: scikit-learn's metrics over the flat labels of all sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from trellis.compat.sklearn_crfsuite.utils import flatten

__all__ = [
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]

Labels = Sequence[Sequence[str]]


def _flattens_y(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(y_true: Labels, y_pred: Labels, *args: Any, **kwargs: Any) -> Any:
        return function(flatten(y_true), flatten(y_pred), *args, **kwargs)

    return wrapper


def _sklearn() -> Any:
    """scikit-learn's metrics, loaded when first asked for."""
    from sklearn import metrics  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return metrics


@_flattens_y
def flat_accuracy_score(y_true: Any, y_pred: Any) -> Any:
    """Share of items with the right label."""
    return _sklearn().accuracy_score(y_true, y_pred)


@_flattens_y
def flat_precision_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    return _sklearn().precision_score(y_true, y_pred, **kwargs)


@_flattens_y
def flat_recall_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    return _sklearn().recall_score(y_true, y_pred, **kwargs)


@_flattens_y
def flat_f1_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    return _sklearn().f1_score(y_true, y_pred, **kwargs)


@_flattens_y
def flat_fbeta_score(y_true: Any, y_pred: Any, beta: float, **kwargs: Any) -> Any:
    return _sklearn().fbeta_score(y_true, y_pred, beta=beta, **kwargs)


@_flattens_y
def flat_classification_report(y_true: Any, y_pred: Any, labels: Any = None, **kwargs: Any) -> Any:
    return _sklearn().classification_report(y_true, y_pred, labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Share of sequences that are right in every item."""
    if not len(y_true):
        return 0
    return sum(list(a) == list(b) for a, b in zip(y_true, y_pred, strict=True)) / len(y_true)
