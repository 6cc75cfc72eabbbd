"""Baum-Welch as an objective: expected counts from a native E-step, the best parameters from the counts.

    gamma[t, i] = P(s[t] = i | o)                  xi[t, i, j] = P(s[t] = i, s[t+1] = j | o)
    start'[i]          ~  sum over sequences of gamma[0, i]
    transitions'[i, j] ~  sum over t of xi[t, i, j]
    emissions'[v, i]   ~  sum over t with o[t] = v of gamma[t, i]

and each row over its sum. Labelled sequences add their counts, pseudo-counts those of a Dirichlet prior;
a partly known token (``allowed``) has no gamma elsewhere. Probabilities of zero in start and transitions stay zero.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import BoolArray, FloatArray, IntArray, plain_array
from trellis.errors import ModelError, NoPathError
from trellis.models.hmm.config import Part
from trellis.models.hmm.probabilities import Probabilities, log_score, normalised
from trellis.ragged import check_lengths, offsets_of
from trellis.training import Objective

PARTS: tuple[Part, ...] = ("start", "transitions", "emissions")


class HMMObjective:
    """Negative log-likelihood (and log prior) of symbols as a function of an HMM's flat parameters.

    Args:
        symbols: ``(N,)`` observations 0..V-1, the sequences one after another.
        lengths: ``(B,)``.
        num_states: L.
        num_symbols: V.
        allowed: ``(N, L)`` the states that each token may have; default: all.
        weights: ``(B,)`` how much each sequence counts.
        known: counts of labelled sequences that are not among `symbols`.
        pseudo: pseudo-counts, the parameters of the Dirichlet priors less one.
        fixed: what does not change.
        end: ``(L,)`` 1 if a sequence may end there, else 0.
        numbers: ``(B,)`` what messages call the sequences; default: 0, 1, ...

    """

    def __init__(
        self,
        symbols: npt.ArrayLike,
        lengths: npt.ArrayLike,
        num_states: int,
        num_symbols: int,
        *,
        allowed: BoolArray | None = None,
        weights: FloatArray | None = None,
        known: Probabilities | None = None,
        pseudo: Probabilities | None = None,
        fixed: frozenset[str] = frozenset(),
        end: FloatArray | None = None,
        numbers: IntArray | None = None,
    ) -> None:
        L, V = num_states, num_symbols
        flat = check_symbols(symbols, V)
        self._lengths = check_lengths(lengths, len(flat))
        self.L, self.V, self.size = L, V, L * (1 + L + V)
        self.e_step: Objective = self
        """Log-likelihoods and expected counts of all sequences: those of this process unless there are several."""
        self.known = known
        self._pseudo, self._fixed = pseudo, fixed
        self._numbers = np.arange(len(self._lengths)) if numbers is None else numbers
        self._end = np.ones(L) if end is None else end
        self._weights = np.ones(len(self._lengths)) if weights is None else plain_array(weights, np.float64)
        mask = None if allowed is None else plain_array(allowed, np.bool_).view(np.uint8)
        offsets = offsets_of(self._lengths)
        self._native = _native.Expectation(flat, offsets, mask, self._weights, L, V)

    def expect(self, weights: FloatArray) -> tuple[float, Probabilities]:
        """The loss, and the counts of labelled and expected counts of other sequences together."""
        parameters, flat = Probabilities.from_flat(weights, self.L), np.empty(len(weights))
        log_likelihood = self.e_step.evaluate(weights, flat)
        counts = Probabilities.from_flat(flat, self.L)
        if self.known is not None:
            log_likelihood += _joint(self.known, parameters)
            counts = counts.plus(self.known)
        if self._pseudo is not None:
            log_likelihood += _joint(self._pseudo, parameters, structural_zeros=True)
        return -log_likelihood, counts

    def evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        """The log-likelihood of the sequences that are not labelled; in place of a gradient, expected counts."""
        parameters, counts = (Probabilities.from_flat(vector, self.L) for vector in (weights, gradient))
        return self.expected_counts(parameters, counts)[0]

    def expected_counts(
        self, parameters: Probabilities, out: Probabilities | None = None
    ) -> tuple[float, Probabilities]:
        """The log-likelihood of the sequences that are not labelled, and their expected counts: the E-step."""
        p = parameters
        if p.transitions.shape != (self.L, self.L) or p.emissions.shape != (self.V, self.L):
            raise ModelError(
                f"transitions and emissions must be {(self.L, self.L)} and {(self.V, self.L)}, "
                f"got {p.transitions.shape} and {p.emissions.shape}"
            )
        counts = Probabilities.from_flat(np.empty(self.size), self.L) if out is None else out
        logs = np.empty(len(self._lengths))
        arrays = (p.start, p.transitions, self._end, p.emissions)
        status, sequence = self._native.run(*arrays, counts.start, counts.transitions, counts.emissions, logs)
        if status:
            raise NoPathError(
                f"sequence {self._numbers[sequence]} of length {self._lengths[sequence]} has probability zero under "
                "the model, so there is nothing to learn from it: start from parameters that allow it, or add a prior"
            )
        return float(self._weights @ logs), counts

    def maximise(self, weights: FloatArray, statistics: Probabilities) -> FloatArray:
        """The parameters of greatest expected log-likelihood; a state never visited keeps its distributions."""
        old, flat = Probabilities.from_flat(weights, self.L), np.empty(len(weights))
        new = Probabilities.from_flat(flat, self.L)
        for part in PARTS:
            self._maximise(part, getattr(old, part), getattr(statistics, part), getattr(new, part))
        return flat

    def _maximise(self, part: Part, old: FloatArray, counts: FloatArray, out: FloatArray) -> None:
        if part in self._fixed:
            out[...] = old
            return
        if self._pseudo is not None:
            counts = np.maximum(counts + getattr(self._pseudo, part), 0.0)
        if part != "emissions":
            out[...] = normalised(np.where(old > 0, counts, 0.0), old)
        elif (sums := counts.sum(axis=0)).all():
            np.divide(counts, sums, out=out)
        else:
            out[...] = normalised(counts.T, old.T).T


def check_symbols(symbols: npt.ArrayLike, V: int) -> IntArray:
    """Symbols as int64[N], each in 0..V-1."""
    array = np.asarray(symbols)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ModelError(f"symbols must be integers (N,), got {array.dtype} of shape {array.shape}")
    array = plain_array(array, np.int64)
    outside = np.flatnonzero((array < 0) | (array >= V))
    if len(outside):
        raise ModelError(f"symbol {array[outside[0]]} at token {outside[0]} is not in 0..{V - 1}")
    return array


def _joint(counts: Probabilities, p: Probabilities, *, structural_zeros: bool = False) -> float:
    """``sum of counts * log p``: the log-likelihood of labelled data, or a log prior up to a constant."""
    total = log_score(counts.emissions, p.emissions)
    for part in ("start", "transitions"):
        observed, probability = getattr(counts, part), getattr(p, part)
        if structural_zeros:
            observed = np.where(probability > 0, observed, 0.0)
        total += log_score(observed, probability)
    return total
