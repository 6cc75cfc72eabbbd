"""Encoded sentences, and batches of them.

A corpus is encoded once. Everything about a word (its ids, how it is written, its characters) is looked up once for
each *distinct* word; a token is the number of its word, and a batch is a gather.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trellis.arrays import IntArray
from trellis.caching import cached
from trellis.nn.dropout import PADDING, UNKNOWN
from trellis.nn.encoder import Batch, Characters
from trellis.nn.packing import Packing
from trellis.nn.subwords import Subwords
from trellis.ragged import pad

FIRST = UNKNOWN + 1
"""The first id that stands for something known."""
CASES = ("lower", "Title", "UPPER", "mIxed", "digits", "with digits", "no letters", "no case")


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

    def spelt(self, kinds: IntArray) -> torch.Tensor:
        """The characters of these words, ``(W, C)``."""
        lengths = self.offsets[kinds + 1] - self.offsets[kinds]
        flat = self.characters[ranges(self.offsets[kinds], lengths)]
        return torch.from_numpy(pad(flat, lengths, fill=PADDING))


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
    pretrained: Callable[[IntArray], Mapping[str, torch.Tensor]] | None = None
    """What a transformer takes of the sentences with these numbers."""
    subwords: Subwords | None = None
    """The sentences as the transformer sees them, if it has to run."""

    def rows(self, examples: IntArray) -> IntArray:
        """The tokens of these sentences."""
        return ranges(self.offsets[examples], self.lengths[examples])

    def batch(self, examples: IntArray, parts: Collection[str], *, of_words: bool = False) -> Batch:
        """The sentences with these numbers as tensors, with what these parts of the encoder ask for.

        With `of_words` as rows of distinct words and an index, for parts that all depend on the word alone.
        """
        rows = self.rows(examples)
        kinds = self.kinds[rows]
        index, spelt = None, None
        if of_words:
            kinds, places = np.unique(kinds, return_inverse=True)
            index = torch.from_numpy(places)
        if "characters" in parts:
            distinct, places = (kinds, np.arange(len(kinds))) if of_words else np.unique(kinds, return_inverse=True)
            spelt = Characters(self.words.spelt(distinct), torch.from_numpy(places))
        return Batch(
            Packing.of(self.lengths[examples]),
            torch.from_numpy(self.words.word[kinds]),
            torch.from_numpy(self.words.vector[kinds]),
            torch.from_numpy(self.words.case[kinds]) if "case" in parts else None,
            {name: torch.from_numpy(values[rows]) for name, values in self.columns.items()},
            spelt,
            None if self.pairs is None else torch.from_numpy(self.pairs[rows]),
            None if self.pretrained is None else self.pretrained(examples),
            index,
        )


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
