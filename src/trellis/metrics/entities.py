"""Scores of spans: the figures conlleval prints and seqeval computes, per type and averaged.

    >>> scores = entity_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "B-ORG"]])
    >>> scores.micro.f1, scores.types["PER"].f1, scores.accuracy
    (0.5, 1.0, 0.75)

The default reading repairs illegal tags as conlleval does. Strict reading, for a given scheme, counts
well-formed spans only; it equals seqeval's strict mode except in IOE1, where seqeval misses spans of one
token that stand right before another span of their type (``trellis.compat.seqeval`` misses them too).
"""

from __future__ import annotations

from dataclasses import dataclass

from trellis.arrays import IntArray
from trellis.errors import number_of
from trellis.metrics.matching import compare, tally, tally_sentences
from trellis.metrics.prf import SCORE_COLUMNS, Score, averages, per_type
from trellis.metrics.report import Grid, Report, percent
from trellis.tags import Scheme, Style
from trellis.tags.spans import Tags


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
