"""Training: optimizers that see an `Objective`, never a model, and the loop that drives them."""

from __future__ import annotations

from trellis.training.driver import Trained, run, undisturbed
from trellis.training.history import DevScores, History, Iterate, Progress, Reason, Step
from trellis.training.lbfgs import lbfgs
from trellis.training.objective import Descent, MistakeObjective, Objective, Perceptron, StochasticObjective
from trellis.training.online import averaged_perceptron, sgd
from trellis.training.owlqn import owlqn, pseudo_gradient
from trellis.training.record import read_history

__all__ = [
    "Descent",
    "DevScores",
    "History",
    "Iterate",
    "MistakeObjective",
    "Objective",
    "Perceptron",
    "Progress",
    "Reason",
    "Step",
    "StochasticObjective",
    "Trained",
    "averaged_perceptron",
    "lbfgs",
    "owlqn",
    "pseudo_gradient",
    "read_history",
    "run",
    "sgd",
    "undisturbed",
]
