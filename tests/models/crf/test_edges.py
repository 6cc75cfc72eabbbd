"""Features of transitions (B and * lines with cells): loss, gradient and answers against an enumeration that knows only
weights by name; which weights there are; every optimizer; files, explanations, blocks of sentences."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.models.crf.oracle import check_answers, check_gradient, partly, random_weights
from trellis import chain
from trellis.errors import ModelError, StoreError
from trellis.features import AttributeIndex, TemplateExtractor, Templates
from trellis.models import CRF
from trellis.models.crf.model import Observed
from trellis.models.crf.training import CRFObjective, FeatureSelection
from trellis.models.data import Labelled
from trellis.tags import StateMap
from trellis.training import Descent, Perceptron

LABELS = ["A", "B", "C"]
TEXT = "U0:%x[0,0]\nB\nB1:%x[0,0]\nB2:%x[-1,0]/%x[0,0]\n*3:%x[1,0]\n"


def make_data(seed=0, sentences=10, lengths=(1, 5)):
    random = np.random.default_rng(seed)
    sizes = random.integers(lengths[0], lengths[1] + 1, size=sentences)
    X = [random.choice(list("xyz"), size=n).tolist() for n in sizes]
    return X, [random.choice(LABELS, size=n).tolist() for n in sizes]


def objective_of(X, y, *, text=TEXT, all_edges=False, min_freq=0.0, scheme="plain", constraints=False, **options):
    data, index, edges = Labelled.of(X, y), AttributeIndex(), AttributeIndex()
    observed = Observed.of(TemplateExtractor(Templates.parse(text)), X, index, edges, grow=True)
    choice = FeatureSelection(min_freq, False, True, True, constraints, all_edges)
    states = StateMap.of(data.labels_in(data.detect(scheme)))
    return CRFObjective(observed, index, data, states, choice, edge_index=edges, **options)


def named(objective, w):
    """The weights by what they are about: (name, label), (label, label), (name, label, label)."""
    p, names = objective.parameters(w), objective.states.names
    found = {(p.index.name(a), names[own]): v for a, own, v in zip(p.owners, p.labels, p.weights, strict=True)}
    found |= {(names[i], names[j]): p.transitions[i, j] for i, j in np.argwhere(p.weighted)}
    e, L = p.edges, len(names)
    rows = zip(e.owners, e.labels, e.weights, strict=True)
    return found | {(e.index.name(a), names[pair // L], names[pair % L]): v for a, pair, v in rows}


def at(sentence, t):
    return sentence[t] if 0 <= t < len(sentence) else f"_B{t if t < 0 else t - len(sentence) + 1:+d}"


def path_score(weights, sentence, path):
    """The templates of TEXT by hand."""
    total = 0.0
    for t, label in enumerate(path):
        before, here, after = (at(sentence, t + row) for row in (-1, 0, 1))
        total += weights.get((f"U0:{here}", label), 0.0) + weights.get((f"*3:{after}", label), 0.0)
        if t:
            step = path[t - 1], label
            total += weights.get(step, 0.0)
            for name in (f"B1:{here}", f"B2:{before}/{here}", f"*3:{after}"):
                total += weights.get((name, *step), 0.0)
    return total


def every(weights, sentence):
    return {path: path_score(weights, sentence, path) for path in itertools.product(LABELS, repeat=len(sentence))}


@pytest.mark.parametrize("single", [False, True])
def test_the_loss_is_that_of_an_enumeration(single):
    X, y = make_data()
    objective = objective_of(X, y, single=single)
    w = random_weights(objective)
    weights, total = named(objective, w), 0.0
    for x, own in zip(X, y, strict=True):
        scores = every(weights, x)
        total += logsumexp(list(scores.values())) - scores[tuple(own)]
    assert objective.evaluate(w, np.empty_like(w)) == pytest.approx(total, rel=1e-5 if single else 1e-12)


def test_the_gradient_is_the_slope_of_the_loss():
    X, y = make_data()
    check_gradient(objective_of(X, y, c2=0.3))
    check_gradient(objective_of(X, y, c2=0.3, single=True), objective_of(X, y, c2=0.3), 2e-5)


def test_the_gradient_with_weights_of_sentences_and_tokens():
    X, y = make_data()
    random = np.random.default_rng(5)
    sentences, tokens = random.uniform(0, 2, len(X)), random.uniform(0, 2, sum(map(len, X)))
    check_gradient(objective_of(X, y, sentence_weights=sentences))
    check_gradient(objective_of(X, y, sentence_weights=sentences, token_weights=tokens))


def test_partial_labels_have_the_likelihood_of_all_their_paths():
    X, y = make_data(sentences=5)
    partial = partly(y)
    objective = objective_of(X, [y[0], *partial[1:]], all_edges=True)
    check_gradient(objective)
    w = random_weights(objective, 2)
    weights, total = named(objective, w), 0.0
    for x, own in zip(X, [y[0], *partial[1:]], strict=True):
        scores = every(weights, x)
        kept = [
            score
            for path, score in scores.items()
            if all(known is None or label == known or label in known for label, known in zip(path, own, strict=True))
        ]
        total += logsumexp(list(scores.values())) - logsumexp(kept)
    assert objective.evaluate(w, np.empty_like(w)) == pytest.approx(total, rel=1e-9)


def test_many_shards_are_one_corpus():
    """So many labels that few sentences make a shard: the sums over shards are those of the sentences by themselves."""
    random = np.random.default_rng(3)
    labels = [f"l{i}" for i in range(40)]
    X = [random.choice(list("uvwxyz"), size=12).tolist() for _ in range(60)]
    y = [random.choice(labels, size=12).tolist() for _ in range(60)]
    X, y = [labels, *X], [labels, *y]  # the first sentence has every label
    whole = objective_of(X, y)
    w = random_weights(whole)
    g, g_parts, parts = np.empty_like(w), np.zeros_like(w), 0.0
    loss = whole.evaluate(w, g)
    for i in range(len(X)):
        alone = objective_of(X, y, sentence_weights=np.eye(len(X))[i])
        own = np.empty_like(w)
        parts += alone.evaluate(w, own)
        g_parts += own
    assert loss == pytest.approx(parts, rel=1e-10)
    np.testing.assert_allclose(g, g_parts, atol=1e-9)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads):
    X, y = make_data(sentences=300, lengths=(1, 12))
    objective, before = objective_of(X, y), chain.get_num_threads()
    w = random_weights(objective)
    results = []
    try:
        for count in (1, threads):
            chain.set_num_threads(count)
            g = np.empty_like(w)
            results.append((objective.evaluate(w, g), g))
    finally:
        chain.set_num_threads(before)
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_only_triples_that_occur_get_a_weight():
    X, y = [["x", "y", "x", "x"], ["y"]], [["A", "B", "A", "A"], ["C"]]
    text = "U0:%x[0,0]\nB1:%x[0,0]\n"
    objective = objective_of(X, y, text=text)
    found = {key for key in named(objective, np.zeros(objective.size)) if len(key) == 3}
    assert found == {("B1:y", "A", "B"), ("B1:x", "B", "A"), ("B1:x", "A", "A")}
    twice = objective_of([X[0]] * 2, [["A", "B", "A", "A"], ["A", "B", "C", "A"]], text=text, min_freq=2)
    found = {key for key in named(twice, np.zeros(twice.size)) if len(key) == 3}
    assert found == {("B1:y", "A", "B")}
    shared = objective_of([["x", "y"], ["x", "z"]], [["A", "B"]] * 2, text=text)
    found = {key for key in named(shared, np.zeros(shared.size)) if len(key) == 3}
    assert found == {("B1:y", "A", "B"), ("B1:z", "A", "B")}
    ends, codes = objective_of([["x"] * 5], [list("CABAC")], text=text).native.edges()
    assert codes.tolist() == sorted(codes.tolist())
    assert ends.tolist() == [4]
    all_of_them = objective_of(X, y, text=text, all_edges=True)
    assert len([key for key in named(all_of_them, np.zeros(all_of_them.size)) if len(key) == 3]) == 2 * 9


def test_all_triples_leave_out_transitions_that_the_scheme_forbids():
    X, y = [["x", "y"], ["x", "y"]], [["B-P", "I-P"], ["O", "B-Q"]]
    objective = objective_of(X, y, text="U0:%x[0,0]\nB1:%x[0,0]\n", scheme="bio", constraints=True, all_edges=True)
    steps = {key[1:] for key in named(objective, np.zeros(objective.size)) if len(key) == 3}
    assert not steps & {("O", "I-P"), ("B-Q", "I-P")}
    assert {("B-P", "I-P"), ("O", "B-Q"), ("B-P", "O")} <= steps
    partial = objective_of(
        X, [[{"B-P", "O"}, "I-P"], ["O", "B-Q"]], text="U0:%x[0,0]\nB1:%x[0,0]\n", scheme="bio", constraints=True
    )
    steps = {key[1:] for key in named(partial, np.zeros(partial.size)) if len(key) == 3}
    assert steps == {("B-P", "I-P"), ("O", "B-Q")}


def test_an_unknown_label_says_nothing_about_steps():
    X, y = [["x", "y", "z", "x"]], [[None, "A", {"B", "C"}, None]]
    objective = objective_of(X, y, text="U0:%x[0,0]\nB1:%x[0,0]\n")
    found = {key for key in named(objective, np.zeros(objective.size)) if len(key) == 3}
    assert found == {("B1:z", "A", "B"), ("B1:z", "A", "C")}


def weights_of(model):
    """As `named`, of a fitted model with plain labels."""
    p, labels = model.parameters_, model.labels_
    found = {(p.index.name(a), labels[own]): v for a, own, v in zip(p.owners, p.labels, p.weights, strict=True)}
    found |= {(labels[i], labels[j]): p.transitions[i, j] for i, j in np.argwhere(p.weighted)}
    rows = zip(p.edges.owners, p.edges.labels, p.edges.weights, strict=True)
    L = len(labels)
    return found | {(p.edges.index.name(a), labels[pair // L], labels[pair % L]): v for a, pair, v in rows}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("edges") / "template"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def model(template):
    X, y = make_data(sentences=30)
    return CRF(features=template, c2=0.1, scheme="plain").fit(X, y)


NEW = [["x", "y", "z", "x"], ["z"], [], ["q", "x", "q"]]


def test_every_answer_of_a_model_is_that_of_an_enumeration(model):
    weights = weights_of(model)
    check_answers(model, NEW, LABELS, lambda x: every(weights, x))


def test_a_sentence_gets_the_same_answer_alone_and_in_any_block(model, monkeypatch):
    X, _ = make_data(seed=9, sentences=40)
    together = model.predict(X), model.marginals(X)
    assert model._scores_per_token() == 3 * 4
    monkeypatch.setattr("trellis.models.tagger._BLOCK", 7)
    assert model.predict(X) == together[0] == [model.predict([x])[0] for x in X]
    for one, other in zip(model.marginals(X), together[1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_held_out_sentences_are_scored_block_by_block(template, monkeypatch):
    X, y = make_data(sentences=30)
    whole = CRF(features=template, max_iterations=4, scheme="plain").fit(X, y, dev=(X[:12], y[:12]))
    monkeypatch.setattr("trellis.models.tagger._BLOCK", 7)
    parts = CRF(features=template, max_iterations=4, scheme="plain").fit(X, y, dev=(X[:12], y[:12]))
    assert [step.dev for step in whole.history_.steps] == [step.dev for step in parts.history_.steps]


def test_a_saved_model_answers_as_before(model, tmp_path):
    model.save(tmp_path / "model")
    again = CRF.load(tmp_path / "model")
    assert weights_of(again) == weights_of(model)
    for one, other in zip(again.marginals(NEW), model.marginals(NEW), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_file_without_the_weights_of_its_templates_is_refused(model, monkeypatch, tmp_path):
    manifest, arrays = model._state()
    for name in ("edge.pair_weights", "edge.attributes"):
        kept = {key: value for key, value in arrays.items() if key != name}
        monkeypatch.setattr(CRF, "_state", lambda self, kept=kept: (dict(manifest), kept))
        model.save(tmp_path / "model")
        with pytest.raises(StoreError, match=name):
            CRF.load(tmp_path / "model")
    codes = arrays["edge.pair_labels"].copy()
    codes[0] = 9  # of 9 pairs of labels
    monkeypatch.setattr(CRF, "_state", lambda self: (dict(manifest), arrays | {"edge.pair_labels": codes}))
    model.save(tmp_path / "model")
    with pytest.raises(StoreError, match=r"edge\.pair_labels"):
        CRF.load(tmp_path / "model")


@pytest.mark.parametrize(
    "settings", [{"c1": 0.2}, {"algorithm": "sgd", "c2": 0.01}, {"algorithm": "ap"}, {"algorithm": "pa"}]
)
def test_every_optimizer_learns_what_only_a_step_can_tell(settings, tmp_path):
    """After `flip` the label changes, after `keep` it stays: no feature of tokens and no transition knows which."""
    (tmp_path / "template").write_text("U0:%x[0,0]\nB\nB1:%x[0,0]\n", encoding="utf-8")
    random = np.random.default_rng(0)
    X, y = [], []
    for _ in range(80):
        words = random.choice(["flip", "keep"], size=6).tolist()
        start = str(random.choice(["A", "B"]))
        X.append([start.lower(), *words])
        own = [start]
        for word in words:
            own.append(own[-1] if word == "keep" else "BA"["AB".index(own[-1])])
        y.append(own)
    model = CRF(features=str(tmp_path / "template"), scheme="plain", **settings).fit(X[:60], y[:60])
    assert model.predict(X[60:]) == y[60:]
    if "c1" in settings:
        assert (model.parameters_.edges.weights != 0).all()


@pytest.mark.parametrize("kind", ["full", "partial", "token weights", "sentence weights"])
def test_a_step_of_sgd_over_all_sentences_is_a_step_down_the_gradient(kind):
    X, y = make_data(sentences=6)
    random, rate, c2 = np.random.default_rng(5), 0.1, 0.3
    options = {
        "token weights": {"token_weights": random.uniform(0.5, 2.0, sum(map(len, X)))},
        "sentence weights": {"sentence_weights": random.uniform(0.5, 2.0, 6)},
    }
    objective = objective_of(X, partly(y) if kind == "partial" else y, c2=c2, all_edges=True, **options.get(kind, {}))
    w = random_weights(objective)
    g = np.empty_like(w)
    loss = objective.evaluate(w, g)
    state = Descent(w.copy(), rate, 6)
    found = objective.descend(np.arange(6), state)
    np.testing.assert_allclose(state.scale * state.weights, w - rate / 6 * g, atol=1e-12)
    assert found == pytest.approx(loss)
    shrunk = Descent(w / 0.5, rate, 6, scale=0.5)  # the weights are scale times these
    objective.descend(np.arange(6), shrunk)
    np.testing.assert_allclose(shrunk.scale * shrunk.weights, w - rate / 6 * g, atol=1e-12)


def test_a_step_of_the_perceptron_adds_the_right_triples_and_takes_the_wrong_ones():
    X, y = [["x", "y", "z"]], [["A", "B", "C"]]
    objective = objective_of([*X, ["x", "y", "z"]], [*y, ["B", "A", "C"]], all_edges=True)
    w = random_weights(objective)
    before = named(objective, w)
    best = max(every(before, X[0]), key=lambda path: path_score(before, X[0], path))
    assert best != ("A", "B", "C")
    state = Perceptron(w.copy(), np.zeros_like(w), 0)
    objective.correct(np.array([0]), state)
    after = named(objective, state.weights)
    for key, value in after.items():
        if len(key) != 3:
            continue
        moved = 0
        for t in (1, 2):
            names = {f"B1:{X[0][t]}", f"B2:{X[0][t - 1]}/{X[0][t]}", f"*3:{at(X[0], t + 1)}"}
            if key[0] in names:
                moved += (key[1:] == (y[0][t - 1], y[0][t])) - (key[1:] == best[t - 1 : t + 1])
        assert value - before[key] == pytest.approx(moved), key


def test_a_warm_start_goes_on_with_the_weights_by_name(model, template):
    X, y = make_data(seed=4, sentences=10)
    labels = [["D" if t == 1 else label for t, label in enumerate(own)] for own in y]
    again = CRF(features=template, c2=0.1, scheme="plain").fit(*make_data(sentences=30))
    old = weights_of(again)
    again.set_params(max_iterations=0)
    again.fit([*X, ["new", "x"]], [*labels, ["D", "A"]], warm_start=True)
    found = weights_of(again)
    assert set(again.labels_) == {*LABELS, "D"}
    assert {key: value for key, value in found.items() if value} == {key: value for key, value in old.items() if value}


def test_an_explanation_names_the_features_of_steps_and_adds_up(model):
    sentence = NEW[0]
    weights = weights_of(model)
    explanation = model.explain(sentence, 2)
    total = sum(c.difference for c in explanation.contributions)
    assert total == pytest.approx(explanation.score_difference)
    scores = [path_score(weights, sentence, path) for path in (explanation.labelling, explanation.alternative)]
    assert explanation.score_difference == pytest.approx(scores[0] - scores[1])
    steps = [c for c in explanation.contributions if c.kind == "step feature"]
    assert {c.name[0] for c in steps} <= {"B", "*"}
    assert steps
    assert not any(c.name.startswith("B") for c in explanation.contributions if c.kind == "feature")
    for c in steps:
        pairs = [path[c.position - 1 : c.position + 1] for path in (explanation.labelling, explanation.alternative)]
        assert c.chosen == weights.get((c.name, *pairs[0]), 0.0)
        assert c.runner_up == weights.get((c.name, *pairs[1]), 0.0)
    moves = [c for c in explanation.contributions if c.kind == "transition"]
    assert all(c.chosen in (0.0, *model.parameters_.transitions.ravel()) for c in moves)


def test_the_largest_weights_are_of_tokens_and_of_steps(model):
    weights = {key: value for key, value in weights_of(model).items() if key not in itertools.product(LABELS, LABELS)}
    top = model.top_features(n=20).features
    sizes = sorted((abs(value) for value in weights.values()), reverse=True)[:20]
    assert [abs(f.weight) for f in top] == sizes
    for f in top:
        assert f.weight == weights[(f.name, f.label) if f.previous is None else (f.name, f.previous, f.label)]
    assert {f.previous is None for f in top} == {True, False}
    into = model.top_features("B", n=1000).features
    assert {f.label for f in into} == {"B"}
    assert len(into) == sum(key[-1] == "B" for key in weights)
    assert any(" -> " in row[1] for row in model.top_features(n=20).grid().rows)


def test_feature_names_list_those_of_the_step_last(model):
    assert model.feature_names(["x", "y"]) == [
        ["U0:x", "*3:y"],
        ["U0:y", "*3:_B+1", "B1:y", "B2:x/y", "*3:_B+1"],
    ]


def test_a_star_line_is_a_line_of_tokens_and_of_steps():
    both = Templates.parse("*1:%x[0,0]")
    assert [t.text for t in both.lines] == [t.text for t in both.edges] == ["*1:%x[0,0]"]
    assert not both.transitions
    plain = Templates.parse("*")
    assert [t.text for t in plain.lines] == ["*"]
    assert plain.transitions
    assert not plain.edges
    column = Templates.parse("U0:%x[0,0]\nB1:%x[0,2]")
    assert column.num_columns == 3


def test_more_labels_than_pairs_can_be_numbered_for_are_refused(template):
    labels = [f"l{i}" for i in range(257)]
    with pytest.raises(ModelError, match="at most 256 labels, got 257"):
        CRF(features=template, scheme="plain").fit([labels], [labels])


def test_sentences_of_one_token_have_no_steps(template):
    X, y = [["x"], ["y"], []] * 5, [["A"], ["B"], []] * 5
    for settings in ({}, {"algorithm": "sgd"}, {"algorithm": "ap"}):
        model = CRF(features=template, scheme="plain", **settings).fit(X, y)
        assert model.predict([["x"], ["y"], []]) == [["A"], ["B"], []]
