"""Training: optimizers that see an `Objective`, never a model, and the loop that drives them."""

from __future__ import annotations

from trellis.training.history import DevScores, History, Iterate, LiveLine, Progress, Reason, Step, read_history
from trellis.training.lbfgs import Objective, lbfgs, owlqn, pseudo_gradient
from trellis.training.loop import Resumption, Trained, TrainingState, retry_on_interrupt, run
from trellis.training.online import (
    Descent,
    MistakeObjective,
    Perceptron,
    StochasticObjective,
    averaged_perceptron,
    sgd,
)

__all__ = [
    "Descent",
    "DevScores",
    "History",
    "Iterate",
    "LiveLine",
    "MistakeObjective",
    "Objective",
    "Perceptron",
    "Progress",
    "Reason",
    "Resumption",
    "Step",
    "StochasticObjective",
    "Trained",
    "TrainingState",
    "averaged_perceptron",
    "lbfgs",
    "owlqn",
    "pseudo_gradient",
    "read_history",
    "retry_on_interrupt",
    "run",
    "sgd",
]
