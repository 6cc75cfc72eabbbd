"""Scores of words with tags, where the words are predicted too: of the segmentation, and of both together.

A word with its tag is right if it begins and ends at the same characters as a word of the gold text and has its tag.
The words alone are scored as `trellis.metrics.segmentation` does, so that these figures compare with a segmenter's.

    >>> gold = [[("我们", "PRON"), ("爱", "VERB"), ("北京", "PROPN")]]
    >>> predicted = [[("我们", "PRON"), ("爱", "NOUN"), ("北京", "PROPN")]]
    >>> scores = joint_scores(gold, predicted)
    >>> scores.words.words.f1, scores.tagged.f1
    (1.0, 0.6666666666666666)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.arrays import IntArray
from trellis.errors import number_of
from trellis.metrics.alignment import word_offsets
from trellis.metrics.prf import SCORE_COLUMNS, Score, Tally, averages, per_type
from trellis.metrics.report import Grid, Report
from trellis.metrics.segmentation import SegmentationScores, check_texts, segmentation_scores

TaggedWords = Sequence[Sequence[tuple[str, str]]]
"""The words of each sentence, each with its tag."""
Item = tuple[int, int, str]
"""The first character of a word, the one behind its last, and its tag."""


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
    tally = _tally(gold, predicted)
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


def _tally(gold: TaggedWords, predicted: TaggedWords) -> Tally:
    """Counts of each tag that occurs, by name."""
    true, guessed = [*map(_items, gold)], [*map(_items, predicted)]
    right = [a & b for a, b in zip(true, guessed, strict=True)]
    counts = [_by_tag(side) for side in (right, guessed, true)]
    names = sorted(counts[1].keys() | counts[2].keys())
    correct, found, wanted = (np.array([own[name] for name in names], dtype=np.int64) for own in counts)
    return Tally(names, correct, found, wanted)


def _by_tag(sentences: Iterable[Iterable[Item]]) -> Counter[str]:
    return Counter(tag for sentence in sentences for _, _, tag in sentence)
