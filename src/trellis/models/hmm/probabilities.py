"""The numbers of a categorical hidden Markov model, and how they become the scores of a chain.

    start[i] = P(s[0] = i)    transitions[i, j] = P(s[t] = j | s[t-1] = i)    emissions[v, i] = P(o[t] = v | s[t] = i)

Emissions are kept by symbol (V, L), as the E-step reads them: a token needs its symbol's row. An HMM is nothing but a
chain whose scores are logarithms of these; a probability of zero becomes minus infinity, which the chain takes
exactly as forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trellis import chain
from trellis.arrays import FloatArray, IntArray
from trellis.models.probability import check_distribution, logs, normalised, uniform
from trellis.tags import AllowedTransitions


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
    def zeros(cls, L: int, V: int) -> Probabilities:
        """Counts of nothing."""
        return cls(np.zeros(L), np.zeros((L, L)), np.zeros((V, L)))

    @classmethod
    def from_flat(cls, vector: FloatArray, L: int) -> Probabilities:
        """The inverse of `flat`; its arrays are views into the vector."""
        return cls(vector[:L], vector[L : L + L * L].reshape(L, L), vector[L + L * L :].reshape(-1, L))

    def flat(self) -> FloatArray:
        """All numbers one after another: the weights that a trainer sees."""
        return np.concatenate([self.start, self.transitions.ravel(), self.emissions.ravel()])

    def plus(self, other: Probabilities) -> Probabilities:
        """The sum of two sets of counts."""
        return Probabilities(
            self.start + other.start, self.transitions + other.transitions, self.emissions + other.emissions
        )

    @property
    def num_states(self) -> int:
        """L."""
        return len(self.start)

    @property
    def num_symbols(self) -> int:
        """V."""
        return len(self.emissions)

    def free(self, legal: AllowedTransitions | None = None) -> int:
        """How many of the numbers can be chosen freely: each distribution has one less than it has legal outcomes."""
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
