"""CRFs of order 2: loss, gradient and answers against an enumeration that looks two labels back by name; constraints,
schemes to learn, partial labels, every optimizer, files, warm starts."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.models.crf.oracle import check_answers, check_gradient, partly, random_weights
from trellis.errors import ConfigError, StoreError
from trellis.features import AttributeIndex, TemplateExtractor, Templates
from trellis.models import CRF
from trellis.models.crf.model import Observed
from trellis.models.crf.training import CRFObjective, FeatureSelection
from trellis.models.data import Labelled
from trellis.tags import StateMap
from trellis.training import Descent, Perceptron

LABELS = ["A", "B", "C"]
TEXT = "U0:%x[0,0]\nB\n"


def make_data(seed=0, sentences=10):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 6, size=sentences)
    X = [random.choice(list("xyz"), size=n).tolist() for n in sizes]
    return X, [random.choice(LABELS, size=n).tolist() for n in sizes]


def objective_of(X, y, *, pairs=4, every=False, min_freq=0.0, **options):
    data, index = Labelled.of(X, y), AttributeIndex()
    observed = Observed.of(TemplateExtractor(Templates.parse(TEXT)), X, index, None, grow=True)
    choice = FeatureSelection(min_freq, False, every, True, False, False, pairs)
    return CRFObjective(observed, index, data, StateMap.of(data.labels_in(data.detect("plain"))), choice, **options)


def named(p, names):
    """Weights by (name, label), (label, label) and (label, label, label)."""
    found = {(p.index.name(a), names[own]): v for a, own, v in zip(p.owners, p.labels, p.weights, strict=True)}
    found |= {(names[i], names[j]): p.transitions[i, j] for i, j in np.argwhere(p.weighted)}
    h = p.histories
    return found | {(*(names[i] for i in h.pairs[k]), names[c]): h.rows[k, c] for k, c in np.argwhere(h.weighted)}


def path_score(weights, sentence, path):
    total = sum(weights.get((f"U0:{word}", label), 0.0) for word, label in zip(sentence, path, strict=True))
    total += sum(weights.get(step, 0.0) for step in itertools.pairwise(path))
    return total + sum(weights.get(path[t - 2 : t + 1], 0.0) for t in range(2, len(path)))


def scores_of(weights, sentence, labels=LABELS):
    paths = itertools.product(labels, repeat=len(sentence))
    return {path: path_score(weights, sentence, path) for path in paths}


@pytest.mark.parametrize("pairs", [0, 4, 300])
def test_the_loss_is_that_of_an_enumeration(pairs):
    X, y = make_data()
    objective = objective_of(X, y, pairs=pairs)
    w = random_weights(objective)
    weights, total = named(objective.parameters(w), objective.states.names), 0.0
    for x, own in zip(X, y, strict=True):
        scores = scores_of(weights, x)
        total += logsumexp(list(scores.values())) - scores[tuple(own)]
    assert objective.evaluate(w, np.empty_like(w)) == pytest.approx(total, rel=1e-12)
    assert len(objective.transitions.pairs) == min(pairs, len({step for own in y for step in itertools.pairwise(own)}))


def test_the_gradient_is_the_slope_of_the_loss():
    X, y = make_data()
    random = np.random.default_rng(5)
    check_gradient(objective_of(X, y, c2=0.3))
    check_gradient(objective_of(X, y, every=True, token_weights=random.uniform(0, 2, sum(map(len, X)))))
    check_gradient(objective_of(X, [y[0], *partly(y)[1:]], every=True))


def test_partial_labels_have_the_likelihood_of_all_their_paths():
    X, y = make_data(sentences=6)
    partial = [y[0], *partly(y)[1:]]
    objective = objective_of(X, partial, every=True, pairs=5)
    w = random_weights(objective)
    weights, total = named(objective.parameters(w), objective.states.names), 0.0
    for x, own in zip(X, partial, strict=True):
        scores = scores_of(weights, x)
        kept = [
            score
            for path, score in scores.items()
            if all(known is None or label == known or label in known for label, known in zip(path, own, strict=True))
        ]
        total += logsumexp(list(scores.values())) - logsumexp(kept)
    assert objective.evaluate(w, np.empty_like(w)) == pytest.approx(total, rel=1e-9)


def threes(objective):
    return {
        key for key in named(objective.parameters(np.zeros(objective.size)), objective.states.names) if len(key) == 3
    }


def test_only_labels_that_occur_in_a_row_get_a_weight():
    X, y = [list("xyzx"), list("xyz"), list("xy")], [list("ABAB"), list("ABC"), list("CC")]
    assert threes(objective_of(X, y, pairs=300)) == {("A", "B", "A"), ("B", "A", "B"), ("A", "B", "C")}
    assert threes(objective_of(X, y, pairs=1)) == {("A", "B", "A"), ("A", "B", "C")}
    assert threes(objective_of(X * 2, y * 2, pairs=300, min_freq=2)) == threes(objective_of(X, y, pairs=300))
    assert threes(objective_of(X, y, pairs=300, min_freq=2)) == set()
    known = objective_of([list("xyzx")], [["A", "B", None, "C"]], pairs=300)
    assert threes(known) == set()
    choices = objective_of([list("xyz")], [["A", {"A", "B"}, "C"]], pairs=300)
    assert threes(choices) == {("A", "A", "C"), ("A", "B", "C")}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("order") / "template"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def model(template):
    return CRF(features=template, order=2, pairs=5, c2=0.1, scheme="plain").fit(*make_data(sentences=40))


NEW = [list("xyzx"), ["z"], [], list("qxq")]


def test_every_answer_of_a_model_is_that_of_an_enumeration(model):
    weights = named(model.parameters_, model.labels_)
    check_answers(model, NEW, LABELS, lambda x: scores_of(weights, x))


def test_constraints_and_a_scheme_to_learn_hold(template):
    X = [["x", "y", "z", "x", "q"], ["y", "z"], ["x", "x", "y"]] * 3
    y = [["B-P", "I-P", "I-P", "O", "B-Q"], ["B-Q", "I-Q"], ["O", "O", "B-P"]] * 3
    model = CRF(features=template, order=2, c2=0.1).fit(X, y)
    assert model.states_.finer is not None
    assert model.predict(X[:3]) == y[:3]
    for x in [list("zzzz"), list("qyxz")]:
        legal = [own.tags for own in model.kbest([x], 1000)[0]]
        assert all(not (b[0] == "I" and a[1:] != b[1:]) for own in legal for a, b in itertools.pairwise(["O", *own]))
        assert sum(own.probability for own in model.kbest([x], 10_000)[0]) == pytest.approx(1.0)
        np.testing.assert_allclose(model.marginals([x])[0].sum(axis=1), 1.0)
    assert model.span_probabilities(X[:1])[0][0].probability > 0.5


@pytest.mark.parametrize(
    "settings", [{}, {"c1": 0.1}, {"algorithm": "sgd", "c2": 0.001}, {"algorithm": "ap"}, {"algorithm": "pa"}]
)
def test_every_optimizer_learns_what_takes_two_labels_back(settings, template):
    """Labels go A A B B A A B B: what follows A depends on the label before it, and only two words tell."""
    y = [[("AABB" * 5)[i + shift] for i in range(8 + shift)] for shift in range(4) for _ in range(10)]
    X = [[own[0].lower(), own[1].lower(), *["x"] * (len(own) - 2)] for own in y]
    options = {"features": template, "scheme": "plain", "c2": 0.01} | settings
    two, one = (CRF(order=order, **options).fit(X, y).predict(X) for order in (2, 1))
    assert sum(map(list.__eq__, two, y)) > sum(map(list.__eq__, one, y))
    if settings.get("algorithm") not in ("ap", "pa"):  # which stop after a pass without mistakes, not so their average
        assert two == y


@pytest.mark.parametrize("partial", [False, True])
def test_a_step_of_sgd_over_all_sentences_is_a_step_down_the_gradient(partial):
    X, y = make_data(sentences=6)
    objective = objective_of(X, partly(y) if partial else y, every=True, c2=0.3)
    w, rate = random_weights(objective), 0.1
    g = np.empty_like(w)
    objective.evaluate(w, g)
    state = Descent(w.copy(), rate, 6)
    objective.descend(np.arange(6), state)
    np.testing.assert_allclose(state.scale * state.weights, w - rate / 6 * g, atol=1e-12)


def test_a_step_of_the_perceptron_moves_the_labels_in_a_row():
    X, y = [list("xyzx")], [list("ABCA")]
    objective = objective_of([*X, list("xyz")], [*y, list("BAC")], every=True, pairs=300)
    w = random_weights(objective)
    before = named(objective.parameters(w), objective.states.names)
    scores = scores_of(before, X[0])
    best, gold = max(scores, key=scores.get), tuple(y[0])
    assert best != gold
    state = Perceptron(w.copy(), np.zeros_like(w), 0)
    wrong = objective.correct(np.array([0]), state)
    assert wrong == pytest.approx(sum(map(str.__ne__, best, gold)) / 7)  # of 7 tokens in all
    after = named(objective.parameters(state.weights), objective.states.names)
    for key, value in after.items():
        moved = 0
        if len(key) == 3 or key[0] in LABELS:
            windows = [[path[t : t + len(key)] for t in range(5 - len(key))] for path in (gold, best)]
            moved = windows[0].count(key) - windows[1].count(key)
        else:
            pairs = [[(f"U0:{word}", label) for word, label in zip(X[0], path, strict=True)] for path in (gold, best)]
            moved = pairs[0].count(key) - pairs[1].count(key)
        assert value - before[key] == pytest.approx(moved), key


def test_a_saved_model_answers_as_before(model, tmp_path, monkeypatch):
    model.save(tmp_path / "model")
    again = CRF.load(tmp_path / "model")
    assert named(again.parameters_, again.labels_) == named(model.parameters_, model.labels_)
    for one, other in zip(again.marginals(NEW), model.marginals(NEW), strict=True):
        np.testing.assert_array_equal(one, other)
    manifest, arrays = model._state()
    twice = arrays["history.pairs"].copy()
    twice[1] = twice[0]
    monkeypatch.setattr(CRF, "_state", lambda self: (dict(manifest), arrays | {"history.pairs": twice}))
    model.save(tmp_path / "model")
    with pytest.raises(StoreError, match=r"history\.pairs"):
        CRF.load(tmp_path / "model")


def test_a_warm_start_goes_on_with_the_weights_by_name(template):
    model = CRF(features=template, order=2, pairs=5, c2=0.1, scheme="plain").fit(*make_data(sentences=40))
    old = named(model.parameters_, model.labels_)
    X, y = make_data(seed=4)
    model.set_params(max_iterations=0)
    model.fit(X, [["D" if t == 1 else label for t, label in enumerate(own)] for own in y], warm_start=True)
    found = named(model.parameters_, model.labels_)
    assert "D" in model.labels_
    assert {key: v for key, v in found.items() if v} == {key: v for key, v in old.items() if v}


def test_an_explanation_adds_up(model):
    weights = named(model.parameters_, model.labels_)
    explanation = model.explain(NEW[0], 2)
    scores = [path_score(weights, NEW[0], path) for path in (explanation.labelling, explanation.alternative)]
    assert explanation.score_difference == pytest.approx(scores[0] - scores[1])
    assert sum(c.difference for c in explanation.contributions) == pytest.approx(explanation.score_difference)


def test_held_out_sentences_are_scored(template):
    X, y = make_data(sentences=30)
    model = CRF(features=template, order=2, max_iterations=5, scheme="plain").fit(X, y, dev=(X, y))
    best = max(step.dev for step in model.history_.steps)
    assert model.score(X, y) == pytest.approx(best)


def test_observations_of_transitions_need_order_1(tmp_path):
    (tmp_path / "template").write_text("U0:%x[0,0]\nB1:%x[0,0]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 2: 'B1:%x\[0,0\]' looks at observations of a transition"):
        CRF(features=str(tmp_path / "template"), order=2).fit([["x", "y"]], [["A", "B"]])
    with pytest.raises(ConfigError, match="pairs must be at most 10000, got 10001"):
        CRF(pairs=10_001)
