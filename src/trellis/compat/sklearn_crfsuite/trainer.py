"""A trainer that prints one line per iteration."""

from __future__ import annotations

import sys
from typing import Any

from trellis.compat.pycrfsuite import Trainer

__all__ = ["LinePerIterationTrainer"]

_FORMATS = {
    "time": "time={:<5.2f}",
    "loss": "loss={:<8.2f}",
    "active_features": "active={:<5}",
    "avg_precision": "precision={:0.3f} ",
    "avg_recall": "recall={:0.3f} ",
    "avg_f1": "F1={:0.3f} ",
    "item_accuracy_float": "Acc(item)={:0.3f}",
    "instance_accuracy_float": "Acc(seq)={:0.3f} ",
    "feature_norm": "feature_norm={:<8.2f}",
}


class LinePerIterationTrainer(Trainer):
    """Prints the figures of an iteration on one line, and at the end those of each label that was held out."""

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """Print what is known of the iteration."""
        figures = [shown.format(info[name]) for name, shown in _FORMATS.items() if name in info]
        sys.stdout.write(" ".join([f"Iter {info['num']:<3}", *figures]).strip() + "\n")

    def on_optimization_end(self, log: str) -> None:
        """Print a table of the labels."""
        last = None if self.logparser is None else self.logparser.last_iteration
        if last is not None and last["scores"]:
            rows = [("Label", "Precision", "Recall", "F1", "Support")]
            for label, score in sorted(last["scores"].items()):
                figures = (score.precision or 0.0, score.recall or 0.0, score.f1 or 0.0)
                rows.append((label, *(f"{figure:.3f}" for figure in figures), str(score.ref)))
            width = max(len(row[0]) for row in rows)
            for label, *cells in rows:
                sys.stdout.write(f"{label:<{width}}" + "".join(f"{cell:>11}" for cell in cells) + "\n")
        super().on_optimization_end(log)
