"""Order 2: the next label depends on the two before it, if these were seen together often enough.

A state of the chain is a history: a label by itself (the first L states), or a label and the one before it (the rest).

    state(a, b) = the pair (a, b) if it has its own state, else b by itself
    P(c | a, b) = rows[state(a, b), c], and from there the chain goes to state(b, c)

So each sequence of labels is exactly one sequence of states, and without any pairs this is the chain of order 1. Pairs
that were rarely seen tell little that their last label does not, and the chain's work is square in its states:
only the most common pairs are kept; see docs/decisions/0006-order-2.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis import chain
from trellis.arrays import FloatArray, IntArray
from trellis.models.hmm.estimation import Estimation
from trellis.models.hmm.observations import Observations
from trellis.models.hmm.probabilities import Probabilities
from trellis.models.probability import logs
from trellis.models.states import labels_of, states_of
from trellis.ragged import later_tokens
from trellis.tags import AllowedTransitions

BEGIN = -1
"""Stands for the label before the first."""


@dataclass(frozen=True, slots=True, eq=False)
class Triples:
    """How often (`counts`, (K,)) three labels stood in a row (`labels`, (K, 3)); the first may be `BEGIN`."""

    labels: IntArray
    counts: FloatArray

    @classmethod
    def count(cls, corpus: Observations) -> Triples:
        """Those of labelled sentences, each times its weight."""
        states, later = corpus.states, later_tokens(corpus.lengths)
        before = np.where(np.isin(later - 1, later, assume_unique=True), states[later - 2], BEGIN)
        weights = np.ones(len(corpus.lengths)) if corpus.weights is None else corpus.weights
        rows = np.stack([before, states[later - 1], states[later]], axis=1)
        return cls.summed(rows, np.repeat(weights, corpus.lengths)[later])

    @classmethod
    def summed(cls, labels: IntArray, counts: FloatArray) -> Triples:
        """Each triple once, without those that have no counts."""
        base = int(labels.max(initial=0)) + 2
        keys, places = np.unique((labels + 1) @ np.array([base * base, base, 1]), return_inverse=True)
        totals: FloatArray = np.bincount(places, weights=counts, minlength=len(keys)).astype(np.float64)
        digits = np.stack([keys // (base * base), keys // base % base, keys % base], axis=1).astype(np.int64)
        seen = totals > 0
        return cls(digits[seen] - 1, totals[seen])

    def plus(self, other: Triples) -> Triples:
        """Both together."""
        return Triples.summed(np.vstack([self.labels, other.labels]), np.concatenate([self.counts, other.counts]))

    def most_common(self, most: int, L: int) -> tuple[IntArray, FloatArray]:
        """The `most` pairs that were followed by a label most often, (P, 2), and how often by which, (P, L)."""
        keys, places = np.unique((self.labels[:, 0] + 1) * L + self.labels[:, 1], return_inverse=True)
        ranked = np.argsort(-np.bincount(places, weights=self.counts, minlength=len(keys)), kind="stable")
        kept = np.sort(ranked[:most])
        row = np.full(len(keys), -1)
        row[kept] = np.arange(len(kept))
        own = row[places] >= 0
        counts = np.zeros((len(kept), L))
        counts[row[places[own]], self.labels[own, 2]] = self.counts[own]
        return np.stack([keys[kept] // L - 1, keys[kept] % L], axis=1), counts


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """Pairs of labels that have their own state (P, 2), and what follows each: rows (P, L)."""

    pairs: IntArray
    rows: FloatArray

    @classmethod
    def learn(cls, triples: Triples, transitions: FloatArray, estimation: Estimation, most: int) -> Histories:
        """From counts, smoothed like all transitions; Witten-Bell backs off to P(c | b), the transitions (L, L)."""
        pairs, counts = triples.most_common(most, len(transitions))
        return cls(pairs, estimation.after_pairs(counts, pairs[:, 1], transitions))

    def labels(self, L: int) -> IntArray:
        """``(L + P,)`` the label of each state."""
        return labels_of(self.pairs, L)

    def expanded(self, p: Probabilities) -> tuple[FloatArray, FloatArray]:
        """Probabilities of start and transitions of the chain over states."""
        return self._chain(p.start, p.transitions, self.rows, 0.0)

    def scores(self, scores: chain.ChainScores, legal: AllowedTransitions) -> chain.ChainScores:
        """The scores over states from those over labels; `legal` says what may follow a label."""
        labels = self.labels(scores.num_labels)
        rows = logs(self.rows * legal.transitions[self.pairs[:, 1]])
        start, transitions = self._chain(scores.start, scores.transitions, rows, -np.inf)
        return chain.ChainScores(scores.emissions[:, labels], scores.lengths, transitions, start, scores.end[labels])

    def log_likelihood(self, triples: Triples, transitions: FloatArray) -> float:
        """Of the triples: ``sum of counts * log P(c | a, b)``."""
        a, b, c = triples.labels.T
        state = states_of(self.pairs, len(transitions))[a, b]
        return float(triples.counts @ logs(np.vstack([transitions, self.rows])[state, c]))

    def _chain(
        self, start: FloatArray, transitions: FloatArray, rows: FloatArray, nothing: float
    ) -> tuple[FloatArray, FloatArray]:
        """Start (S,) and transitions (S, S) from those of labels and pairs; `nothing` if histories do not join."""
        L = len(start)
        state, labels = states_of(self.pairs, L), self.labels(L)
        first, steps = np.full(len(labels), nothing), np.full((len(labels), len(labels)), nothing)
        first[state[BEGIN]] = start
        np.put_along_axis(steps, state[labels], np.vstack([transitions, rows]), axis=1)
        return first, steps
