"""Problem 2 with the states known: an HMM from counts, by relative frequency and smoothing.

    start ~ first tags      transitions ~ pairs of tags      emissions ~ pairs of word and tag

What the tag scheme forbids gets no share of the smoothing. With a model of unknown words, one more symbol stands
for them all, the last row of the emissions; see `trellis.models.hmm.forms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.models.hmm.forms import Forms
from trellis.models.hmm.probabilities import Probabilities
from trellis.models.probability import Smoothing, logs, normalised, smoothed, uniform
from trellis.ragged import later_tokens, offsets_of
from trellis.tags import AllowedTransitions


@dataclass(frozen=True, slots=True)
class Estimation:
    """How counts become probabilities: pseudo-counts first, then Witten-Bell smoothing if it is wanted."""

    witten_bell: bool
    start_prior: float
    transition_prior: float
    emission_prior: float
    legal: AllowedTransitions

    def pseudo(self, V: int) -> Probabilities:
        """The pseudo-counts of what is legal: Dirichlet priors less one."""
        L = len(self.legal.start)
        start = np.where(self.legal.start, self.start_prior, 0.0)
        transitions = np.where(self.legal.transitions, self.transition_prior, 0.0)
        return Probabilities(start, transitions, np.full((V, L), self.emission_prior))

    def parameters(self, counts: Probabilities) -> Probabilities:
        """Probabilities of start, transitions and emissions."""
        total = counts.plus(self.pseudo(counts.num_symbols))
        symbols = np.ones(counts.num_symbols, dtype=np.bool_)
        base = _shares(total.emissions.sum(axis=1))
        by_state = smoothed(total.emissions.T, symbols, self._smoothing, 0.0, base)
        return Probabilities(*self._chain(total), np.ascontiguousarray(by_state.T))

    def with_unknown(self, counts: Probabilities, words: Sequence[str]) -> tuple[Probabilities, Forms]:
        """Probabilities with one more symbol for all unknown words, and the forms that tell those apart."""
        total = counts.plus(self.pseudo(counts.num_symbols))
        forms = Forms.learn(words, counts.emissions)
        seen = counts.emissions.sum(axis=1)
        table = total.emissions
        if self.witten_bell:
            known = [forms.smoothed_posterior(word, own) for word, own in zip(words, table, strict=True)]
            table = np.array(known).reshape(table.shape) * table.sum(axis=1, keepdims=True)
        once = max(float(seen[seen <= 1.0].sum()), 0.5)  # as many unknown tokens as words were seen once
        table = np.vstack([table, once * forms.posterior("")])
        emissions = normalised(table.T, uniform(np.ones(len(table), dtype=np.bool_))).T
        return Probabilities(*self._chain(total), np.ascontiguousarray(emissions)), forms

    def after_pairs(self, counts: FloatArray, last: IntArray, transitions: FloatArray) -> FloatArray:
        """``(P, L)`` probabilities of what follows pairs of states; they back off to the pair's `last` state alone."""
        legal = self.legal.transitions[last]
        total = counts + np.where(legal, self.transition_prior, 0.0)
        return smoothed(total, legal, self._smoothing, 0.0, transitions[last])

    @property
    def _smoothing(self) -> Smoothing:
        return "witten_bell" if self.witten_bell else "none"

    def _chain(self, total: Probabilities) -> tuple[FloatArray, FloatArray]:
        """Probabilities of start and transitions; both back off to how often each state occurs."""
        states = _shares(total.emissions.sum(axis=0))
        start = smoothed(total.start, self.legal.start, self._smoothing, 0.0, states)
        return start, smoothed(total.transitions, self.legal.transitions, self._smoothing, 0.0, states)


def unknown_log_emissions(forms: Forms, words: Sequence[str], row: FloatArray) -> FloatArray:
    """``(n, L)`` log P(word | tag) of unknown words: P(unknown | tag) P(tag | its forms) / P(tag | unknown)."""
    ratios = np.array([forms.posterior(word) for word in words]).reshape(len(words), len(row))
    general = forms.posterior("")
    return logs(row) + logs(ratios) - logs(np.where(general > 0, general, 1.0))


def count_labelled(
    symbols: IntArray, states: IntArray, lengths: IntArray, weights: FloatArray | None, L: int, V: int
) -> Probabilities:
    """Counts of starts, transitions and emissions of labelled sequences, each times its weight."""
    counts = Probabilities.zeros(L, V)
    own = np.ones(len(lengths)) if weights is None else weights
    by_token = np.repeat(own, lengths)
    first, later = offsets_of(lengths)[:-1][lengths > 0], later_tokens(lengths)
    np.add.at(counts.start, states[first], own[lengths > 0])
    np.add.at(counts.transitions, (states[later - 1], states[later]), by_token[later])
    np.add.at(counts.emissions, (symbols, states), by_token)
    return counts


def _shares(counts: FloatArray) -> FloatArray:
    return normalised(counts, uniform(np.ones(len(counts), dtype=np.bool_)))
