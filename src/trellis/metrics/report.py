"""How results are shown: as tables (`trellis.report`), with shares as percentages."""

from __future__ import annotations

from trellis.report import Grid, Report

__all__ = ["Grid", "Report", "percent"]


def percent(value: float | None) -> str:
    """A share as a percentage with two decimals, the way the field's scorers print it; nothing for None."""
    return "" if value is None else f"{100 * value:.2f}"
