"""A step length that satisfies the strong Wolfe conditions.

    f(t) <= f(0) + 1e-4 t f'(0)         the loss falls enough
    |f'(t)| <= 0.9 |f'(0)|              and the slope flattens enough

Steps grow until a bracket is found; inside it, cubic interpolation kept away from the bracket's ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_DECREASE, _CURVATURE = 1e-4, 0.9


class Trial(NamedTuple):
    """A step, the loss there and the slope."""

    step: float
    loss: float
    slope: float


def wolfe(
    along: Callable[[float], tuple[float, float]], loss: float, slope: float, step: float, most_trials: int
) -> Trial | None:
    """`along(step)` gives loss and slope; returns None if no step is found; the last trial is always the last call."""
    low, high = Trial(0.0, loss, slope), None
    for _ in range(most_trials):
        trial = Trial(step, *along(step))
        if not trial.loss <= loss + _DECREASE * step * slope or (low.step > 0 and trial.loss >= low.loss):
            high = trial
        elif abs(trial.slope) <= -_CURVATURE * slope:
            return trial
        elif trial.slope * ((high.step if high else np.inf) - low.step) >= 0:
            low, high = trial, low
        else:
            low = trial
        step = 2.5 * step if high is None else _between(low, high)
    return None


def _between(low: Trial, high: Trial) -> float:
    """Minimum of the cubic through both ends, at least a tenth away from each."""
    width = high.step - low.step
    fraction = 0.5
    if np.isfinite(high.loss) and np.isfinite(high.slope):
        d1 = low.slope + high.slope - 3 * (low.loss - high.loss) / (low.step - high.step)
        inner = d1 * d1 - low.slope * high.slope
        if inner >= 0:
            d2 = np.copysign(np.sqrt(inner), width)
            bottom = high.slope - low.slope + 2 * d2
            if bottom != 0:
                fraction = 1 - (high.slope + d2 - d1) / bottom
    return low.step + width * float(np.clip(fraction, 0.1, 0.9))
