"""Predicted labels against true ones: the scores that fit the labels, and the score that training watches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from trellis import metrics
from trellis.arrays import IntArray
from trellis.chain import ChainScores
from trellis.models.data import Labelled
from trellis.models.posterior import Posterior
from trellis.tags import Scheme, StateMap, TagSet
from trellis.training import DevScores

Scores: TypeAlias = "metrics.EntityScores | metrics.TaggingScores"  # a text: to tag, neither is imported


def compare(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], tags: TagSet) -> Scores:
    """Scores of spans if the labels have a scheme, of single tags if they have none."""
    if tags.scheme is Scheme.PLAIN:
        return metrics.tagging_scores(gold, predicted)
    return metrics.entity_scores(gold, predicted, scheme=tags.scheme, style=tags.style)


def headline(scores: Scores) -> float:
    """The one number that people look at."""
    return scores.accuracy if isinstance(scores, metrics.TaggingScores) else scores.micro.f1


def held_out_scores(
    blocks: Iterable[ChainScores], dev: Labelled, states: StateMap, histories: IntArray | None = None
) -> DevScores:
    """Scores of a model under training on held-out sentences, given their chain scores block by block.

    With order 2, `histories` are the `states` that those of the chain stand for.
    """
    return scores_of_labels(best_labels(blocks, dev.inputs, states, histories), dev, states)


def best_labels(
    blocks: Iterable[ChainScores], inputs: Sequence[Any], states: StateMap, histories: IntArray | None = None
) -> list[list[str]]:
    """The best labels of the inputs, given their chain scores block by block."""
    labels: list[list[str]] = []
    finer = states.finer if histories is None else states.labels[histories]
    for scores in blocks:
        block = inputs[len(labels) :][: len(scores.lengths)]
        labels += Posterior(scores, states.tags, finer, block, len(labels)).best()
    return labels


def scores_of_labels(predicted: Sequence[Sequence[str]], dev: Labelled, states: StateMap) -> DevScores:
    """The scores of predicted labels of held-out sentences."""
    result = compare(dev.strings(), predicted, states.tags)
    if isinstance(result, metrics.TaggingScores):
        return DevScores(result.accuracy, accuracy=result.accuracy)
    return DevScores(result.micro.f1, result.micro.precision, result.micro.recall, result.accuracy)
