"""The probabilities of a categorical hidden Markov model, how counts become probabilities, and samples.

    start[i] = P(s[0] = i)    transitions[i, j] = P(s[t] = j | s[t-1] = i)    emissions[v, i] = P(o[t] = v | s[t] = i)

Emissions are kept by symbol (V, L), as the E-step reads them: a token needs its symbol's row. An HMM is nothing but a
chain whose scores are logarithms of these; a probability of zero becomes minus infinity, which the chain takes
exactly as forbidden.

Smoothing, which Markov chains share (`trellis.study.MarkovChain`):

    none          P(j | i) = c(i, j) / c(i)
    additive      P(j | i) = (c(i, j) + alpha) / (c(i) + alpha K)                       K outcomes
    Witten-Bell   P(j | i) = (c(i, j) + T(i) P'(j)) / (c(i) + T(i))                     T(i) distinct outcomes seen

T(i) is ``sum_j min(c(i, j), 1)``, which is the number of distinct outcomes where counts are whole and stays meaningful
for expected counts. A row that was never seen falls back to a proper distribution; nothing here ever gives NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from trellis import chain
from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.errors import ModelError, shown
from trellis.tags import AllowedTransitions

Smoothing = Literal["witten_bell", "additive", "none"]
_MOST_DRAWN = 2**27
_SUM_TOLERANCE = 1e-6


def check_distribution(name: str, values: npt.ArrayLike, shape: tuple[int | None, ...]) -> FloatArray:
    """Probabilities of the given shape (None: any size), each row summing to one; else an error naming the array."""
    try:
        array: FloatArray = np.array(values, dtype=np.float64, order="C")
    except (ValueError, TypeError, OverflowError):  # text, complex numbers, or lists of unequal lengths
        raise ModelError(f"{name} must be an array of probabilities, got {shown(values)}") from None
    fits = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if not fits or array.shape[-1] == 0:
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        raise ModelError(f"{name} must have shape ({sizes}{',' * (len(shape) == 1)}), got {array.shape}")
    bad = np.argwhere(~((array >= 0) & (array <= 1 + _SUM_TOLERANCE)))
    if len(bad):
        position = ", ".join(map(str, bad[0]))
        raise ModelError(f"{name}[{position}] is {array[tuple(bad[0])]}: must be a probability")
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


def smoothed(
    counts: FloatArray, legal: BoolArray, smoothing: Smoothing, alpha: float = 0.0, base: FloatArray | None = None
) -> FloatArray:
    """Rows of counts as distributions over what is legal; `base` is what Witten-Bell backs off to."""
    flat = uniform(legal)
    if smoothing == "witten_bell":
        base = flat if base is None else normalised(np.where(legal, base, 0.0), flat)
        distinct = np.minimum(counts, 1.0).sum(axis=-1, keepdims=True)  # T(i)
        return normalised(counts + distinct * base, np.broadcast_to(base, counts.shape))
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
    for name, value in (("length", length), ("n", n)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ModelError(f"{name} must be an integer >= 0, got {shown(value)}")
    if length * n > _MOST_DRAWN:
        raise ModelError(f"length * n may be at most {_MOST_DRAWN:,} states, got {shown(int(length) * int(n))}")
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


@dataclass(frozen=True, slots=True, eq=False)
class Probabilities:
    """Start (L,), transitions (L, L) and emissions by symbol (V, L); also used for counts of the same shapes."""

    start: FloatArray
    transitions: FloatArray
    emissions: FloatArray

    @classmethod
    def checked(
        cls,
        start: npt.ArrayLike,
        transitions: npt.ArrayLike,
        emissions: npt.ArrayLike,
        *,
        names: tuple[str, str, str] = ("start", "transitions", "emissions"),
    ) -> Probabilities:
        """Probabilities as people write them, emissions (L, V) by state; an error names what does not fit."""
        pi = check_distribution(names[0], start, (None,))
        A = check_distribution(names[1], transitions, (len(pi), len(pi)))
        B = check_distribution(names[2], emissions, (len(pi), None))
        return cls(pi, A, np.ascontiguousarray(B.T))

    @classmethod
    def random(cls, L: int, V: int, random: np.random.Generator, legal: AllowedTransitions) -> Probabilities:
        """A starting point for EM: every distribution is random, not near zero, and zero where the scheme forbids."""
        start = normalised(random.uniform(0.5, 1.5, L) * legal.start, uniform(legal.start))
        transitions = normalised(random.uniform(0.5, 1.5, (L, L)) * legal.transitions, uniform(legal.transitions))
        emissions = random.uniform(0.5, 1.5, (V, L))
        return cls(start, transitions, emissions / emissions.sum(axis=0))

    @classmethod
    def filled(cls, L: int, V: int, value: float = 0.0) -> Probabilities:
        """Arrays that hold this number everywhere."""
        return cls(np.full(L, value), np.full((L, L), value), np.full((V, L), value))

    @classmethod
    def from_flat(cls, vector: FloatArray, L: int) -> Probabilities:
        """The inverse of `flat`; its arrays are views into the vector."""
        return cls(vector[:L], vector[L : L + L * L].reshape(L, L), vector[L + L * L :].reshape(-1, L))

    def flat(self) -> FloatArray:
        """All numbers one after another: the weights that a trainer sees."""
        return np.concatenate([self.start, self.transitions.ravel(), self.emissions.ravel()])

    def widened(self, L: int, V: int, fill: float = 0.0) -> Probabilities:
        """These numbers with room for more states and symbols, which get `fill`."""
        states, symbols = self.num_states, self.num_symbols
        wide = Probabilities.filled(L, V, fill)
        wide.start[:states] = self.start
        wide.transitions[:states, :states] = self.transitions
        wide.emissions[:symbols, :states] = self.emissions
        return wide

    def plus(self, other: Probabilities) -> Probabilities:
        """The sum of two sets of counts."""
        return Probabilities(
            self.start + other.start, self.transitions + other.transitions, self.emissions + other.emissions
        )

    @property
    def num_states(self) -> int:
        return len(self.start)

    @property
    def num_symbols(self) -> int:
        return len(self.emissions)

    def free(self, legal: AllowedTransitions | None = None) -> int:
        """The number of free parameters: each distribution has one less than it has legal outcomes."""
        L, V = self.num_states, self.num_symbols
        if legal is None:
            return L - 1 + L * (L - 1) + L * (V - 1)
        steps = np.maximum(legal.transitions.sum(axis=1) - 1, 0).sum()
        return int(max(legal.start.sum() - 1, 0) + steps) + L * (V - 1)


def log_emissions(parameters: Probabilities, symbols: IntArray) -> FloatArray:
    """``(N, L)`` log emissions of symbols; those outside 0..V-1 get the nearest row, to be overwritten."""
    rows: FloatArray = np.take(logs(parameters.emissions), symbols, axis=0, mode="clip")
    return rows


def chain_scores(
    parameters: Probabilities, emissions: FloatArray, lengths: npt.ArrayLike, end: FloatArray | None = None
) -> chain.ChainScores:
    """Scores of tokens with these log emissions (N, L); `end` is 0 if a sequence may end there, else minus infinity."""
    return chain.ChainScores(emissions, lengths, logs(parameters.transitions), logs(parameters.start), end)
