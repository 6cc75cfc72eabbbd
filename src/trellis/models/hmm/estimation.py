"""Problem 2 with the states known: an HMM from counts, by relative frequency and smoothing.

    start ~ first tags      transitions ~ pairs of tags      emissions ~ pairs of word and tag

What the tag scheme forbids gets no share of the smoothing.

**Unknown words.** What a word looks like tells its tag: the emissions of words that were never, or rarely, seen (TnT's
idea). P(tag | word) is backed off from the word through what it looks like, from the special to the general:

    Unfriended: the word itself -> in lower case -> shape and suffix (Xx:iended, ..., Xx:ed, Xx:d) -> shape -> any

    P(tag | form) = (c(form, tag) + weight * P(tag | next form)) / (c(form) + weight)

Suffixes and shapes are counted on rare words only, since unknown words are like them; Bayes' rule makes an emission of
it: P(word | tag) = P(tag | word) P(word) / P(tag). One probability P(word) stands for every unknown word, estimated
like Good and Turing do from the words seen once; it is one more symbol, the last row of the emissions.

**Order 2.** The next label depends on the two before it, if these were seen together often enough. A state of the chain
is a history: a label by itself (the first L states), or a label and the one before it (the rest).

    state(a, b) = the pair (a, b) if it has its own state, else b by itself
    P(c | a, b) = rows[state(a, b), c], and from there the chain goes to state(b, c)

So each sequence of labels is exactly one sequence of states, and without any pairs this is the chain of order 1. Pairs
that were rarely seen tell little that their last label does not, and the chain's work is square in its states:
only the most common pairs are kept; see docs/decisions/0006-order-2.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from trellis import chain
from trellis.arrays import FloatArray, IntArray
from trellis.models.data import history_chain, history_states, labels_of_histories
from trellis.models.hmm.probabilities import Probabilities, Smoothing, logs, normalised, smoothed, uniform
from trellis.ragged import later_tokens, offsets_of
from trellis.tags import AllowedTransitions

RARE = 10
"""A word seen at most this often is rare."""
LONGEST_SUFFIX = 6
WEIGHT = 2.0
"""How many observations the next, more general form counts for."""
BEGIN = -1
"""Stands for the label before the first."""


class _Shapes(dict[int, str]):
    """The letter of `shape` for each code point, for `str.translate`; worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isdigit():
            letter = "d"
        elif not character.isalpha():
            letter = character
        else:
            letter = "X" if character.isupper() else "x" if character.islower() else "o"
        self[code] = letter
        return letter


_SHAPES = _Shapes()


def shape(word: str) -> str:
    """Upper case X, lower case x, other letters as o, digits as d, the rest unchanged; runs count once.

    >>> shape("Xerox-1984"), shape("中文")
    ('Xx-d', 'o')
    """
    letters = word.translate(_SHAPES)
    # before the first stands a newline, which is never part of a run
    return "".join([x for x, before in zip(letters, "\n" + letters, strict=False) if x != before or x == "\n"])


def look(word: str) -> Iterator[str]:
    """The keys of a word's forms, general first, without those that name it: any, shape, shape and suffixes."""
    outline, lower = shape(word), word.lower()
    yield ""
    yield f"{outline}:"
    for length in range(1, min(LONGEST_SUFFIX, len(lower)) + 1):
        yield f"{outline}:{lower[-length:]}"


def _lower_key(word: str) -> str:
    return f"={word.lower()}"


