"""Encoded sentences, and batches of them.

A corpus is encoded once. Everything about a word (its ids, how it is written, its characters) is looked up once for
each *distinct* word; a token is the number of its word, and a batch is a gather.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.arrays import IntArray
from trellis.lazy import cached
from trellis.ragged import offsets_of, pad
from trellis.symbols import FIRST, PADDING

CASES = ("lower", "Title", "UPPER", "mIxed", "digits", "with digits", "no letters", "no case")


@dataclass(frozen=True, slots=True, eq=False)
class Spelt:
    """The characters of W words, one after another: word w has those from ``offsets[w]`` to ``offsets[w + 1]``."""

    characters: IntArray
    offsets: IntArray

    def padded(self) -> IntArray:
        """Rows of equal length, ``(W, C)``."""
        return pad(self.characters, np.diff(self.offsets), fill=PADDING)


@dataclass(frozen=True, eq=False)
class Words:
    """Distinct words W: their ids, how they are written, their characters one after another."""

    distinct: Sequence[str]
    word: IntArray
    vector: IntArray
    characters: IntArray
    offsets: IntArray

    @cached
    def case(self) -> IntArray:
        """How each is written; few taggers ask."""
        return np.fromiter(map(case_of, self.distinct), dtype=np.int64, count=len(self.distinct))

    def spelt(self, kinds: IntArray) -> Spelt:
        """The characters of these words."""
        lengths = self.offsets[kinds + 1] - self.offsets[kinds]
        return Spelt(self.characters[ranges(self.offsets[kinds], lengths)], offsets_of(lengths))


@dataclass(frozen=True, slots=True, eq=False)
class TokenIds:
    """What the parts of an encoder look up for N tokens of B sentences, flat.

    With an `index`, the rows of word, vector, case and spelling are those of the W distinct words, and the index says
    which word each token is: what depends on the word alone is computed once.
    """

    lengths: IntArray
    word: IntArray
    vector: IntArray
    case: IntArray | None
    columns: Mapping[str, IntArray]
    spelt: Spelt | None
    """Of distinct words."""
    spelt_index: IntArray | None
    """Which of them each row is; None if each is the one of its number."""
    pairs: IntArray | None
    """``(N, 2)``: each token with its left and with its right neighbour."""
    index: IntArray | None
    """``(N,)``"""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSentences:
    """Encoded sentences: ``kinds[N]`` numbers the distinct words."""

    lengths: IntArray
    offsets: IntArray
    kinds: IntArray
    words: Words
    columns: Mapping[str, IntArray]
    pairs: IntArray | None = None
    """``[N, 2]``: each token with its left and with its right neighbour."""

    def rows(self, examples: IntArray) -> IntArray:
        """The tokens of these sentences."""
        return ranges(self.offsets[examples], self.lengths[examples])

    def token_ids(self, examples: IntArray, parts: Collection[str], *, of_words: bool = False) -> TokenIds:
        """The sentences with these numbers, with what these parts of the encoder ask for.

        With `of_words` as rows of distinct words and an index, for parts that all depend on the word alone.
        """
        rows = self.rows(examples)
        kinds = self.kinds[rows]
        index = spelt = spelt_index = None
        if of_words:
            kinds, index = self._distinct(kinds)
        if "characters" in parts:
            distinct, spelt_index = (kinds, None) if of_words else self._distinct(kinds)
            spelt = self.words.spelt(distinct)
        return TokenIds(
            self.lengths[examples],
            self.words.word[kinds],
            self.words.vector[kinds],
            self.words.case[kinds] if "case" in parts else None,
            {name: values[rows] for name, values in self.columns.items()},
            spelt,
            spelt_index,
            None if self.pairs is None else self.pairs[rows],
            index,
        )

    def _distinct(self, kinds: IntArray) -> tuple[IntArray, IntArray]:
        """The kinds that occur, in order, and the place of each among them."""
        present = np.zeros(len(self.words.distinct), dtype=np.bool_)
        present[kinds] = True
        places = np.cumsum(present) - 1
        return np.flatnonzero(present), places[kinds]


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """``starts[i], starts[i] + 1, ...``, as many as ``lengths[i]``, one after another.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    result: IntArray = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return result


def case_of(word: str) -> int:
    """How a word is written, as an id into `CASES`."""
    if word.islower():
        name = "with digits" if any(map(str.isdigit, word)) else "lower"
    elif word.isupper():
        name = "with digits" if any(map(str.isdigit, word)) else "UPPER"
    elif word.isdigit():
        name = "digits"
    elif any(map(str.isdigit, word)):
        name = "with digits"
    elif word[:1].isupper() and word[1:].islower():
        name = "Title"
    elif word.lower() != word or word.upper() != word:
        name = "mIxed"
    else:
        name = "no case" if any(map(str.isalpha, word)) else "no letters"
    return FIRST + CASES.index(name)
