"""Features of transitions (B and * lines with cells): which weights there are, shards, every optimizer, files, tables.
`test_enumeration` has loss, gradient and answers."""

import itertools

import numpy as np
import pytest

from tests.models.crf.oracle import (
    EDGES,
    LABELS,
    make_data,
    objective_of,
    random_weights,
    triples,
    weights_of,
)
from trellis import chain
from trellis.errors import ModelError, StoreError
from trellis.features import Templates
from trellis.models import CRF


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
    assert triples(objective) == {("B1:y", "A", "B"), ("B1:x", "B", "A"), ("B1:x", "A", "A")}
    twice = objective_of([X[0]] * 2, [["A", "B", "A", "A"], ["A", "B", "C", "A"]], text=text, min_freq=2)
    assert triples(twice) == {("B1:y", "A", "B")}
    shared = objective_of([["x", "y"], ["x", "z"]], [["A", "B"]] * 2, text=text)
    assert triples(shared) == {("B1:y", "A", "B"), ("B1:z", "A", "B")}
    ends, codes = objective_of([["x"] * 5], [list("CABAC")], text=text).native.edges()
    assert codes.tolist() == sorted(codes.tolist())
    assert ends.tolist() == [4]
    all_of_them = objective_of(X, y, text=text, every=True)
    assert len(triples(all_of_them)) == 2 * 9


def test_all_triples_leave_out_transitions_that_the_scheme_forbids():
    X, y = [["x", "y"], ["x", "y"]], [["B-P", "I-P"], ["O", "B-Q"]]
    objective = objective_of(X, y, text="U0:%x[0,0]\nB1:%x[0,0]\n", scheme="bio", constraints=True, every=True)
    steps = {key[1:] for key in triples(objective)}
    assert not steps & {("O", "I-P"), ("B-Q", "I-P")}
    assert {("B-P", "I-P"), ("O", "B-Q"), ("B-P", "O")} <= steps
    partial = objective_of(
        X, [[{"B-P", "O"}, "I-P"], ["O", "B-Q"]], text="U0:%x[0,0]\nB1:%x[0,0]\n", scheme="bio", constraints=True
    )
    steps = {key[1:] for key in triples(partial)}
    assert steps == {("B-P", "I-P"), ("O", "B-Q")}


def test_an_unknown_label_says_nothing_about_steps():
    X, y = [["x", "y", "z", "x"]], [[None, "A", {"B", "C"}, None]]
    objective = objective_of(X, y, text="U0:%x[0,0]\nB1:%x[0,0]\n")
    assert triples(objective) == {("B1:z", "A", "B"), ("B1:z", "A", "C")}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("edges") / "template"
    path.write_text(EDGES, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def model(template):
    X, y = make_data(sentences=30)
    return CRF(features=template, c2=0.1, scheme="plain").fit(X, y)


NEW = [["x", "y", "z", "x"], ["z"], [], ["q", "x", "q"]]


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


def test_an_explanation_names_the_features_of_steps(model):
    sentence = NEW[0]
    weights = weights_of(model)
    explanation = model.explain(sentence, 2)
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
