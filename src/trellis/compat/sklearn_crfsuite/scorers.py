"""``sklearn_crfsuite.scorers``: ready-made scorers for model selection, created on first use."""

from __future__ import annotations

from typing import Any

from trellis.compat.sklearn_crfsuite import metrics

_SCORES = {"flat_accuracy": metrics.flat_accuracy_score, "sequence_accuracy": metrics.sequence_accuracy_score}

__all__ = ["flat_accuracy", "sequence_accuracy"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name not in _SCORES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.metrics import make_scorer  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return make_scorer(_SCORES[name])
