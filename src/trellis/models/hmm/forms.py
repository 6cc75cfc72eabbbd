"""What a word looks like tells its tag: the emissions of words that were never, or rarely, seen (TnT's idea).

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

from trellis.arrays import FloatArray

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
