"""Scores of words that a segmenter finds, alone and with tags.

    recall = right / gold words      precision = right / predicted words      OOV rate = OOV / gold words
    OOV recall = right OOV / OOV     IV recall = right IV / IV                (OOV: not in the vocabulary)

    >>> gold, predicted = [["我", "喜欢", "音乐"]], [["我", "喜", "欢", "音乐"]]
    >>> scores = segmentation_scores(gold, predicted, vocabulary={"我", "喜欢"})
    >>> scores.words.recall, scores.words.precision, scores.oov_recall, scores.iv_recall
    (0.6666666666666666, 0.5, 1.0, 0.5)

A word is right if the SIGHAN bakeoff scorer says so. That scorer writes one word per line and calls ``diff``, so a
word is right when it lies on a longest common subsequence of both word lists: 看 看看 against 看看 看 has no word at
the same characters, yet ``diff`` finds a common one.

A word with its tag is right if it begins and ends at the same characters as a word of the gold text and has its tag:

    >>> gold = [[("我们", "PRON"), ("爱", "VERB"), ("北京", "PROPN")]]
    >>> predicted = [[("我们", "PRON"), ("爱", "NOUN"), ("北京", "PROPN")]]
    >>> scores = joint_scores(gold, predicted)
    >>> scores.words.words.f1, scores.tagged.f1
    (1.0, 0.6666666666666666)
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.arrays import IntArray
from trellis.errors import DataError, number_of
from trellis.metrics.prf import SCORE_COLUMNS, Score, Tally, averages, check_number, per_type, percent, score
from trellis.results import Grid, Report

Words = Sequence[Sequence[str]]
TaggedWords = Sequence[Sequence[tuple[str, str]]]
"""The words of each sentence, each with its tag."""
Item = tuple[int, int, str]
"""The first character of a word, the one behind its last, and its tag."""
_WINDOW = 4096
"""Words that are aligned at once: a longest common subsequence takes time and memory that grow with their square."""


@dataclass(frozen=True)
class SegmentationScores(Report):
    """Scores of words; vocabulary figures are None without a vocabulary; a recall is None also without such words."""

    words: Score
    oov_words: int | None
    oov_rate: float | None
    oov_recall: float | None
    iv_recall: float | None
    sentences: int

    def grid(self) -> Grid:
        """One row for all words, and two for the vocabulary if there is one."""
        rows = [("all", *self.words.cells())]
        if self.oov_words is not None:
            known = self.words.gold - self.oov_words
            for name, recall, count in (
                ("in vocabulary", self.iv_recall, known),
                ("out of vocabulary", self.oov_recall, self.oov_words),
            ):
                rows.append((name, "", percent(recall), "", str(count), "", ""))
        return Grid(f"Words of {number_of(self.sentences, 'sentence')}", ("words", *SCORE_COLUMNS), tuple(rows))


def segmentation_scores(
    gold: Words, predicted: Words, *, vocabulary: Container[str] | None = None
) -> SegmentationScores:
    """Scores of predicted words, one list of words per sentence; both sides must spell the same text."""
    right = _right_words(gold, predicted)
    correct = sum(map(len, right))
    words = score(correct, sum(map(len, predicted)), sum(map(len, gold)))
    if vocabulary is None:
        return SegmentationScores(words, None, None, None, None, len(gold))
    unknown = sum(word not in vocabulary for sentence in gold for word in sentence)
    pairs = zip(gold, right, strict=True)
    right_unknown = sum(sentence[place] not in vocabulary for sentence, places in pairs for place in places)
    known = words.gold - unknown
    return SegmentationScores(
        words,
        unknown,
        unknown / words.gold if words.gold else 0.0,
        right_unknown / unknown if unknown else None,
        (correct - right_unknown) / known if known else None,
        len(gold),
    )


def segmentation_counts(gold: Words, predicted: Words) -> IntArray:
    """Right, predicted and gold words of each sentence, [S, 3]: what resampling needs."""
    right = _right_words(gold, predicted)
    rows = [[*map(len, row)] for row in zip(right, predicted, gold, strict=True)]
    return np.array(rows, dtype=np.int64).reshape(len(rows), 3)


def _right_words(gold: Words, predicted: Words) -> list[list[int]]:
    """For each sentence the positions of the gold words that are right."""
    check_texts(gold, predicted)
    return [common_words(true, guess) for true, guess in zip(gold, predicted, strict=True)]


def check_texts(gold: Words, predicted: Words) -> None:
    """Refuse words that do not spell the same texts."""
    check_number(gold, predicted)
    for index, (true, guess) in enumerate(zip(gold, predicted, strict=True)):
        left, right = "".join(true), "".join(guess)
        if left != right:
            start = _shared_prefix(left, right)
            raise DataError(
                f"sentence {index}: gold and predicted words spell different texts from character {start}: "
                f"{left[start : start + 10]!r} and {right[start : start + 10]!r}"
            )


@dataclass(frozen=True)
class JointScores(Report):
    """Scores of the words alone, of words with their tags, and of each tag."""

    words: SegmentationScores
    tagged: Score
    tags: dict[str, Score]

    def grid(self) -> Grid:
        """The rows of the segmentation, one for all tagged words, and one for each tag."""
        about = self.words.grid()
        renamed = [("segmentation" if row[0] == "all" else row[0], *row[1:]) for row in about.rows]
        rows = [*renamed, ("joint", *self.tagged.cells())]
        rows += [(tag, *score.cells()) for tag, score in self.tags.items()]
        return Grid(
            f"Tagged words of {number_of(self.words.sentences, 'sentence')}", ("words", *SCORE_COLUMNS), tuple(rows)
        )


def joint_scores(gold: TaggedWords, predicted: TaggedWords, *, vocabulary: Container[str] | None = None) -> JointScores:
    """Scores of predicted words and tags; both sides must spell the same text."""
    words = segmentation_scores(_words(gold), _words(predicted), vocabulary=vocabulary)
    true, guessed = [*map(_items, gold)], [*map(_items, predicted)]
    right = [a & b for a, b in zip(true, guessed, strict=True)]
    counts = [Counter(tag for items in side for _, _, tag in items) for side in (right, guessed, true)]
    names = sorted(counts[1].keys() | counts[2].keys())
    tally = Tally(names, *(np.array([count[name] for name in names], dtype=np.int64) for count in counts))
    return JointScores(words, averages(tally).micro, per_type(tally))


def joint_counts(gold: TaggedWords, predicted: TaggedWords) -> IntArray:
    """Right, predicted and gold tagged words of each sentence, [S, 3]: what resampling needs."""
    check_texts(_words(gold), _words(predicted))
    pairs = zip(map(_items, gold), map(_items, predicted), strict=True)
    rows = [(len(true & guess), len(guess), len(true)) for true, guess in pairs]
    return np.array(rows, dtype=np.int64).reshape(len(rows), 3)


def _words(sentences: TaggedWords) -> list[list[str]]:
    return [[word for word, _ in sentence] for sentence in sentences]


def _items(sentence: Sequence[tuple[str, str]]) -> set[Item]:
    places = word_offsets([word for word, _ in sentence])
    return {(start, end, tag) for (start, end), (_, tag) in zip(places, sentence, strict=True)}


def common_words(gold: Sequence[str], predicted: Sequence[str]) -> list[int]:
    """Positions in ``gold`` of the words on one longest common subsequence with ``predicted``."""
    head = _shared_prefix(gold, predicted)
    tail = _shared_prefix(gold[head:][::-1], predicted[head:][::-1])
    left, right = gold[head : len(gold) - tail], predicted[head : len(predicted) - tail]
    middle = [head + start + i for start, a, b in _windows(left, right) for i in _subsequence(a, b)]
    return [*range(head), *middle, *range(len(gold) - tail, len(gold))]


def _windows(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[int, Sequence[str], Sequence[str]]]:
    """The start of each part of `left`, that part, and the part of `right` that covers about the same characters.

    Long sentences are cut, if possible where both have a boundary.
    """
    ends, others = ([end for _, end in word_offsets(words)] for words in (left, right))
    start = begin = 0
    while start < len(left) and begin < len(right):
        stop, end = start + _WINDOW, begin + _WINDOW
        if stop < len(left) or end < len(right):
            shared = set(ends[start:stop]).intersection(others[begin:end])
            last = max(shared) if shared else min(ends[min(stop, len(left)) - 1], others[min(end, len(right)) - 1])
            stop, end = bisect_right(ends, last, start), bisect_right(others, last, begin)
        yield start, left[start:stop], right[begin:end]
        start, begin = stop, end


def word_offsets(words: Sequence[str]) -> list[tuple[int, int]]:
    """Where each word begins and ends in the text that the words spell."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word)
    return spans


