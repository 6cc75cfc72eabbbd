"""Evaluation: spans, segmentation, tags, both at once, kinds of mistakes, significance and calibration.

Every result is a frozen dataclass with ``to_dict``, ``to_markdown`` and ``to_rich``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.arrays import IntArray
from trellis.lazy import lazily
from trellis.metrics.calibration import Bin, Calibration, calibration, span_calibration, token_calibration
from trellis.results import Grid, Report

if TYPE_CHECKING:
    from trellis.metrics.entities import (
        EntityScores,
        ErrorReport,
        Mistake,
        SpanError,
        entity_counts,
        entity_errors,
        entity_scores,
        span_errors,
    )
    from trellis.metrics.prf import Score
    from trellis.metrics.significance import (
        Interval,
        Significance,
        Statistic,
        accuracy,
        bootstrap_interval,
        f1,
        paired_significance,
    )
    from trellis.metrics.tokens import ConfusionMatrix, TaggingScores, tagging_scores, token_counts
    from trellis.metrics.words import (
        JointScores,
        SegmentationScores,
        joint_counts,
        joint_scores,
        segmentation_counts,
        segmentation_scores,
    )

__all__ = [
    "Bin",
    "Calibration",
    "ConfusionMatrix",
    "EntityScores",
    "ErrorReport",
    "Grid",
    "IntArray",
    "Interval",
    "JointScores",
    "Mistake",
    "Report",
    "Score",
    "SegmentationScores",
    "Significance",
    "SpanError",
    "Statistic",
    "TaggingScores",
    "accuracy",
    "bootstrap_interval",
    "calibration",
    "entity_counts",
    "entity_errors",
    "entity_scores",
    "f1",
    "joint_counts",
    "joint_scores",
    "paired_significance",
    "segmentation_counts",
    "segmentation_scores",
    "span_calibration",
    "span_errors",
    "tagging_scores",
    "token_calibration",
    "token_counts",
]

# A module that has the name of one of its functions, `calibration`, cannot wait.
__getattr__ = lazily(__name__, dict.fromkeys(("entities", "tokens", "significance", "words"), __all__))
