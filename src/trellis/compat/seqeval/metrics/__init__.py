"""The functions of ``seqeval.metrics``."""

from __future__ import annotations

from trellis.compat.seqeval.metrics.sequence_labeling import (
    accuracy_score,
    classification_report,
    f1_score,
    performance_measure,
    precision_score,
    recall_score,
)
from trellis.compat.seqeval.metrics.v1 import UndefinedMetricWarning

__all__ = [
    "UndefinedMetricWarning",
    "accuracy_score",
    "classification_report",
    "f1_score",
    "performance_measure",
    "precision_score",
    "recall_score",
]
