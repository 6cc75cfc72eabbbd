"""Scores of spans: the figures conlleval prints and seqeval computes, per type and averaged.

    >>> scores = entity_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "B-ORG"]])
    >>> scores.micro.f1, scores.types["PER"].f1, scores.accuracy
    (0.5, 1.0, 0.75)

The default reading repairs illegal tags as conlleval does. Strict reading, for a given scheme, counts
well-formed spans only; it equals seqeval's strict mode except in IOE1, where seqeval misses spans of one
token that stand right before another span of their type (``trellis.compat.seqeval`` misses them too).

A span is right when its tokens and its type are. If all tags of a sentence are right, so are its spans, and only
the sentences that differ are read twice. There, no two spans of one reading end at the same token, so one pass over an
array indexed by the end position finds all matches. Time is linear in the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from operator import ne
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.arrays import BoolArray, IntArray
from trellis.errors import number_of
from trellis.metrics.prf import SCORE_COLUMNS, Score, Tally, averages, check_aligned, per_type, percent
from trellis.report import Grid, Report
from trellis.tags import Scheme, Style
from trellis.tags.spans import Alphabet, Chunks, ChunkTables, Tags, find_chunks, locate, reading, scheme_alphabet


@dataclass(frozen=True)
class EntityScores(Report):
    """Scores of predicted spans against gold spans; a type without a name is listed as ``_``."""

    types: dict[str, Score]
    micro: Score
    macro: Score
    weighted: Score
    accuracy: float  # share of tokens with the right tag
    tokens: int
    sentences: int

    def grid(self) -> Grid:
        """One row per type, then the averages."""
        rows = [(name, *score.cells()) for name, score in self.types.items()]
        means = (("micro", self.micro), ("macro", self.macro), ("weighted", self.weighted))
        rows += [(f"{name} average", *score.cells()) for name, score in means]
        title = f"Spans of {number_of(self.tokens, 'token')}, token accuracy {percent(self.accuracy)}"
        return Grid(title, ("type", *SCORE_COLUMNS), tuple(rows))


def entity_scores(
    gold: Tags,
    predicted: Tags,
    *,
    scheme: Scheme | None = None,
    style: Style = Style.PREFIX,
    strict: bool = False,
) -> EntityScores:
    """Precision, recall and F1 of spans; see the module for what ``strict`` means."""
    found = compare(gold, predicted, scheme=scheme, style=style, strict=strict)
    counts = tally(found)
    means = averages(counts)
    types = {name or "_": score for name, score in per_type(counts).items()}
    accuracy = (found.tokens - found.wrong_tags) / found.tokens if found.tokens else 0.0
    return EntityScores(types, *means, accuracy, found.tokens, len(gold))


def entity_counts(
    gold: Tags,
    predicted: Tags,
    *,
    scheme: Scheme | None = None,
    style: Style = Style.PREFIX,
    strict: bool = False,
) -> IntArray:
    """Correct, predicted and gold spans of each sentence, [S, 3]: what resampling needs."""
    return tally_sentences(compare(gold, predicted, scheme=scheme, style=style, strict=strict))


class Comparison(NamedTuple):
    """The gold spans, and for the sentences whose tags may differ the spans of both sides and which are right.

    Spans of the sentences that differ have positions as if there were no other sentences.
    """

    lengths: list[int]  # tokens of each sentence
    differ: BoolArray  # for each sentence
    gold: Chunks
    gold_there: Chunks
    predicted_there: Chunks
    hits: BoolArray  # for each span in predicted_there
    kinds: list[str]
    tokens: int
    wrong_tags: int


def compare(
    gold: Tags,
    predicted: Tags,
    *,
    scheme: Scheme | None = None,
    style: Style = Style.PREFIX,
    strict: bool = False,
) -> Comparison:
    """Read and match two tag corpora; without a scheme the letters of all schemes are read, leniently."""
    return compare_read(gold, predicted, scheme_alphabet(scheme, style), reading(scheme, strict=strict))


def compare_read(gold: Tags, predicted: Tags, alphabet: Alphabet, tables: ChunkTables | None = None) -> Comparison:
    """:func:`compare` with labels read by ``alphabet``, strictly by ``tables`` if given."""
    lengths = check_aligned(gold, predicted)
    differ = np.fromiter(map(ne, gold, predicted), dtype=np.bool_, count=len(lengths))
    codes = alphabet.encode(gold)
    guesses_there = alphabet.encode(compress(predicted, differ.tolist()))
    if tables is None and alphabet.strange:  # then no sentence can be skipped
        differ, guesses_there = np.ones_like(differ), alphabet.encode(predicted)
    codes_there = codes[np.repeat(differ, np.array(lengths, dtype=np.int64) + 1)]
    true, true_there, guessed = (find_chunks(alphabet, side, tables) for side in (codes, codes_there, guesses_there))
    return Comparison(
        lengths,
        differ,
        true,
        true_there,
        guessed,
        match_chunks(true_there, guessed, len(codes_there)),
        alphabet.kinds,
        len(codes) - len(lengths),
        int(np.count_nonzero(codes_there != guesses_there)),
    )


def match_chunks(gold: Chunks, predicted: Chunks, size: int) -> BoolArray:
    """For each predicted span, whether it is among the gold spans; ``size`` is the number of flat positions."""
    begin_at = np.full(size, -1, dtype=np.int64)
    begin_at[gold.end] = gold.begin
    kind_at = np.empty(size, dtype=np.int32)
    kind_at[gold.end] = gold.kind
    same_begin = begin_at[predicted.end] == predicted.begin
    hits: BoolArray = same_begin & (kind_at[predicted.end] == predicted.kind)
    return hits


def tally(found: Comparison) -> Tally:
    """Counts for each type that occurs, by name."""

    def count(kinds: NDArray[np.int32]) -> IntArray:
        return np.bincount(kinds, minlength=len(found.kinds))

    guessed, gold = found.predicted_there.kind, count(found.gold.kind)
    elsewhere = gold - count(found.gold_there.kind)
    correct, predicted = elsewhere + count(guessed[found.hits]), elsewhere + count(guessed)
    seen = sorted(np.flatnonzero(predicted + gold).tolist(), key=found.kinds.__getitem__)
    return Tally([found.kinds[index] for index in seen], correct[seen], predicted[seen], gold[seen])


def tally_sentences(found: Comparison) -> IntArray:
    """Correct, predicted and gold spans of each sentence, [S, 3]."""
    gold = np.bincount(locate(found.gold, found.lengths)[0], minlength=len(found.lengths))
    counts = np.stack([gold, gold, gold], axis=1)
    owner = locate(found.predicted_there, compress(found.lengths, found.differ.tolist()))[0]
    size = int(np.count_nonzero(found.differ))
    counts[found.differ, 0] = np.bincount(owner[found.hits], minlength=size)
    counts[found.differ, 1] = np.bincount(owner, minlength=size)
    return counts
