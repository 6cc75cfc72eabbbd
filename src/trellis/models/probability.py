"""Distributions from counts: checks, normalisation, smoothing and samples, shared by Markov chains and HMMs.

    none          P(j | i) = c(i, j) / c(i)
    additive      P(j | i) = (c(i, j) + alpha) / (c(i) + alpha K)                       K outcomes
    Witten-Bell   P(j | i) = (c(i, j) + T(i) P'(j)) / (c(i) + T(i))                     T(i) distinct outcomes seen

T(i) is ``sum_j min(c(i, j), 1)``, which is the number of distinct outcomes where counts are whole and stays meaningful
for expected counts. A row that was never seen falls back to a proper distribution; nothing here ever gives NaN.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.errors import ModelError, shown

Smoothing = Literal["witten_bell", "additive", "none"]
MOST_DRAWN = 2**27
_SUM_TOLERANCE = 1e-6


def check_distribution(name: str, values: npt.ArrayLike, shape: tuple[int | None, ...]) -> FloatArray:
    """Probabilities of the given shape (None: any size), each row summing to one; else an error naming the array."""
    try:
        array: FloatArray = np.array(values, dtype=np.float64, order="C")
    except (ValueError, TypeError, OverflowError):  # text, complex numbers, or lists of unequal lengths
        raise ModelError(f"{name} must be an array of probabilities, got {shown(values)}") from None
    fits = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if not fits or array.shape[-1] == 0:
        raise ModelError(f"{name} must have shape {_shape_text(shape)}, got {array.shape}")
    bad = np.argwhere(~((array >= 0) & (array <= 1 + _SUM_TOLERANCE)))
    if len(bad):
        place = ", ".join(map(str, bad[0]))
        raise ModelError(f"{name}[{place}] is {array[tuple(bad[0])]}: must be a probability")
    sums = array.sum(axis=-1)
    if not np.allclose(sums, 1, rtol=0, atol=_SUM_TOLERANCE):
        if sums.ndim == 0:
            raise ModelError(f"{name} must sum to 1, got {sums:.6g}")
        row = int(np.argmax(np.abs(sums - 1)))
        raise ModelError(f"each row of {name} must sum to 1, got {sums[row]:.6g} for row {row}")
    return array


def normalised(counts: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Each row over its sum; a row without counts becomes that of `otherwise`."""
    sums = counts.sum(axis=-1, keepdims=True)
    result: FloatArray = np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), otherwise)
    return result


def uniform(legal: BoolArray) -> FloatArray:
    """Equal shares for what is legal in each row; in a row without anything legal, everything counts as legal."""
    shares = np.where(legal.any(axis=-1, keepdims=True), legal, True).astype(np.float64)
    result: FloatArray = shares / shares.sum(axis=-1, keepdims=True)
    return result


def witten_bell(counts: FloatArray, base: FloatArray) -> FloatArray:
    """Interpolation with `base` as above; unseen rows become `base`."""
    kinds = np.minimum(counts, 1.0).sum(axis=-1, keepdims=True)
    return normalised(counts + kinds * base, np.broadcast_to(base, counts.shape))


def smoothed(
    counts: FloatArray, legal: BoolArray, smoothing: Smoothing, alpha: float, base: FloatArray | None = None
) -> FloatArray:
    """Rows of counts as distributions over what is legal; `base` is what Witten-Bell backs off to."""
    flat = uniform(legal)
    if smoothing == "witten_bell":
        below = flat if base is None else normalised(np.where(legal, base, 0.0), flat)
        return witten_bell(counts, below)
    return normalised(counts + np.where(legal, alpha, 0.0) if smoothing == "additive" else counts, flat)


def logs(probabilities: AnyArray) -> FloatArray:
    """Natural logarithms; of zero, minus infinity."""
    with np.errstate(divide="ignore"):
        result: FloatArray = np.log(probabilities)
    return result


def log_score(counts: FloatArray, probabilities: FloatArray) -> float:
    """``sum of counts * log(probabilities)``; what was never counted adds nothing, however improbable it is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = counts * np.log(probabilities)
    return float(np.where(counts == 0, 0.0, terms).sum())


def akaike(log_likelihood: float, free: int) -> float:
    """Akaike's information criterion of a model with this many free numbers; lower is better."""
    return 2 * free - 2 * log_likelihood


def bayesian(log_likelihood: float, free: int, observations: int) -> float:
    """The Bayesian information criterion, also called Schwarz's; lower is better."""
    if observations < 1:
        raise ModelError("bic needs at least one observation: there is none")
    return free * math.log(observations) - 2 * log_likelihood


def _shape_text(shape: tuple[int | None, ...]) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


def check_size(length: int, n: int) -> None:
    """Refuse more states than can be drawn at once."""
    for name, value in (("length", length), ("n", n)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ModelError(f"{name} must be an integer >= 0, got {shown(value)}")
    if length * n > MOST_DRAWN:
        raise ModelError(f"length * n may be at most {MOST_DRAWN:,} states, got {shown(int(length) * int(n))}")


def generator(seed: int) -> np.random.Generator:
    """A random generator; the same seed draws the same."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ModelError(f"seed must be an integer >= 0, got {shown(seed)}") from None


def sample_paths(
    start: FloatArray, transitions: FloatArray, length: int, n: int, random: np.random.Generator
) -> IntArray:
    """``(n, length)`` states, all sequences one step at a time."""
    paths = np.empty((n, length), dtype=np.int64)
    for t in range(length):
        rows = np.broadcast_to(start, (n, len(start))) if t == 0 else transitions[paths[:, t - 1]]
        paths[:, t] = draw(rows, random)
    return paths


def draw(rows: FloatArray, random: np.random.Generator) -> IntArray:
    """One outcome of each row's distribution, never one of probability zero."""
    cumulative = rows.cumsum(axis=1)
    chosen: IntArray = np.argmax(cumulative > random.random((len(rows), 1)) * cumulative[:, -1:], axis=1)
    return chosen