@dataclass(frozen=True, eq=False)
class Forms:
    """Counts of tags by form, and the overall distribution of tags that the most general form backs off to."""

    keys: tuple[str, ...]
    counts: FloatArray  # [K, L]
    prior: FloatArray  # [L] P(tag)
    _index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {key: row for row, key in enumerate(self.keys)})

    @classmethod
    def learn(cls, words: Sequence[str], counts: FloatArray) -> Forms:
        """From the counts (V, L) of each word's tags, whole or expected."""
        totals = counts.sum(axis=1)
        rows: dict[str, int] = {}
        pairs: list[tuple[int, int]] = []  # form, word
        for number, word in enumerate(words):
            keys = [*look(word)] if totals[number] <= RARE else []
            pairs += [(rows.setdefault(key, len(rows)), number) for key in (*keys, _lower_key(word))]
        by_form = np.zeros((len(rows), counts.shape[1]))
        forms, owners = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        np.add.at(by_form, forms, counts[owners])
        return cls(tuple(rows), by_form, counts.sum(axis=0) / max(totals.sum(), 1e-300))

    def smoothed_posterior(self, word: str, counts: FloatArray) -> FloatArray:
        """P(tag | word) from the word's counts (L,), Witten-Bell smoothed with what it looks like."""
        distinct = np.minimum(counts, 1.0).sum()
        result: FloatArray = (counts + distinct * self.posterior(word, counts)) / (counts.sum() + distinct)
        return result

    def posterior(self, word: str, without: FloatArray | None = None) -> FloatArray:
        """P(tag | the word's forms), from the general to the special.

        Its own counts are not among them, unless in lower case it is another word's: `without` are subtracted there.
        """
        p = self.prior
        for key in look(word):
            row = self._index.get(key)
            if row is None:
                break
            counts = self.counts[row]
            p = (counts + WEIGHT * p) / (counts.sum() + WEIGHT)
        row = self._index.get(_lower_key(word))
        if row is not None:
            counts = self.counts[row] if without is None else np.maximum(self.counts[row] - without, 0.0)
            p = (counts + WEIGHT * p) / (counts.sum() + WEIGHT)
        return p


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
        by_state = smoothed(total.emissions.T, symbols, self._smoothing, base=base)
        return Probabilities(*self._chain(total), np.ascontiguousarray(by_state.T))

    def with_unknown(self, counts: Probabilities, words: Sequence[str]) -> tuple[Probabilities, Forms]:
        """Probabilities with one more symbol for all unknown words, and the forms that tell those apart."""
        total = counts.plus(self.pseudo(counts.num_symbols))
        forms = Forms.learn(words, counts.emissions)
        seen = counts.emissions.sum(axis=1)
        table = total.emissions
        if self.witten_bell:
            known = [forms.smoothed_posterior(word, row) for word, row in zip(words, table, strict=True)]
            table = np.array(known).reshape(table.shape) * table.sum(axis=1, keepdims=True)
        once = max(float(seen[seen <= 1.0].sum()), 0.5)  # as many unknown tokens as words were seen once
        table = np.vstack([table, once * forms.posterior("")])
        emissions = normalised(table.T, uniform(np.ones(len(table), dtype=np.bool_))).T
        return Probabilities(*self._chain(total), np.ascontiguousarray(emissions)), forms

    def after_pairs(self, counts: FloatArray, last: IntArray, transitions: FloatArray) -> FloatArray:
        """``(P, L)`` probabilities of what follows pairs of states; they back off to the pair's `last` state alone."""
        legal = self.legal.transitions[last]
        total = counts + np.where(legal, self.transition_prior, 0.0)
        return smoothed(total, legal, self._smoothing, base=transitions[last])

    @property
    def _smoothing(self) -> Smoothing:
        return "witten_bell" if self.witten_bell else "none"

    def _chain(self, total: Probabilities) -> tuple[FloatArray, FloatArray]:
        """Probabilities of start and transitions; both back off to how often each state occurs."""
        states = _shares(total.emissions.sum(axis=0))
        start = smoothed(total.start, self.legal.start, self._smoothing, base=states)
        return start, smoothed(total.transitions, self.legal.transitions, self._smoothing, base=states)


def unknown_log_emissions(forms: Forms, words: Sequence[str], row: FloatArray) -> FloatArray:
    """``(n, L)`` log P(word | tag) of unknown words: P(unknown | tag) P(tag | its forms) / P(tag | unknown)."""
    ratios = np.array([forms.posterior(word) for word in words]).reshape(len(words), len(row))
    general = forms.posterior("")
    return logs(row) + logs(ratios) - logs(np.where(general > 0, general, 1.0))


