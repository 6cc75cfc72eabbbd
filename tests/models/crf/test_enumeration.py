"""CRFs of order 1, with features of steps, and of order 2 against an enumeration of all paths that knows only weights
by name: loss, gradient, steps of the optimizers, every answer; files, warm starts, explanations."""

from functools import partial

import numpy as np
import pytest

from tests.models.crf.oracle import (
    EDGES,
    LABELS,
    PLAIN,
    check_answers,
    check_gradient,
    loss_of,
    make_data,
    named,
    objective_of,
    partly,
    path_score,
    random_weights,
    scores_of,
    weights_of,
)
from trellis.models import CRF
from trellis.training import Descent, Perceptron

KINDS = {"order 1": (PLAIN, None), "steps": (EDGES, None), **{f"{n} pairs": (PLAIN, n) for n in (0, 4, 300)}}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def make(request):
    text, pairs = request.param
    return partial(objective_of, text=text, pairs=pairs)


def by_name(objective, w):
    return named(objective.parameters(w), objective.states.names)


@pytest.mark.parametrize("single", [False, True])
def test_the_loss_is_that_of_an_enumeration(make, single):
    X, y = make_data()
    objective = make(X, y, single=single)
    w = random_weights(objective)
    expected = loss_of(by_name(objective, w), X, y)
    assert objective.evaluate(w, np.empty_like(w)) == pytest.approx(expected, rel=1e-5 if single else 1e-12)


def test_the_gradient_is_the_slope_of_the_loss(make):
    X, y = make_data()
    random = np.random.default_rng(5)
    sentences, tokens = random.uniform(0, 2, len(X)), random.uniform(0, 2, sum(map(len, X)))
    check_gradient(make(X, y, c2=0.3))
    check_gradient(make(X, y, c2=0.3, single=True), make(X, y, c2=0.3), 2e-5)
    check_gradient(make(X, y, sentence_weights=sentences))
    check_gradient(make(X, y, every=True, sentence_weights=sentences, token_weights=tokens))


def test_partial_labels_have_the_likelihood_of_all_their_paths(make):
    X, y = make_data(sentences=5)
    partial_labels = [y[0], *partly(y)[1:]]
    objective = make(X, partial_labels, every=True)
    check_gradient(objective)
    w = random_weights(objective, 2)
    expected = loss_of(by_name(objective, w), X, partial_labels)
    assert objective.evaluate(w, np.empty_like(w)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["full", "partial", "token weights", "sentence weights"])
def test_a_step_of_sgd_over_all_sentences_is_a_step_down_the_gradient(make, kind):
    X, y = make_data(sentences=6)
    random, rate = np.random.default_rng(5), 0.1
    options = {
        "token weights": {"token_weights": random.uniform(0.5, 2.0, sum(map(len, X)))},
        "sentence weights": {"sentence_weights": random.uniform(0.5, 2.0, 6)},
    }
    objective = make(X, partly(y) if kind == "partial" else y, c2=0.3, every=True, **options.get(kind, {}))
    w = random_weights(objective)
    g = np.empty_like(w)
    loss = objective.evaluate(w, g)
    order = random.permutation(6)
    for scale in (1.0, 0.5):  # the weights are scale times what it holds
        state = Descent(w / scale, rate, 6, scale=scale)
        assert objective.descend(order, state) == pytest.approx(loss, rel=1e-12)
        np.testing.assert_allclose(state.fold(), w - rate / 6 * g, rtol=1e-9, atol=1e-12)
    assert objective.loss_of(order, w) == pytest.approx(loss / 6, rel=1e-12)


def test_a_step_of_the_perceptron_adds_what_is_right_and_takes_what_is_wrong(make):
    X, y = [list("xyzx")], [list("ABCA")]
    objective = make([*X, list("xyz")], [*y, list("BAC")], every=True)
    w = random_weights(objective)
    before = by_name(objective, w)
    scores = scores_of(before, X[0])
    best, gold = max(scores, key=scores.get), tuple(y[0])
    assert best != gold
    state = Perceptron(w.copy(), np.zeros_like(w), 0)
    wrong = objective.correct(np.array([0]), state)
    assert wrong == pytest.approx(sum(map(str.__ne__, best, gold)) / 7)  # of 7 tokens in all
    for key, value in by_name(objective, state.weights).items():
        moved = path_score({key: 1.0}, X[0], gold) - path_score({key: 1.0}, X[0], best)
        assert value - before[key] == pytest.approx(moved), key


FITTED = {"order 1": (PLAIN, {}), "steps": (EDGES, {}), "order 2": (PLAIN, {"order": 2, "pairs": 5})}
NEW = [list("xyzx"), ["z"], [], list("qxq")]


@pytest.fixture(params=FITTED.values(), ids=FITTED, scope="module")
def untrained(request, tmp_path_factory):
    """Makes a model that has not learned."""
    text, options = request.param
    path = tmp_path_factory.mktemp("templates") / "template"
    path.write_text(text, encoding="utf-8")
    return partial(CRF, features=str(path), c2=0.1, scheme="plain", **options)


@pytest.fixture(scope="module")
def model(untrained):
    return untrained().fit(*make_data(sentences=40))


def test_every_answer_of_a_model_is_that_of_an_enumeration(model):
    check_answers(model, NEW)


def test_a_saved_model_answers_as_before(model, tmp_path):
    model.save(tmp_path / "model")
    again = CRF.load(tmp_path / "model")
    assert weights_of(again) == weights_of(model)
    for one, other in zip(again.marginals(NEW), model.marginals(NEW), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_sentence_gets_the_same_answer_alone_and_in_any_block(model, monkeypatch):
    X, _ = make_data(seed=9, sentences=40)
    together = model.predict(X), model.marginals(X)
    monkeypatch.setattr("trellis.models.tagger._BLOCK", 7)
    assert model.predict(X) == together[0] == [model.predict([x])[0] for x in X]
    for one, other in zip(model.marginals(X), together[1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_held_out_sentences_are_scored_block_by_block(untrained, monkeypatch):
    X, y = make_data(sentences=30)
    whole = untrained(max_iterations=4).fit(X, y, dev=(X[:12], y[:12]))
    monkeypatch.setattr("trellis.models.tagger._BLOCK", 7)
    parts = untrained(max_iterations=4).fit(X, y, dev=(X[:12], y[:12]))
    scores = [step.dev for step in whole.history_.steps]
    assert scores == [step.dev for step in parts.history_.steps]
    assert parts.score(X[:12], y[:12]) == pytest.approx(max(scores))


def test_a_warm_start_goes_on_with_the_weights_by_name(untrained):
    X, y = make_data(seed=4)
    model = untrained().fit(*make_data(sentences=30))
    old = weights_of(model)
    labels = [["D" if t == 1 else label for t, label in enumerate(own)] for own in y]
    model.set_params(max_iterations=0).fit([*X, ["new", "x"]], [*labels, ["D", "A"]], warm_start=True)
    found = weights_of(model)
    assert set(model.labels_) == {*LABELS, "D"}
    assert {key: value for key, value in found.items() if value} == {key: value for key, value in old.items() if value}


def test_an_explanation_adds_up(model):
    weights, explanation = weights_of(model), model.explain(NEW[0], 2)
    scores = [path_score(weights, NEW[0], path) for path in (explanation.labelling, explanation.alternative)]
    assert explanation.score_difference == pytest.approx(scores[0] - scores[1])
    assert sum(c.difference for c in explanation.contributions) == pytest.approx(explanation.score_difference)
