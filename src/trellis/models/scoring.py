"""Predicted labels against true ones: the scores that fit the labels."""

from __future__ import annotations

from collections.abc import Sequence

from trellis.metrics import EntityScores, TaggingScores, entity_scores, tagging_scores
from trellis.tags import Scheme, TagSet

Scores = EntityScores | TaggingScores


def compare(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], tags: TagSet) -> Scores:
    """Scores of spans where the labels have a scheme, of single tags where they have none."""
    if tags.scheme is Scheme.PLAIN:
        return tagging_scores(gold, predicted)
    return entity_scores(gold, predicted, scheme=tags.scheme, style=tags.style)


def headline(scores: Scores) -> float:
    """The one number that people look at."""
    return scores.accuracy if isinstance(scores, TaggingScores) else scores.micro.f1
