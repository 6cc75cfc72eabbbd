"""What a neural tagger knows by name: words, characters, pairs of neighbours, values of columns; sentences as ids.

A corpus is encoded once. Everything about a word (its ids, how it is written, its characters) is looked up once for
each *distinct* word; a token is the number of its word, and a batch is a gather.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from trellis import _native
from trellis.arrays import Float32Array, IntArray
from trellis.errors import DataError
from trellis.lazy import cached
from trellis.models.data import name_of, tokens_of
from trellis.models.neural.config import WordSettings
from trellis.ragged import offsets_of, pad, ranges
from trellis.symbols import FIRST, PADDING, UNKNOWN, Symbols
from trellis.text import Sentence
from trellis.vectors import Coverage, read_vectors

PLACES = 4
"""Where a token may be in a word: at its begin, inside, at its end, alone."""
_LONGEST_WORD = 10  # longer ones are not looked for
_FEW = 0.05  # share of the distinct words of a text of characters
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
        """How each word is written; computed on demand, since few taggers use it."""
        return np.fromiter(map(case_of, self.distinct), dtype=np.int64, count=len(self.distinct))

    def spelt(self, kinds: IntArray) -> Spelt:
        lengths = self.offsets[kinds + 1] - self.offsets[kinds]
        return Spelt(self.characters[ranges(self.offsets[kinds], lengths)], offsets_of(lengths))


@dataclass(frozen=True, slots=True, eq=False)
class WordsAround:
    """For each token, the words with vectors that contain it: ``offsets[n]`` is where those of token n begin.

    `share` is how much the vector counts at this place of the token: 0 the word begins there, 1 goes on, 2 ends, 3 is
    the token itself.
    """

    offsets: IntArray
    place: IntArray
    vector: IntArray
    share: Float32Array

    def take(self, rows: IntArray) -> WordsAround:
        """The words around the tokens with these numbers only."""
        sizes = self.offsets[rows + 1] - self.offsets[rows]
        found = ranges(self.offsets[rows], sizes)
        return WordsAround(offsets_of(sizes), self.place[found], self.vector[found], self.share[found])

    @property
    def slots(self) -> IntArray:
        """4 times the token plus the place, in order."""
        return np.repeat(np.arange(len(self.offsets) - 1) * PLACES, np.diff(self.offsets)) + self.place


@dataclass(frozen=True, slots=True, eq=False)
class TokenIds:
    """The ids that the parts of an encoder look up for N tokens of B sentences, flat.

    With an `index`, the rows of word, vector, case and spelling are those of the W distinct words, and the index says
    which word each token is: what depends on the word alone is computed once.
    """

    lengths: IntArray
    word: IntArray
    vector: IntArray
    case: IntArray | None
    columns: Mapping[str, IntArray]
    spelt: Spelt | None
    """Characters of the distinct words."""
    spelt_index: IntArray | None
    """int64: the distinct word of each row; None if row n is word n."""
    pairs: IntArray | None
    """``(N, 2)``: each token with its left and with its right neighbour."""
    index: IntArray | None
    """``(N,)``"""
    around: WordsAround | None = None


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
    around: WordsAround | None = None
    pretrained: Callable[[IntArray], Mapping[str, Any]] | None = None
    """The tensors that a transformer takes for the sentences with these numbers."""
    subwords: Any = None
    """The sentences as a transformer sees them, if it has to run: `trellis.nn.subwords.Subwords`."""

    def rows(self, examples: IntArray) -> IntArray:
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
            None if self.around is None else self.around.take(rows),
        )

    def _distinct(self, kinds: IntArray) -> tuple[IntArray, IntArray]:
        """The kinds that occur, in order, and the index of each token's among them."""
        present = np.zeros(len(self.words.distinct), dtype=np.bool_)
        present[kinds] = True
        index = np.cumsum(present) - 1
        return np.flatnonzero(present), index[kinds]


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


_NONE = Symbols()


class _Numbers(dict[Any, int]):
    """Numbers what it is asked for, from 1 on."""

    def __missing__(self, token: Any) -> int:
        self[token] = number = len(self) + 1
        return number


