"""What the tests of a CRF share: slopes by differences, labels that are partly known, answers by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

Path = tuple[str, ...]


def random_weights(objective: Any, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=objective.size)


def check_gradient(objective: Any, exact: Any = None, tolerance: float = 1e-6) -> None:
    """The gradient is the slope of the loss, or of that of an `exact` objective with the same weights."""
    w = random_weights(objective)
    exact, g, scratch, step = exact or objective, np.full_like(w, np.nan), np.empty_like(w), 1e-6
    objective.evaluate(w, g)
    for i in range(objective.size):
        up, down = w.copy(), w.copy()
        up[i] += step
        down[i] -= step
        slope = (exact.evaluate(up, scratch) - exact.evaluate(down, scratch)) / (2 * step)
        assert g[i] == pytest.approx(slope, rel=1e-5, abs=tolerance)


def partly(y: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Labels of which one in three is unknown, and one in three a choice."""
    return [[None if t % 3 == 0 else {"A", label} if t % 3 == 1 else label for t, label in enumerate(own)] for own in y]


def check_answers(
    model: Any,
    sentences: list[list[str]],
    labels: Sequence[str],
    scores_of: Callable[[list[str]], Mapping[Path, float]],
) -> None:
    """Tags, k best, marginals and probabilities are those of the scores of all paths."""
    columns = [model.labels_.index(label) for label in labels]
    answers = model.predict(sentences), model.marginals(sentences), model.kbest(sentences, 3)
    for x, tags, rows, best in zip(sentences, *answers, strict=True):
        scores = scores_of(x)
        log_z = logsumexp(list(scores.values()))
        order = sorted(scores, key=lambda path: -scores[path])
        assert tuple(tags) == order[0]
        assert len({tuple(found.tags) for found in best}) == min(3, len(order))
        for found, path in zip(best, order, strict=False):
            assert found.probability == pytest.approx(np.exp(scores[tuple(found.tags)] - log_z))
            assert found.probability == pytest.approx(np.exp(scores[path] - log_z))
        expected = np.zeros((len(x), len(labels)))
        for path, score in scores.items():
            for t, label in enumerate(path):
                expected[t, labels.index(label)] += np.exp(score - log_z)
        np.testing.assert_allclose(rows[:, columns], expected, atol=1e-9)
        assert model.sequence_probabilities([x], [list(order[0])])[0] == pytest.approx(np.exp(scores[order[0]] - log_z))
