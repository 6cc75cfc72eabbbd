"""Which words of two segmentations count as the same, as the SIGHAN bakeoff scorer defines it.

That scorer writes one word per line and calls ``diff``, so a word is right when it lies on a longest
common subsequence of both word lists. Comparing character offsets instead is stricter: 看 看看 against
看看 看 has no word at the same offsets, yet ``diff`` finds a common one.

A longest common subsequence takes time and memory that grow with the square of the words, so sentences of many
thousands of words are cut into parts, if possible where both have a boundary, and aligned part by part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

_WINDOW = 4096
"""Words that are aligned at once."""


def common_words(gold: Sequence[str], predicted: Sequence[str]) -> list[int]:
    """Positions in ``gold`` of the words on one longest common subsequence with ``predicted``."""
    head = _shared_prefix(gold, predicted)
    tail = _shared_prefix(gold[head:][::-1], predicted[head:][::-1])
    left, right = gold[head : len(gold) - tail], predicted[head : len(predicted) - tail]
    middle = [start + place for start, a, b in _windows(left, right) for place in _subsequence(a, b)]
    return [*range(head), *(head + place for place in middle), *range(len(gold) - tail, len(gold))]


def _windows(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[int, Sequence[str], Sequence[str]]]:
    """The start of each part of `left`, that part, and the part of `right` that covers about the same characters."""
    ends, others = ([end for _, end in word_offsets(words)] for words in (left, right))
    start = begin = 0
    while start < len(left) and begin < len(right):
        stop, end = start + _WINDOW, begin + _WINDOW
        if stop < len(left) or end < len(right):
            shared = set(ends[start:stop]).intersection(others[begin:end])
            place = max(shared) if shared else min(ends[min(stop, len(left)) - 1], others[min(end, len(right)) - 1])
            stop, end = bisect_right(ends, place, start), bisect_right(others, place, begin)
        yield start, left[start:stop], right[begin:end]
        start, begin = stop, end


def same_offsets(gold: Sequence[str], predicted: Sequence[str]) -> list[int]:
    """Positions in ``gold`` of the words that ``predicted`` has at the same character offsets."""
    offsets = set(word_offsets(predicted))
    return [place for place, span in enumerate(word_offsets(gold)) if span in offsets]


def word_offsets(words: Sequence[str]) -> list[tuple[int, int]]:
    """Where each word begins and ends in the text that the words spell."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word)
    return spans


def _shared_prefix(left: Sequence[str], right: Sequence[str]) -> int:
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return place
    return min(len(left), len(right))


def _subsequence(left: Sequence[str], right: Sequence[str]) -> list[int]:
    """Positions in ``left`` of a longest common subsequence.

    Row i of the usual table holds L[i, j], the length for ``left[:i]`` and ``right[:j]``. It rises by at
    most 1 from column to column, so a row is one integer whose bit j is 0 where L[i, j + 1] = L[i, j] +
    1, and a row follows from the one above by three machine operations on whole words (Hyyrö 2004).
    """
    full = (1 << len(right)) - 1
    places: dict[str, int] = {}
    for column, word in enumerate(right):
        places[word] = places.get(word, 0) | 1 << column
    rows = [full]
    for word in left:
        row = rows[-1]
        found = row & places.get(word, 0)
        rows.append(((row + found) | (row - found)) & full)
    return _trace(rows)


def _trace(rows: list[int]) -> list[int]:
    """Walk back from the last corner: a step in the row that the row above does not have is a match."""
    matched = []
    column, place = rows[0].bit_length(), len(rows) - 1
    while column and place:
        bit = 1 << (column - 1)
        if rows[place] & bit:
            column -= 1
            continue
        place -= 1
        if rows[place] & bit:
            matched.append(place)
            column -= 1
    return matched[::-1]