@dataclass(frozen=True)
class Vocabulary:
    """All that is known by name; `vectors` are the words that a file has vectors for."""

    words: Symbols = _NONE
    vectors: Symbols = _NONE
    characters: Symbols = _NONE
    pairs: Symbols = _NONE
    columns: Mapping[str, Symbols] = field(default_factory=dict)
    lower: bool = False
    counts: IntArray | None = None
    """How often each word with a vector was found in the training text, by id, if the words around tokens count."""

    @property
    def has_only_characters(self) -> bool:
        """Whether words are single characters, as in Chinese segmentation; a few may be broken or composed ones."""
        return sum(len(word) != 1 for word in self.words.names) <= _FEW * len(self.words.names)

    def kinds(self, distinct: Sequence[str]) -> Words:
        """These words with their ids and characters."""
        # The vector of a word is its own, or that of its lower-case form; without one, padding, a row of zeros.
        vectors = self.vectors.ids(distinct)
        missing = np.flatnonzero(vectors == UNKNOWN)
        lower = self.vectors.ids([distinct[i].lower() for i in missing.tolist()])
        vectors[missing] = np.where(lower == UNKNOWN, PADDING, lower)
        lengths = np.fromiter(map(len, distinct), dtype=np.int64, count=len(distinct))
        return Words(
            distinct=distinct,
            word=self.words.ids([word.lower() for word in distinct] if self.lower else distinct),
            vector=vectors,
            characters=self.characters.character_ids("".join(distinct)),
            offsets=offsets_of(lengths),
        )

    def encode(self, inputs: Sequence[Any]) -> EncodedSentences:
        lengths = np.fromiter(map(len, inputs), dtype=np.int64, count=len(inputs))
        numbers = _Numbers()
        with _hashing(inputs):
            with_ends = _native.number_strings([tokens_of(item) for item in inputs], numbers)
        kinds = with_ends[with_ends > 0].astype(np.int64) - 1
        _check_strings(inputs, numbers)
        columns = {name: symbols.ids(list(column_of(inputs, name))) for name, symbols in self.columns.items()}
        distinct: list[str] = list(numbers)
        pairs = None
        if self.pairs.names:
            codes, names = neighbours(kinds, lengths, distinct)
            pairs = self.pairs.ids(names)[codes]
        around = None if self.counts is None else self._around(inputs, self.counts)
        return EncodedSentences(lengths, offsets_of(lengths), kinds, self.kinds(distinct), columns, pairs, around)

    @cached
    def _beginnings(self) -> dict[str, int]:
        """The ids of all words with vectors, and padding for what more letters make a word of."""
        ids: dict[str, int] = {}
        for number, word in enumerate(self.vectors.names, start=FIRST):
            if len(word) <= _LONGEST_WORD:
                ids |= dict.fromkeys((word[:i] for i in range(1, len(word)) if word[:i] not in ids), PADDING)
                ids[word] = number
        return ids

    def find_words(self, inputs: Sequence[Any]) -> IntArray:
        """``[M, 3]``: where a word with a vector begins, as the number of a token, how many tokens it has, its id."""
        ids, found, first = self._beginnings, [], 0
        for item in inputs:
            text = "".join([token if len(token) == 1 else "\n" for token in tokens_of(item)])
            for begin in range(len(text)):
                for end in range(begin + 1, len(text) + 1):
                    number = ids.get(text[begin:end])
                    if number is None:
                        break
                    if number:
                        found.append((first + begin, end - begin, number))
            first += len(text)
        return np.array(found, dtype=np.int64).reshape(-1, 3)

    def _around(self, inputs: Sequence[Any], counts: IntArray) -> WordsAround:
        begin, sizes, number = self.find_words(inputs).T
        token, word = np.repeat(begin, sizes) + (at := ranges(np.zeros_like(sizes), sizes)), np.repeat(number, sizes)
        last = at == np.repeat(sizes, sizes) - 1
        place = np.where(at == 0, np.where(last, 3, 0), np.where(last, 2, 1))
        order = np.lexsort((place, token))
        token, place, word = token[order], place[order], word[order]
        tokens = sum(map(len, inputs))
        frequency = counts[word] + 1.0  # a word that training does not have may turn up later
        share = PLACES * frequency / np.bincount(token, frequency, tokens)[token]
        offsets = offsets_of(np.bincount(token, minlength=tokens).astype(np.int64))
        return WordsAround(offsets, place, word, share.astype(np.float32))


def neighbours(kinds: IntArray, lengths: IntArray, distinct: Sequence[str]) -> tuple[IntArray, list[str]]:
    """Each token with its neighbours: ``codes[N, 2]`` number the names of (left, token) and of (token, right).

    A name is two words with a blank between, of which one is missing at an edge of the sentence.
    """
    edge, ends = len(distinct), np.cumsum(lengths)
    occupied = lengths > 0
    left, right = np.roll(kinds, 1), np.roll(kinds, -1)
    left[(ends - lengths)[occupied]] = right[ends[occupied] - 1] = edge
    pairs = np.stack([left * (edge + 1) + kinds, kinds * (edge + 1) + right], axis=1)
    different, codes = np.unique(pairs, return_inverse=True)
    words = [*distinct, ""]
    names = [f"{words[a]} {words[b]}" for a, b in zip(*np.divmod(different, edge + 1), strict=True)]
    return codes.reshape(pairs.shape), names


