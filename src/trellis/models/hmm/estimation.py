"""An HMM from counts, by relative frequency and smoothing; `HMMObjective` has expected counts where states are unknown.

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
import numpy.typing as npt

from trellis import _native, chain
from trellis.arrays import BoolArray, FloatArray, IntArray, plain_array
from trellis.errors import ModelError, NoPathError
from trellis.models.data import history_chain, history_states, labels_of_histories
from trellis.models.hmm.config import Part
from trellis.models.hmm.probabilities import Probabilities, Smoothing, log_score, logs, normalised, smoothed, uniform
from trellis.ragged import check_lengths, later_tokens, offsets_of
from trellis.tags import AllowedTransitions
from trellis.training import Objective

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
        """Estimate from the counts (V, L) of each word's tags, which may be expected counts."""
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

        The counts of the word itself are not used. If its lower-case form is a word of the training text, those counts
        are used last, minus `without`.
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
        """P(c | a, b) from counts; Witten-Bell backs off to P(c | b), the transitions (L, L)."""
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
        flat = plain_array(symbols, np.int64)
        assert not flat.size or 0 <= flat.min() <= flat.max() < V
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
            before, counts, out = (getattr(one, part) for one in (old, statistics, new))
            if self._pseudo is not None:
                counts = np.maximum(counts + getattr(self._pseudo, part), 0.0)
            if part in self._fixed:
                out[...] = before
            elif part != "emissions":
                out[...] = normalised(np.where(before > 0, counts, 0.0), before)
            elif (sums := counts.sum(axis=0)).all():
                np.divide(counts, sums, out=out)
            else:
                out[...] = normalised(counts.T, before.T).T
        return flat


def _joint(counts: Probabilities, p: Probabilities, *, structural_zeros: bool = False) -> float:
    """``sum of counts * log p``: the log-likelihood of labelled data, or a log prior up to a constant."""
    total = log_score(counts.emissions, p.emissions)
    for part in ("start", "transitions"):
        observed, probability = getattr(counts, part), getattr(p, part)
        if structural_zeros:
            observed = np.where(probability > 0, observed, 0.0)
        total += log_score(observed, probability)
    return total
