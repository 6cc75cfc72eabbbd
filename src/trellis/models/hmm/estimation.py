"""Problem 2 with the states known: an HMM from counts, by relative frequency and smoothing.

    start ~ first tags      transitions ~ pairs of tags      emissions ~ pairs of word and tag

What the tag scheme forbids gets no share of the smoothing. With a model of unknown words, one more symbol stands
for them all, the last row of the emissions.

What a word looks like tells its tag: the emissions of words that were never, or rarely, seen (TnT's idea).

P(tag | word) is backed off from the word through what it looks like, from the special to the general:

    Unfriended: the word itself -> in lower case -> shape and suffix (Xx:iended, ..., Xx:ed, Xx:d) -> shape -> any

    P(tag | form) = (c(form, tag) + weight * P(tag | next form)) / (c(form) + weight)

Suffixes and shapes are counted on rare words only, since unknown words are like them; Bayes' rule makes an emission of
it: P(word | tag) = P(tag | word) P(word) / P(tag). One probability P(word) stands for every unknown word, estimated
like Good and Turing do from the words seen once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.models.hmm.probabilities import Probabilities
from trellis.models.probability import Smoothing, logs, normalised, smoothed, uniform
from trellis.ragged import later_tokens, offsets_of
from trellis.tags import AllowedTransitions

RARE = 10
"""A word seen at most this often is rare."""
LONGEST_SUFFIX = 6
WEIGHT = 2.0
"""How many observations the next, more general form counts for."""
_ANY = ""


def _kind(character: str) -> str:
    if character.isdigit():
        return "d"
    if not character.isalpha():
        return character
    return "X" if character.isupper() else "x" if character.islower() else "o"


class _Kinds(dict[int, str]):
    """What `shape` makes of code points, for `str.translate`; those of ASCII are kept ready."""

    def __missing__(self, code: int) -> str:
        return _kind(chr(code))


_KINDS = _Kinds({code: _kind(chr(code)) for code in range(128)})


def shape(word: str) -> str:
    """Upper case X, lower case x, other letters as o, digits as d, the rest unchanged; runs count once.

    >>> shape("Xerox-1984"), shape("中文")
    ('Xx-d', 'o')
    """
    kinds = word.translate(_KINDS)  # before the first stands a newline, which is never part of a run
    return "".join([here for here, before in zip(kinds, "\n" + kinds, strict=False) if here != before or here == "\n"])


def look(word: str) -> Iterator[str]:
    """The keys of a word's forms, general first, without those that name it: any, shape, shape and suffixes."""
    outline, lower = shape(word), word.lower()
    yield _ANY
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

    def posterior(self, word: str) -> FloatArray:
        """P(tag | the word's forms), without its own counts unless in lower case it is another word's."""
        return self._backed_off(word, None)

    def smoothed_posterior(self, word: str, own: FloatArray) -> FloatArray:
        """P(tag | word) from its own counts, Witten-Bell smoothed with what it looks like."""
        below = self._backed_off(word, own)
        kinds = np.minimum(own, 1.0).sum()
        result: FloatArray = (own + kinds * below) / (own.sum() + kinds)
        return result

    def _backed_off(self, word: str, own: FloatArray | None) -> FloatArray:
        p = self.prior
        for key in look(word):
            row = self._index.get(key)
            if row is None:
                break
            p = _interpolated(self.counts[row], p)
        row = self._index.get(_lower_key(word))
        if row is None:
            return p
        others = self.counts[row] if own is None else np.maximum(self.counts[row] - own, 0.0)
        return _interpolated(others, p)


def _interpolated(counts: FloatArray, below: FloatArray) -> FloatArray:
    result: FloatArray = (counts + WEIGHT * below) / (counts.sum() + WEIGHT)
    return result


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
