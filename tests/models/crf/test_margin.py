"""Passive-aggressive learning and AROW: each pass as a few lines of NumPy, and python-crfsuite's own weights."""

import itertools

import numpy as np
import pytest
import sklearn_crfsuite as original

from tests.models.contract import TRAIN
from tests.models.crf import oracle
from tests.models.crf.oracle import EDGES, PLAIN, named, path_score
from tests.models.crf.test_training import make_data, objective_of, perceptron_step
from trellis.compat import sklearn_crfsuite as compat
from trellis.errors import ConfigError, ModelError
from trellis.models import CRF
from trellis.training.online import PassiveAggressive, arow, passive_aggressive

X, Y = make_data(seed=6, sentences=15)


def wrong_labels(objective, w, x, gold) -> int:
    return sum(a != b for a, b in zip(CRF_of(objective, w).predict([x])[0], gold, strict=True))


def CRF_of(objective, w):
    """A model with these weights, to ask for its labels."""
    model = CRF(features="ready", scheme="plain", constraints=False)
    model.parameters_, model.states_, model.tagset_ = objective.parameters(w), objective.states, objective.states.tags
    model.settings_, model.tokenizer_ = model.config, "words"
    return model


def steps(objective, passes, seed, start, move):
    """The weights along the way: `move` gives the next from the weights, f and the number of wrong labels."""
    random, along = np.random.default_rng(seed), [start]
    for order in (random.permutation(len(X)) for _ in range(passes)):
        for i in order:
            w = along[-1]
            wrong = wrong_labels(objective, w, X[i], Y[i])
            along.append(move(w, perceptron_step(objective, w, X[i], Y[i]), wrong) if wrong else w)
    return along


@pytest.mark.parametrize("by_errors", [True, False])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_pass_of_pa_moves_as_its_formula_says(kind, by_errors) -> None:
    objective, c = objective_of(X, Y, all_states=True), 0.05

    def move(w, f, wrong):
        cost = -w @ f + (np.sqrt(wrong) if by_errors else 1.0)
        return w + f * (cost / (f @ f), min(c, cost / (f @ f)), cost / (f @ f + 0.5 / c))[kind]

    start = np.random.default_rng(1).normal(size=objective.size)
    along = steps(objective, 2, 3, start, move)
    rule = PassiveAggressive(kind, c, by_errors)
    for averaging, expected in ((False, along[-1]), (True, start + np.mean(along, axis=0) - start)):
        iterates = passive_aggressive(objective, start, rule, averaging=averaging, seed=3)
        found = [next(iterates) for _ in range(2)][-1]
        np.testing.assert_allclose(found.weights, expected, atol=1e-9)


def test_a_pass_of_arow_moves_as_its_formula_says() -> None:
    objective, gamma = objective_of(X, Y, all_states=True), 2.0
    variances = np.full(objective.size, 0.5)

    def move(w, f, wrong):
        alpha = (wrong - w @ f) / (gamma + f @ (variances * f))
        w = w + alpha * variances * f
        variances[:] = 1 / (1 / variances + f * f / gamma)
        return w

    along = steps(objective, 2, 3, np.zeros(objective.size), move)
    iterates = arow(objective, np.zeros(objective.size), variance=0.5, gamma=gamma, seed=3)
    np.testing.assert_allclose([next(iterates) for _ in range(2)][-1].weights, along[-1], atol=1e-9)