def learn_pairs(windows: Iterable[Sequence[Any]], min_freq: int, before: Vocabulary | None = None) -> Symbols:
    """The pairs of neighbours that occur often enough in all windows, after those that were known before."""
    counts: Counter[str] = Counter()
    for inputs in windows:
        encoded = Vocabulary().encode(inputs)
        del inputs  # before the next window is read
        codes, names = neighbours(encoded.kinds, encoded.lengths, encoded.words.distinct)
        # To the right of every token, and to the left of the first ones.
        starts = codes[encoded.offsets[:-1][encoded.lengths > 0], 0]
        by_code = np.bincount(np.concatenate([codes[:, 1], starts]), minlength=len(names))
        counts.update(dict(zip(names, by_code.tolist(), strict=True)))
    return Symbols.learn(counts, min_freq, None if before is None else before.pairs)


def count_words(windows: Iterable[Sequence[Any]], vocabulary: Vocabulary) -> IntArray:
    """How often each word with a vector occurs, by id; not counted inside longer words with vectors."""
    counts = np.zeros(len(vocabulary.vectors), dtype=np.int64)
    for inputs in windows:
        begin, sizes, number = vocabulary.find_words(inputs).T
        # In the order of their begin, of equal ones longest first, a word is inside another if one before ends as late.
        order = np.lexsort((-sizes, begin))
        ends = (begin + sizes)[order]
        outer = np.maximum.accumulate(np.concatenate([[0], ends[:-1]]))
        counts += np.bincount(number[order][ends > outer], minlength=len(counts))
        del inputs  # before the next window is read
    return counts


@dataclass(frozen=True)
class TokenCounts:
    """How often tokens, and values of columns, occur in training; in the order of their first places."""

    tokens: Counter[str]
    columns: Mapping[str, Counter[str]]

    @classmethod
    def count(cls, windows: Iterable[Sequence[Any]], columns: Sequence[str]) -> TokenCounts:
        tokens: Counter[str] = Counter()
        values: dict[str, Counter[str]] = {name: Counter() for name in columns}
        for inputs in windows:
            with _hashing(inputs):
                counts = Counter(chain.from_iterable(map(tokens_of, inputs)))
            _check_strings(inputs, counts)
            tokens.update(counts)
            for name, column in values.items():
                column.update(column_of(inputs, name))
            del inputs  # before the next window is read
        return cls(tokens, values)


def learn_vocabulary(seen: TokenCounts, *, lower: bool, min_freq: int, before: Vocabulary | None = None) -> Vocabulary:
    """Words, characters and values of columns that occur, after those that were known before."""
    known = before or Vocabulary()
    words: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for token, count in seen.tokens.items():
        words[token.lower() if lower else token] += count
        letters.update({letter: count * times for letter, times in Counter(token).items()})
    return Vocabulary(
        words=Symbols.learn(words, min_freq, known.words),
        characters=Symbols.learn(letters, 1, known.characters),
        columns={name: Symbols.learn(counts, 1, known.columns.get(name)) for name, counts in seen.columns.items()},
        lower=lower,
    )


@contextmanager
def _hashing(inputs: Sequence[Any]) -> Iterator[None]:
    """Name the token that has no hash, such as a list."""
    try:
        yield
    except TypeError:
        _check_strings(inputs, [None])
        raise


def _check_strings(inputs: Sequence[Any], distinct: Iterable[Any]) -> None:
    """Refuse tokens that are not strings, and a string in the place of a list of them."""
    bare = any(isinstance(item, str) for item in inputs)
    if not bare and all(isinstance(token, str) for token in distinct):
        return
    for number, item in enumerate(inputs):
        wrong = [item] if isinstance(item, str) else [t for t in tokens_of(item) if not isinstance(t, str)]
        if wrong:
            raise DataError(f"{name_of(number, item)}: expected a list of strings, got {wrong[0]!r:.40}")


def column_of(inputs: Sequence[Any], name: str) -> Iterable[str]:
    """The values of a column, of all tokens."""
    for number, item in enumerate(inputs):
        columns = item.columns if isinstance(item, Sentence) else {}
        if name not in columns and len(item):
            has = ", ".join(map(repr, columns)) or "none"
            raise DataError(f"{name_of(number, item)} has no column {name!r} (encoder.columns); it has {has}")
        yield from columns.get(name, ())


def add_vectors(
    vocabulary: Vocabulary, settings: WordSettings, seen: Sequence[str]
) -> tuple[Vocabulary, Float32Array | None, Coverage | None]:
    """The vocabulary with the words that have vectors, their table (rows of zeros for padding and unknown), coverage.

    The vectors of all words seen in training are kept, whether frequent enough for a learned one or not, and the first
    `extra` of the file.
    """
    if settings.vectors is None:
        return vocabulary, None, None
    vectors = read_vectors(settings.vectors, seen, extra=settings.extra)
    names = sorted(vectors.rows, key=lambda word: vectors.rows[word])
    table = np.zeros((FIRST + len(names), vectors.size), dtype=np.float32)
    table[FIRST:] = vectors.array[[vectors.rows[name] for name in names]]
    return replace(vocabulary, vectors=Symbols(tuple(names))), table, vectors.coverage
