"""What the tests of a CRF share: small corpora, objectives, and the score of every path by the names of weights."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from trellis.features import AttributeIndex, TemplateExtractor, Templates
from trellis.models.crf.model import CRFWeights, Observed
from trellis.models.crf.training import CRFObjective, FeatureSelection
from trellis.models.data import Labelled
from trellis.tags import StateMap

Path = tuple[str, ...]
LABELS = ["A", "B", "C"]
PLAIN = "U0:%x[0,0]\nB\n"
EDGES = "U0:%x[0,0]\nB\nB1:%x[0,0]\nB2:%x[-1,0]/%x[0,0]\n*3:%x[1,0]\n"


def make_data(seed: int = 0, sentences: int = 10, lengths: tuple[int, int] = (1, 5)) -> tuple[list[list[str]], Any]:
    random = np.random.default_rng(seed)
    sizes = random.integers(lengths[0], lengths[1] + 1, size=sentences)
    X = [random.choice(list("xyz"), size=n).tolist() for n in sizes]
    return X, [random.choice(LABELS, size=n).tolist() for n in sizes]


def objective_of(
    X: Sequence[Any],
    y: Sequence[Any],
    text: str = EDGES,
    *,
    pairs: int | None = None,
    every: bool = False,
    min_freq: float = 0.0,
    scheme: str = "plain",
    constraints: bool = False,
    **options: Any,
) -> CRFObjective:
    """Of the features of templates; with `pairs` of order 2; with `every` also weights of what never occurs."""
    data, index, edges = Labelled.of(X, y), AttributeIndex(), AttributeIndex()
    observed = Observed.of(TemplateExtractor(Templates.parse(text)), X, index, edges, grow=True)
    choice = FeatureSelection(min_freq, False, every or pairs is None, True, constraints, every, pairs)
    states = StateMap.of(data.labels_in(data.detect(scheme)))
    return CRFObjective(observed, index, data, states, choice, edge_index=edges, **options)


def named(p: CRFWeights, labels: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Weights by (attribute, label), (label, label), (attribute, label, label) and (label, label, label)."""
    found: dict[tuple[str, ...], float] = {
        (p.index.name(a), labels[own]): v for a, own, v in zip(p.owners, p.labels, p.weights, strict=True)
    }
    found |= {(labels[i], labels[j]): p.transitions[i, j] for i, j in np.argwhere(p.weighted)}
    if p.edges is not None:
        for a, pair, v in zip(p.edges.owners, p.edges.labels, p.edges.weights, strict=True):
            found[(p.edges.index.name(a), *(labels[i] for i in divmod(pair, len(labels))))] = v
    h = p.histories
    if h is not None:
        found |= {(*(labels[i] for i in h.pairs[k]), labels[c]): h.rows[k, c] for k, c in np.argwhere(h.weighted)}
    return found


def weights_of(model: Any) -> dict[tuple[str, ...], float]:
    """The weights by name of a fitted model with plain labels."""
    return named(model.parameters_, model.labels_)


def triples(objective: CRFObjective) -> set[tuple[str, ...]]:
    """The names of the weights that are about two labels and an attribute, or about three labels."""
    p = objective.parameters(np.zeros(objective.size))
    return {key for key in named(p, objective.states.names) if len(key) == 3}


def at(sentence: Sequence[str], t: int) -> str:
    return sentence[t] if 0 <= t < len(sentence) else f"_B{t if t < 0 else t - len(sentence) + 1:+d}"


def path_score(weights: Mapping[Path, float], sentence: Sequence[str], path: Path) -> float:
    """The templates above by hand, and three labels in a row; what has no weight counts nothing."""
    total = 0.0
    for t, label in enumerate(path):
        before, here, after = (at(sentence, t + row) for row in (-1, 0, 1))
        total += weights.get((f"U0:{here}", label), 0.0) + weights.get((f"*3:{after}", label), 0.0)
        if t:
            names = ((), (f"B1:{here}",), (f"B2:{before}/{here}",), (f"*3:{after}",))
            total += sum(weights.get((*name, path[t - 1], label), 0.0) for name in names)
        if t > 1:
            total += weights.get(path[t - 2 : t + 1], 0.0)
    return total


def scores_of(weights: Mapping[Path, float], sentence: Sequence[str]) -> dict[Path, float]:
    return {path: path_score(weights, sentence, path) for path in itertools.product(LABELS, repeat=len(sentence))}


def loss_of(weights: Mapping[Path, float], X: Sequence[Any], y: Sequence[Any]) -> float:
    """Log Z less the log of what the paths that keep to the labels have of it, known in part or not."""
    total = 0.0
    for x, labels in zip(X, y, strict=True):
        scores = scores_of(weights, x)
        kept = [
            score
            for path, score in scores.items()
            if all(own is None or got == own or got in own for got, own in zip(path, labels, strict=True))
        ]
        total += logsumexp(list(scores.values())) - logsumexp(kept)
    return total


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


def check_answers(model: Any, sentences: list[list[str]]) -> None:
    """Tags, k best, marginals and probabilities are those of the scores of all paths."""
    columns, weights = [model.labels_.index(label) for label in LABELS], weights_of(model)
    answers = model.predict(sentences), model.marginals(sentences), model.kbest(sentences, 3)
    for x, tags, rows, best in zip(sentences, *answers, strict=True):
        scores = scores_of(weights, x)
        log_z = logsumexp(list(scores.values()))
        order = sorted(scores, key=lambda path: -scores[path])
        assert tuple(tags) == order[0]
        assert len({tuple(found.tags) for found in best}) == min(3, len(order))
        for found, path in zip(best, order, strict=False):
            assert found.probability == pytest.approx(np.exp(scores[tuple(found.tags)] - log_z))
            assert found.probability == pytest.approx(np.exp(scores[path] - log_z))
        expected = np.zeros((len(x), len(LABELS)))
        for path, score in scores.items():
            for t, label in enumerate(path):
                expected[t, LABELS.index(label)] += np.exp(score - log_z)
        np.testing.assert_allclose(rows[:, columns], expected, atol=1e-9)
        assert model.sequence_probabilities([x], [list(order[0])])[0] == pytest.approx(np.exp(scores[order[0]] - log_z))
