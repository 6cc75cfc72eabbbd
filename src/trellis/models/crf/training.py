"""From settings to an optimizer, and from held-out sentences to a score: how a CRF's training is put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from trellis.errors import DataError, ModelError
from trellis.features import Extractor
from trellis.models.crf.config import MISTAKE_DRIVEN, SUMMED, CRFConfig
from trellis.models.crf.model import CRFWeights, Earlier, Observed, scores_per_token
from trellis.models.crf.objective import CRFObjective, FeatureObjective
from trellis.models.data import Labelled, check_held_out, dev_scores
from trellis.models.posterior import best_labels
from trellis.models.tagger import FitOptions, sentences_at_once
from trellis.store import Stored
from trellis.training import (
    DevScores,
    History,
    Iterate,
    Progress,
    Resumption,
    averaged_perceptron,
    lbfgs,
    owlqn,
    retry_on_interrupt,
    run,
    sgd,
)
from trellis.training.checkpoint import TrainingFolder
from trellis.training.objective import PassiveAggressive, Vector
from trellis.training.online import arow, first_rate, passive_aggressive, saved_rate

_QUASI_NEWTON = ("memory", "epsilon", "delta", "period", "max_linesearch")


def learn(
    objective: FeatureObjective,
    earlier: Earlier | None,
    settings: CRFConfig,
    extractor: Extractor,
    dev: Labelled | None,
    options: FitOptions,
) -> tuple[CRFWeights, History, CRFConfig]:
    """The weights that a model keeps, how they were found, and with which settings; all processes take part."""
    group, states = options.group, objective.states
    start = np.zeros(objective.size) if earlier is None else objective.weights_of(earlier.weights, earlier.states)
    held_out = None
    if dev is not None and group.rank == 0:
        cells = scores_per_token(len(objective.transitions.labels), steps=objective.steps is not None)
        size = sentences_at_once(len(states.tags), cells)
        parts = (dev.inputs[i : i + size] for i in range(0, len(dev.inputs), size))
        held_out = [Observed.of(extractor, part, objective.index, objective.edge_index) for part in parts], dev
    if settings.algorithm in SUMMED:
        objective.finalize()
    weights, (history, found) = group.run(
        objective.size,
        objective.shard_loss,
        lambda: train(objective, start, settings, held_out, options.progress, options.folder),
    )

    def pruned() -> CRFWeights:
        kept = objective.parameters(weights).pruned(found.prune or 0.0)
        return kept.single() if found.precision == "single" else kept

    return retry_on_interrupt(pruned), history, found


def train(
    objective: FeatureObjective,
    start: Vector,
    settings: CRFConfig,
    dev: tuple[list[Observed], Labelled] | None,
    progress: Progress | None,
    folder: TrainingFolder | None,
) -> tuple[Vector, tuple[History, CRFConfig]]:
    """Run the chosen optimizer to its end; the settings come back with the step length that sgd found."""
    if settings.algorithm == "sgd" and settings.c1:
        raise ModelError("sgd does not support L1 regularisation: set c1 = 0, or use owlqn")
    if settings.algorithm in MISTAKE_DRIVEN and isinstance(objective, CRFObjective):
        objective.require_equal_tokens(settings.algorithm)
    rates: list[float] = []
    resumption = Resumption(start, folder, settings.checkpoint_seconds)
    trained = run(
        _iterates(objective, resumption.weights, settings, rates, resumption.optimizer),
        resumption,
        max_iterations=settings.max_iterations,
        validate=None if dev is None else _validation(objective, *dev),
        patience=settings.patience,
        progress=progress,
    )
    if not np.isfinite(trained.weights).all():
        raise DataError("training ended in weights that are not finite; feature values are too large")
    found = replace(settings, learning_rate=rates[0]) if rates else settings
    return trained.weights, (trained.history, found)


def _iterates(
    objective: FeatureObjective, start: Vector, c: CRFConfig, rates: list[float], state: Stored | None
) -> Iterator[Iterate]:
    """The iterates of the optimizer, from its saved `state` if there is one; `rates` gets the first step of sgd."""
    if c.algorithm in SUMMED:
        shared: dict[str, Any] = {name: getattr(c, name) for name in _QUASI_NEWTON}
        if c.algorithm == "owlqn":
            return owlqn(objective, start, c1=c.c1, **shared, state=state)
        return lbfgs(objective, start, **shared, state=state)
    assert isinstance(objective, CRFObjective)
    if c.algorithm == "ap":
        return averaged_perceptron(objective, start, seed=c.seed, state=state)
    if c.algorithm == "pa":
        rule = PassiveAggressive(c.pa_type, c.aggressiveness, c.error_sensitive)
        return passive_aggressive(objective, start, rule, averaging=c.averaging, seed=c.seed, state=state)
    if c.algorithm == "arow":
        return arow(objective, start, variance=c.variance, gamma=c.gamma, seed=c.seed, state=state)
    return _descent(objective, start, c, rates, state)


def _descent(
    objective: CRFObjective, start: Vector, c: CRFConfig, rates: list[float], state: Stored | None
) -> Iterator[Iterate]:
    """The iterates of sgd; it is only when the first is asked for that its first step length is looked for."""
    assert c.period is not None
    assert c.delta is not None
    if state is not None:
        rates.append(saved_rate(state))
    elif c.learning_rate is None:
        rates.append(first_rate(objective, start, batch=c.batch_size, seed=c.seed))
    else:
        rates.append(c.learning_rate)
    yield from sgd(
        objective,
        start,
        batch=c.batch_size,
        rate=rates[0],
        period=c.period,
        delta=c.delta,
        seed=c.seed,
        state=state,
    )


def _validation(objective: FeatureObjective, blocks: list[Observed], dev: Labelled) -> Callable[[Vector], DevScores]:
    """A function from weights to the score on the held-out sentences, which are given block by block."""
    states = objective.states
    check_held_out(dev, states.tags)

    def validate(weights: Vector) -> DevScores:
        p = objective.parameters(weights)
        scores = (block.scores(p) for block in blocks)
        return dev_scores(dev, best_labels(scores, dev.inputs, states, p.state_labels), states.tags)

    return validate
