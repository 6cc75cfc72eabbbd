"""From settings to an optimizer, and from held-out sentences to a score: how a CRF's training is put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from trellis.errors import ModelError
from trellis.features import Compiled
from trellis.models.crf.config import CRFConfig
from trellis.models.crf.objective import CRFObjective, scores_of
from trellis.models.data import Labelled
from trellis.models.scoring import held_out_scores
from trellis.training import DevScores, Iterate, Progress, Trained, averaged_perceptron, lbfgs, owlqn, run, sgd
from trellis.training.objective import Vector

_QUASI_NEWTON = ("memory", "epsilon", "delta", "period", "max_linesearch")
_LIMITS = {"sgd": 50, "ap": 20}


def train(
    objective: CRFObjective,
    start: Vector,
    settings: CRFConfig,
    dev: tuple[Compiled, Labelled] | None,
    progress: Progress | None,
) -> Trained:
    """Run the chosen optimizer to its end."""
    limit = settings.max_iterations
    return run(
        _iterates(objective, start, settings),
        start,
        max_iterations=_LIMITS.get(settings.algorithm) if limit is None else limit,
        validate=None if dev is None else _validation(objective, *dev),
        patience=settings.patience,
        progress=progress,
    )


def _iterates(objective: CRFObjective, start: Vector, c: CRFConfig) -> Iterator[Iterate]:
    if c.algorithm == "ap":
        objective.require_equal_tokens(c.algorithm)
        return averaged_perceptron(objective, start, seed=c.seed)
    if c.algorithm == "sgd":
        if c.c1:
            raise ModelError("sgd knows no L1 regularisation: set c1 = 0, or use owlqn")
        return sgd(objective, start, batch=c.batch_size, rate=c.learning_rate, seed=c.seed)
    shared: dict[str, Any] = {name: getattr(c, name) for name in _QUASI_NEWTON}
    if c.algorithm == "owlqn" or c.c1:
        return owlqn(objective, start, c1=c.c1, **shared)
    return lbfgs(objective, start, **shared)


def _validation(objective: CRFObjective, compiled: Compiled, dev: Labelled) -> Callable[[Vector], DevScores]:
    """A function from weights to the score on the held-out sentences."""
    dev.encode(objective.states.tags)

    def validate(weights: Vector) -> DevScores:
        return held_out_scores(scores_of(compiled, objective.parameters(weights)), dev, objective.states)

    return validate