def count_labelled(
    symbols: IntArray, states: IntArray, lengths: IntArray, weights: FloatArray | None, L: int, V: int
) -> Probabilities:
    """Counts of starts, transitions and emissions of labelled sequences, each times its weight."""
    counts = Probabilities.filled(L, V)
    weights = np.ones(len(lengths)) if weights is None else weights
    by_token = np.repeat(weights, lengths)
    first, later = offsets_of(lengths)[:-1][lengths > 0], later_tokens(lengths)
    np.add.at(counts.start, states[first], weights[lengths > 0])
    np.add.at(counts.transitions, (states[later - 1], states[later]), by_token[later])
    np.add.at(counts.emissions, (symbols, states), by_token)
    return counts


def _shares(counts: FloatArray) -> FloatArray:
    return normalised(counts, uniform(np.ones(len(counts), dtype=np.bool_)))


@dataclass(frozen=True, slots=True, eq=False)
class Triples:
    """How often (`counts`, (K,)) three labels stood in a row (`labels`, (K, 3)); the first may be `BEGIN`."""

    labels: IntArray
    counts: FloatArray

    @classmethod
    def count(cls, states: IntArray, lengths: IntArray, weights: FloatArray | None) -> Triples:
        """The triples of labelled sentences, each times its weight."""
        later = later_tokens(lengths)
        before = np.where(np.isin(later - 1, later, assume_unique=True), states[later - 2], BEGIN)
        rows = np.stack([before, states[later - 1], states[later]], axis=1)
        return cls.summed(rows, np.ones(len(rows)) if weights is None else np.repeat(weights, lengths)[later])

    @classmethod
    def summed(cls, labels: IntArray, counts: FloatArray) -> Triples:
        """Each triple once, without those that have no counts."""
        base = int(labels.max(initial=0)) + 2
        keys, inverse = np.unique((labels + 1) @ np.array([base * base, base, 1]), return_inverse=True)
        totals: FloatArray = np.bincount(inverse, weights=counts, minlength=len(keys)).astype(np.float64)
        digits = np.stack([keys // (base * base), keys // base % base, keys % base], axis=1).astype(np.int64)
        return cls(digits[totals > 0] - 1, totals[totals > 0])

    def plus(self, other: Triples) -> Triples:
        """The counts of both added up."""
        return Triples.summed(np.vstack([self.labels, other.labels]), np.concatenate([self.counts, other.counts]))

    def most_common(self, most: int, L: int) -> tuple[IntArray, FloatArray]:
        """The `most` pairs that were followed by a label most often, (P, 2), and how often by which, (P, L)."""
        keys, inverse = np.unique((self.labels[:, 0] + 1) * L + self.labels[:, 1], return_inverse=True)
        ranked = np.argsort(-np.bincount(inverse, weights=self.counts, minlength=len(keys)), kind="stable")
        chosen = np.sort(ranked[:most])
        row = np.full(len(keys), -1)
        row[chosen] = np.arange(len(chosen))
        row, counts = row[inverse], np.zeros((len(chosen), L))
        counts[row[row >= 0], self.labels[row >= 0, 2]] = self.counts[row >= 0]
        return np.stack([keys[chosen] // L - 1, keys[chosen] % L], axis=1), counts


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

    def scores(self, scores: chain.ChainScores, legal: AllowedTransitions) -> chain.ChainScores:
        """The scores over states from those over labels; `legal` says what may follow a label."""
        labels = labels_of_histories(self.pairs, scores.num_labels)
        rows = logs(self.rows * legal.transitions[self.pairs[:, 1]])
        start, transitions = history_chain(self.pairs, scores.start, scores.transitions, rows, -np.inf)
        return chain.ChainScores(scores.emissions[:, labels], scores.lengths, transitions, start, scores.end[labels])

    def log_likelihood(self, triples: Triples, transitions: FloatArray) -> float:
        """Log-likelihood of the triples: ``sum of counts * log P(c | a, b)``."""
        a, b, c = triples.labels.T
        state = history_states(self.pairs, len(transitions))[a, b]
        return float(triples.counts @ logs(np.vstack([transitions, self.rows])[state, c]))
