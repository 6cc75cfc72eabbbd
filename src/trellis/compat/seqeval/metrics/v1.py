"""Strict mode, with seqeval's module name: only well-formed spans of the given scheme count."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trellis.compat.seqeval.metrics._scoring import (
    ALL_METRICS,
    Average,
    Scores,
    ZeroDivision,
    check_options,
    check_types,
    count,
    figures,
    report,
)
from trellis.compat.seqeval.scheme import Entities, Token, auto_detect
from trellis.errors import ConfigError
from trellis.metrics.prf import check_aligned

Tags = list[list[str]]


def unique_labels(y_true: Tags, y_pred: Tags, scheme: type[Token], suffix: bool = False) -> list[str]:
    """The types of all well-formed spans, by name."""
    return sorted(Entities([*y_true, *y_pred], scheme, suffix).unique_tags)


def check_consistent_length(y_true: Tags, y_pred: Tags) -> None:
    """Both must be lists of lists of equal lengths."""
    check_types(y_true, y_pred)
    check_aligned(y_true, y_pred)


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
    check_consistent_length(y_true, y_pred)
    counts = count(y_true, y_pred, suffix, scheme or auto_detect(y_true, suffix))
    return report(counts, digits=digits, output_dict=output_dict, zero_division=zero_division)