def _shared_prefix(left: Sequence[str], right: Sequence[str]) -> int:
    """How many items both begin with."""
    differ = (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    return next(differ, min(len(left), len(right)))


def _subsequence(left: Sequence[str], right: Sequence[str]) -> list[int]:
    """Positions in ``left`` of a longest common subsequence.

    Row i of the usual table holds L[i, j], the length for ``left[:i]`` and ``right[:j]``. It rises by at
    most 1 from column to column, so a row is one integer whose bit j is 0 where L[i, j + 1] = L[i, j] +
    1, and a row follows from the one above by three machine operations on whole words (Hyyrö 2004).
    """
    full = (1 << len(right)) - 1
    columns: dict[str, int] = {}
    for column, word in enumerate(right):
        columns[word] = columns.get(word, 0) | 1 << column
    rows = [full]
    for word in left:
        row = rows[-1]
        matches = row & columns.get(word, 0)
        rows.append(((row + matches) | (row - matches)) & full)
    # Walk back from the last corner: a step in the row that the row above does not have is a match.
    matched = []
    column, i = rows[0].bit_length(), len(rows) - 1
    while column and i:
        bit = 1 << (column - 1)
        if rows[i] & bit:
            column -= 1
            continue
        i -= 1
        if rows[i] & bit:
            matched.append(i)
            column -= 1
    return matched[::-1]
