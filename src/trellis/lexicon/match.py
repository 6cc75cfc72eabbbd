"""Finding entries in sentences: one pass of an Aho-Corasick automaton (daachorse) over a block of them.

White space is left out of the text that is searched and of the entries, and both are folded token by token, so that
places in the folded text are places between tokens however folding changes lengths. What was left out is checked
afterwards: an entry with a blank needs two tokens there, and one without is not found across a blank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Literal, NamedTuple

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.errors import DataError, required, shown
from trellis.ragged import offsets_of, ranges
from trellis.text import Sentence, fold_width
from trellis.text.sentence import FoldedTokens
from trellis.untrusted import is_unicode

Boundaries = Literal["token", "character"]
_FEW = 0.2  # share of tokens that are longer, as characters of several code points are
_NEVER = "\ufdd0\ufdd1"  # in place of a surface that UTF-8 cannot write: noncharacters, which no text has
_INSIDE, _UNSURE, _GAP, _CLOSE = range(4)
"""What is at a place of the text: no end of a token; one; one with white space behind it; one without."""


class Matches(NamedTuple):
    """Occurrences: tokens ``begin`` to ``end - 1`` of a sequence, and the number of the entry."""

    sequence: IntArray  # [M]
    begin: IntArray  # [M]
    end: IntArray  # [M]
    entry: IntArray  # [M]


@dataclass(frozen=True)
class Folding:
    """Which differences between entry and text are ignored: case, and full or half width."""

    case: bool = False
    width: bool = True

    def __call__(self, text: str) -> str:
        """The text as it is compared, without white space."""
        plain = "".join(text.split())
        if self.width:
            plain = fold_width(plain)
        return plain.casefold() if self.case else plain

    def each(self, texts: Sequence[str]) -> list[str]:
        """Many texts as they are compared, folded at once if none has white space inside."""
        parts = "\n".join(texts).split()
        if len(parts) != len(texts):
            return list(map(self, texts))
        whole = "\n".join(parts)
        whole = fold_width(whole) if self.width else whole
        return (whole.casefold() if self.case else whole).split("\n") if texts else []


class _Text(NamedTuple):
    """A block of sentences as one folded text, and the tokens that begin and end at each place of it, -1 for none."""

    text: str
    first: IntArray  # [P + 1]
    last: IntArray  # [P + 1]
    owner: IntArray  # [N] the sequence of each token
    place: IntArray  # [N] its place in the sequence


class _Hits(NamedTuple):
    """Places of the text, and the number of the entry there."""

    begin: IntArray
    end: IntArray
    number: IntArray

    def take(self, rows: IntArray) -> _Hits:
        return _Hits(self.begin[rows], self.end[rows], self.number[rows])


@dataclass(frozen=True, eq=False)
class Matcher:
    """An automaton of distinct folded surfaces, and the entries of each."""

    automaton: Any  # of the patterns with two characters or more; a look-up finds the others faster
    singles: IntArray  # by code point: the pattern of that one character, -1 for none; the last is for all beyond
    first_longer: int  # the number of the first pattern of the automaton
    patterns: IntArray  # [E] entries, sorted by pattern
    ends: IntArray  # [patterns + 1] where the entries of a pattern begin and end
    blanks: dict[int, tuple[int, ...]]  # of entries with white space: its places in the folded surface
    has_blanks: BoolArray  # [E]
    folding: Folding
    boundaries: Boundaries
    folded: FoldedTokens

    @classmethod
    def of(cls, surfaces: Sequence[str], folding: Folding, boundaries: Boundaries) -> Matcher:
        """The automaton of the surfaces of entries."""
        folded = folding.each(surfaces)
        single = sorted({s for s in folded if len(s) == 1})
        numbers = {s: number for number, s in enumerate(single)}
        of_entry = np.fromiter((numbers.setdefault(s, len(numbers)) for s in folded), np.int64, len(folded))
        order = np.argsort(of_entry, kind="stable")
        ends = offsets_of(np.bincount(of_entry, minlength=len(numbers)).astype(np.int64))
        # Where the white space of each surface was, in its folded form.
        blanks = {
            number: tuple(accumulate(len(folding(part)) for part in parts[:-1]))
            for number, parts in enumerate(map(str.split, surfaces))
            if len(parts) > 1
        }
        has_blanks = np.zeros(len(surfaces), dtype=np.bool_)
        has_blanks[list(blanks)] = True
        points = _code_points("".join(single))
        singles = np.full(int(points.max(initial=-1)) + 2, -1, dtype=np.int64)
        singles[points] = np.arange(len(single))
        longer = [pattern if is_unicode(pattern) else _NEVER for pattern in list(numbers)[len(single) :]]
        with required("a lexicon", "trellis-crf[lexicon]", DataError):
            import daachorse
        automaton = daachorse.CharwiseDoubleArrayAhoCorasick(longer) if longer else None
        first_longer, folded_tokens = len(single), FoldedTokens(folding)
        return cls(
            automaton, singles, first_longer, order, ends, blanks, has_blanks, folding, boundaries, folded_tokens
        )

    def matches(self, sentences: Sequence[Any]) -> Matches:
        """All occurrences of entries in the sentences."""
        block = self._text(sentences)
        hits = self._hits(block.text)
        begin, end = block.first[hits.begin], block.last[hits.end]
        same = (begin >= 0) & (end >= begin)
        same &= block.owner[begin] == block.owner[end]  # a token -1 is some other one, which does no harm
        hits = hits.take(np.flatnonzero(same))
        hits = hits.take(np.flatnonzero(self._fits(block, sentences, hits)))
        begin, end = block.first[hits.begin], block.last[hits.end]
        return Matches(block.owner[begin], block.place[begin], block.place[end] + 1, hits.number)

    def _text(self, sentences: Sequence[Any]) -> _Text:
        tokens = [item.tokens if isinstance(item, Sentence) else item for item in sentences]
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        try:
            flat = list(map(self.folded.__getitem__, chain.from_iterable(tokens)))
        except (TypeError, AttributeError):
            wrong = next(token for token in chain.from_iterable(tokens) if not isinstance(token, str))
            raise DataError(f"a lexicon needs tokens that are strings, got {shown(wrong)}") from None
        sizes = np.fromiter(map(len, flat), np.int64, len(flat))
        offsets = offsets_of(sizes)
        first = np.full(int(offsets[-1]) + 1, -1, dtype=np.int64)
        last = first.copy()
        filled = np.flatnonzero(sizes)  # a token of white space has no place in the text
        first[offsets[filled]] = last[offsets[filled + 1]] = filled
        owner = np.repeat(np.arange(len(lengths)), lengths)
        return _Text("".join(flat), first, last, owner, ranges(0, lengths))

    def _hits(self, text: str) -> _Hits:
        """The entries at each place of the text."""
        hits: list[tuple[int, int, int]] = []
        if self.automaton is not None:
            # Half a surrogate pair is in no entry; one character stays one.
            plain = text if is_unicode(text) else text.encode("utf-8", "replace").decode()
            hits = self.automaton.find_overlapping(plain)
        begin, end, longer = np.fromiter(chain.from_iterable(hits), np.int64, 3 * len(hits)).reshape(-1, 3).T
        number = np.take(self.singles, _code_points(text), mode="clip")
        places = np.flatnonzero(number >= 0)
        patterns = np.concatenate([number[places], longer + self.first_longer])
        every = _Hits(np.concatenate([places, begin]), np.concatenate([places + 1, end]), patterns)
        if len(self.ends) == len(self.patterns) + 1:  # each pattern is that of one entry
            return every._replace(number=self.patterns[patterns])
        sizes = self.ends[patterns + 1] - self.ends[patterns]
        entry = self.patterns[np.repeat(self.ends[patterns], sizes) + ranges(0, sizes)]
        return every.take(np.repeat(np.arange(len(patterns)), sizes))._replace(number=entry)

    def _fits(self, block: _Text, sentences: Sequence[Any], hits: _Hits) -> BoolArray:
        """Whether white space is where the entry has it, and no word is cut."""
        kind = _breaks(block, sentences)
        # whether a place is in a sentence of characters: one whose tokens are nearly all single ones
        starts = np.flatnonzero(block.first >= 0)
        owner, sizes = block.owner[block.first[starts]], np.diff(np.append(starts, len(block.text)))
        tokens, longer = np.bincount(owner), np.bincount(owner, weights=sizes > 1)
        characters = np.append(np.repeat((longer < _FEW * tokens)[owner], sizes), False)
        joins = np.zeros(len(kind), dtype=np.bool_)  # letters of one word on both sides
        letters = _LATIN[np.minimum(_code_points(block.text), len(_LATIN) - 1)]
        joins[1:-1] = letters[1:] & letters[:-1]
        inner = (kind == _GAP) | ((kind == _UNSURE) & joins & ~characters)
        passed = np.cumsum(inner)
        # passed[end - 1] - passed[begin]: gaps at the places begin + 1 .. end - 1
        between = passed[hits.end - 1] - passed[hits.begin]
        fits: BoolArray = between == 0
        if self.boundaries == "token":
            cut = joins & (kind != _INSIDE) & (kind != _GAP) & characters
            fits &= ~cut[hits.begin] & ~cut[hits.end]
        for row in np.flatnonzero(self.has_blanks[hits.number]).tolist():
            places = hits.begin[row] + np.array(self.blanks[int(hits.number[row])])
            apart = (kind[places] == _UNSURE) | (kind[places] == _GAP)
            fits[row] = apart.all() and inner[places].sum() == between[row]
        return fits


def _breaks(block: _Text, sentences: Sequence[Any]) -> IntArray:
    """For each place of the text, one of _INSIDE, _UNSURE, _GAP and _CLOSE."""
    kind = np.where(block.first >= 0, _UNSURE, _INSIDE)
    starts = np.flatnonzero(block.first >= 0)
    tokens = block.first[starts]
    count = 0
    for item in sentences:
        if isinstance(item, Sentence) and item.offsets is not None and len(item) > 1:
            ends = np.array(item.offsets, dtype=np.int64)
            known = np.where(ends[1:, 0] > ends[:-1, 1], _GAP, _CLOSE)
            low, high = np.searchsorted(tokens, (count + 1, count + len(item)))
            kind[starts[low:high]] = known[tokens[low:high] - count - 1]
        count += len(item)
    kind[starts[1:][np.diff(tokens) > 1]] = _GAP  # a token of white space is between
    kind[starts[block.place[tokens] == 0]] = _GAP
    kind[-1] = _GAP
    return kind


def _code_points(text: str) -> IntArray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)


# Letters of scripts that separate words by blanks (Latin, Greek, Cyrillic, Armenian, Hebrew and Arabic come before
# U+0700) and digits, by code point; the last is for all others.
_LATIN = np.array([chr(point).isalnum() for point in range(0x700)] + [False], dtype=np.bool_)
