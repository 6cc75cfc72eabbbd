"""The averaged perceptron (Collins 2002): decode, move the weights after each mistake, answer with their average."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trellis.training.history import Iterate
from trellis.training.objective import MistakeObjective, Perceptron, Vector


def averaged_perceptron(
    objective: MistakeObjective, start: Vector, *, epsilon: float = 0.0, seed: int = 0
) -> Iterator[Iterate]:
    """One iterate per pass; its loss is the share of tokens tagged wrongly, and it ends at `epsilon` or less."""
    random = np.random.default_rng(seed)
    state = Perceptron(start.copy(), np.zeros_like(start))
    while True:
        wrong = objective.correct(random.permutation(objective.examples), state)
        yield Iterate(state.average(), wrong, None, "converged" if wrong <= epsilon else None)