@pytest.mark.parametrize(("text", "pairs"), [(EDGES, None), (PLAIN, 4)], ids=["steps", "order 2"])
def test_arow_with_edges_or_pairs_of_labels_moves_by_an_enumeration(text, pairs) -> None:
    sentences, gold = oracle.make_data(sentences=6)
    objective = oracle.objective_of(sentences, gold, text, pairs=pairs)

    def by_name(w):
        return named(objective.parameters(w), objective.states.names)

    start = np.random.default_rng(1).normal(size=objective.size)  # no ties: the chain settles them by state
    w, variances = start, np.full(objective.size, 0.5)
    units = [by_name(unit) for unit in np.eye(objective.size)]
    for i in np.random.default_rng(3).permutation(len(sentences)):
        x, right, weights = sentences[i], tuple(gold[i]), by_name(w)
        best = max(itertools.product(oracle.LABELS, repeat=len(x)), key=lambda path: path_score(weights, x, path))
        f = np.array([path_score(unit, x, right) - path_score(unit, x, best) for unit in units])
        wrong = sum(a != b for a, b in zip(best, right, strict=True))
        if wrong:
            w = w + (wrong - w @ f) / (1.0 + f @ (variances * f)) * variances * f
            variances = 1 / (1 / variances + f * f)
    found = next(arow(objective, start.copy(), variance=0.5, gamma=1.0, seed=3))
    np.testing.assert_allclose(found.weights, w, atol=1e-9)


def test_a_sentence_weight_makes_the_step_longer() -> None:
    """Weight 3 of the only sentence: three times the step of pa."""
    x, y = [[{"a": 1.0}, {"b": 2.0}]], [["B", "C"]]
    found = []
    for weight in (1.0, 3.0):
        objective = objective_of(x, y, all_states=True, sentence_weights=np.array([weight]))
        rule = PassiveAggressive(0, 1.0, False)
        found.append(next(passive_aggressive(objective, np.zeros(objective.size), rule, averaging=False)).weights)
    assert np.abs(found[0]).max() > 0
    np.testing.assert_allclose(found[1], 3 * found[0])


def toy():
    """One sentence, so that no order matters, whose labels first occur in alphabetical order, so that ties agree.

    After the first pass there are none: the values of the features are random.
    """
    random = np.random.default_rng(0)
    x = [{f"w{random.integers(4)}": random.random(), f"s{random.integers(3)}": random.random()} for _ in range(9)]
    return [x], [list("ABACBBCAC")]


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "pa"},
        {"algorithm": "pa", "averaging": False},
        {"algorithm": "pa", "pa_type": 0, "error_sensitive": False},
        {"algorithm": "pa", "pa_type": 2, "c": 0.2, "averaging": False},
        {"algorithm": "arow"},
        {"algorithm": "arow", "variance": 0.3, "gamma": 2.0},
        {"algorithm": "ap"},
    ],
)
@pytest.mark.parametrize("passes", [1, 5])
def test_the_weights_of_one_sentence_are_crfsuites(options, passes) -> None:
    both = [kind(**options, max_iterations=passes).fit(*toy()) for kind in (original.CRF, compat.CRF)]
    for name in ("state_features_", "transition_features_"):
        theirs, ours = (getattr(model, name) for model in both)
        for key in theirs.keys() | ours.keys():
            assert ours.get(key, 0.0) == pytest.approx(theirs.get(key, 0.0), abs=1e-5), (name, key)


@pytest.mark.parametrize("algorithm", ["pa", "arow"])
def test_they_learn_partial_labels_and_stop(algorithm) -> None:
    sentences = [["a", "b", "c"]] * 4
    y = [["O", None, "O"], ["O", "B-X", None], ["O", {"B-X", "O"}, "O"], [None, None, None]]
    assert CRF(features="ner", algorithm=algorithm).fit(sentences, y).predict(sentences[:1]) == [["O", "B-X", "O"]]
    history = CRF(algorithm=algorithm, features="ner").fit(TRAIN).history_
    assert history.steps[-1].loss < history.steps[0].loss
    assert len(history.steps) == 20 if algorithm == "pa" else history.reason == "converged"
    with pytest.raises(ModelError, match=f"{algorithm} cannot train with label_weights"):
        CRF(algorithm=algorithm, label_weights={"O": 2.0}).fit(TRAIN)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"pa_type": 3}, "pa_type must be 0, 1 or 2, got 3"),
        ({"aggressiveness": 0.0}, "aggressiveness must be a finite number > 0, got 0.0"),
        ({"gamma": float("nan")}, "gamma must be a finite number > 0, got nan"),
        ({"variance": -1.0}, "variance must be a finite number > 0"),
    ],
)
def test_impossible_settings_are_named(option, message) -> None:
    with pytest.raises(ConfigError, match=message):
        CRF(**option)
