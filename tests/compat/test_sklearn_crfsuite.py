"""The mirror of sklearn-crfsuite against the original: the same model, the same attributes, scikit-learn's tools."""

import inspect
import os
import pickle

import numpy as np
import pytest
import sklearn.base as base
import sklearn.metrics as scoring
import sklearn.model_selection as selection
import sklearn_crfsuite as original
import sklearn_crfsuite.metrics as original_metrics

from trellis.compat.sklearn_crfsuite import CRF, metrics, scorers
from trellis.errors import DataError, ModelError

TIGHT = {"epsilon": 1e-9, "delta": 1e-12}


def make_data(seed=0, sentences=60):
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(sentences):
        length = int(random.integers(1, 8))
        X.append(
            [
                {
                    "word": f"w{random.integers(20)}",
                    "size": float(random.integers(1, 4)),
                    "flag": bool(random.integers(2)),
                    "nested": {"a": 1, "b": "c"},
                }
                for _ in range(length)
            ]
        )
        y.append(random.choice(["B", "A", "C"], size=length).tolist())
    return X, y


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"c2": 0.1},
        {"c1": 0.5, "c2": 0.1},
        {"min_freq": 4},
        {"all_possible_states": True, "all_possible_transitions": True},
    ],
)
def test_the_same_settings_reach_the_same_model(options):
    X, y = make_data()
    theirs = original.CRF(**options, **TIGHT).fit(X, y)
    ours = CRF(**options, **TIGHT).fit(X, y)
    losses = [model.training_log_.last_iteration["loss"] for model in (theirs, ours)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert ours.classes_ == theirs.classes_
    for name in ("state_features_", "transition_features_"):
        a, b = getattr(theirs, name), getattr(ours, name)
        assert a.keys() ^ b.keys() <= {key for key in {**a, **b} if abs({**a, **b}[key]) < 1e-3}
        for key in a.keys() & b.keys():
            assert b[key] == pytest.approx(a[key], abs=2e-3)
    assert [*map(list, ours.predict(X))] == [*map(list, theirs.predict(X))]


def test_marginals_scores_and_single_sequences_agree():
    X, y = make_data(seed=1)
    theirs, ours = original.CRF(**TIGHT).fit(X, y), CRF(**TIGHT).fit(X, y)
    for a, b in zip(theirs.predict_marginals(X[:5]), ours.predict_marginals(X[:5]), strict=True):
        for left, right in zip(a, b, strict=True):
            assert list(left) == list(right)
            np.testing.assert_allclose(list(left.values()), list(right.values()), atol=1e-3)
    assert ours.predict_marginals_single(X[0]) == ours.predict_marginals(X[:1])[0].tolist()
    assert ours.predict_single(X[0]) == list(ours.predict(X)[0])
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))
    for model in (theirs, ours):
        model.tagger_.set(X[0])
    assert ours.tagger_.probability(y[0]) == pytest.approx(theirs.tagger_.probability(y[0]), rel=1e-2)
    assert ours.tagger_.marginal("A", 0) == pytest.approx(theirs.tagger_.marginal("A", 0), rel=1e-2)


def test_attributes_of_a_fitted_model():
    X, y = make_data(seed=2)
    theirs, ours = original.CRF().fit(X, y), CRF().fit(X, y)
    assert sorted(ours.attributes_) == sorted(theirs.attributes_)
    assert ours.num_attributes_ == theirs.num_attributes_ == len(ours.attributes_)
    assert ours.size_ == os.path.getsize(ours.modelfile.name) > 1000
    assert [row["num"] for row in ours.training_log_.iterations] == [*range(1, len(ours.training_log_.iterations) + 1)]
    fresh = CRF()
    for name in (
        "classes_",
        "size_",
        "attributes_",
        "num_attributes_",
        "state_features_",
        "transition_features_",
        "tagger_",
    ):
        assert getattr(fresh, name) is None


def test_constructor_parameters_are_the_originals():
    ours, theirs = (inspect.signature(cls.__init__).parameters for cls in (CRF, original.CRF))
    assert [*ours] == [*theirs]
    assert [p.default for p in ours.values()] == [p.default for p in theirs.values()]
    public = {name for name in dir(original.CRF()) if not name.startswith("_")}
    assert public <= set(dir(CRF()))


def test_clone_and_searches_run():
    X, y = make_data(seed=3, sentences=24)
    model = base.clone(CRF(c1=0.1, max_iterations=5))
    assert model.get_params()["c1"] == 0.1
    scorer = scoring.make_scorer(metrics.flat_f1_score, average="weighted", labels=["A", "B"])
    search = selection.RandomizedSearchCV(
        CRF(max_iterations=5),
        {"c1": [np.float64(0.1), np.float32(0.5)], "c2": [0.1, 1]},
        n_iter=3,
        cv=2,
        scoring=scorer,
        random_state=0,
    ).fit(X, y)
    assert set(search.best_params_) == {"c1", "c2"}
    grid = selection.GridSearchCV(CRF(max_iterations=5), {"c2": [0.1, 1.0]}, cv=2, scoring=scorers.flat_accuracy).fit(
        X, y
    )
    assert len(grid.cv_results_["params"]) == 2
    assert len(grid.predict(X)) == 24


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_algorithms_learn_and_pickle(algorithm):
    X = [[{"w": w} for w in "abcab"], [{"w": w} for w in "cab"]] * 5
    y = [["A", "B", "C", "A", "B"], ["C", "A", "B"]] * 5
    options = {"c2": 0.01} if algorithm in ("lbfgs", "l2sgd") else {}
    model = CRF(algorithm=algorithm, max_iterations=30, **options).fit(X, y)
    assert model.score(X, y) == 1.0
    again = pickle.loads(pickle.dumps(model))
    assert list(again.predict(X)) == list(model.predict(X))
    assert again.classes_ == model.classes_


@pytest.mark.parametrize("algorithm", [None, "lbfgs", "l2sgd", "pa", "arow"])
def test_ten_tokens_are_learned_with_the_default_settings(algorithm):
    """Regularisation and step lengths must also suit the smallest corpus."""
    x = [{"cloud": 1, "rain": 0.5}, {"cloud": 1}, {"cloud": 1, "wind": 0.5}, {"sun": 1}, {"sun": 1, "wind": 0.5}] * 2
    y = ["wet", "wet", "wet", "dry", "dry"] * 2
    assert CRF(algorithm).fit([x], [y]).score([x], [y]) == 1.0


def test_arrays_of_sequences_are_sequences():
    X, y = make_data(sentences=12)
    lists = CRF(max_iterations=5).fit(X, y)
    boxed = [np.empty(len(X), dtype=object) for _ in range(3)]
    for i, (x, own) in enumerate(zip(X, y, strict=True)):
        boxed[0][i], boxed[1][i], boxed[2][i] = x, own, np.array(own)
    for labels in boxed[1:]:
        model = CRF(max_iterations=5).fit(boxed[0], labels)
        assert list(model.predict(boxed[0])) == list(lists.predict(X))
        assert model.score(boxed[0], labels) == lists.score(X, y)
    square = np.array([x * 2 for x in [X[0][:1]] * 4], dtype=object)  # (4, 2): rows are sequences
    model = CRF(max_iterations=5).fit(square, np.array([["A", "B"]] * 4))
    assert (model.predict(square) == [["A", "B"]] * 4).all()
    assert metrics.sequence_accuracy_score(np.array([["A", "B"]] * 4), model.predict(square)) == 1.0


def test_refusals_say_what_is_wrong(tmp_path):
    X, y = make_data(sentences=3)
    with pytest.raises(ModelError, match="algorithm 'mira' is not available here: choose one of lbfgs, l2sgd, ap, pa"):
        CRF(algorithm="mira").fit(X, y)
    with pytest.raises(ValueError, match="Pass both X_dev and y_dev"):
        CRF().fit(X, y, X_dev=X)
    with pytest.raises(ModelError, match="not fitted"):
        CRF().predict(X)
    with pytest.raises(DataError, match="sentence 0 has"):
        CRF().fit(X, [own[:-1] for own in y])
    model = CRF().fit(X, y)
    with pytest.raises(ModelError, match="no sequence is set"):
        model.tagger_.tag()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"c2": "x"}, "^c2 must be a number, got 'x'"),
        ({"period": float("inf")}, "^period must be an integer, got inf"),
        ({"max_iterations": [5]}, r"^max_iterations must be an integer, got \[5\]"),
        ({"c": 0, "algorithm": "pa"}, "^c must be a finite number > 0, got 0"),
        ({"num_memories": -1}, "^num_memories must be a finite number > 0, got -1"),
        ({"algorithm": ["pa"]}, r"algorithm \['pa'\] is not available"),
    ],
)
def test_a_parameter_that_is_no_number_is_named_as_here(options, message):
    with pytest.raises(ModelError, match=message):
        CRF(**options).fit(*make_data(sentences=3))


def test_a_model_file_is_written_and_read(tmp_path):
    X, y = make_data(sentences=10)
    name = str(tmp_path / "model")
    model = CRF(model_filename=name).fit(X, y, X_dev=X, y_dev=y)
    assert model.training_log_.last_iteration["item_accuracy_float"] == model.score(X, y)
    assert list(CRF(model_filename=name).predict(X)) == list(model.predict(X))


def test_verbose_shows_a_line_per_iteration_and_a_table_of_what_was_held_out(capsys):
    X, y = make_data(sentences=4)
    CRF(verbose=True, max_iterations=2).fit(X, y, X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:6] for line in lines if line.startswith("Iter")] == ["Iter 1", "Iter 2"]
    assert [
        line.split()[0] for line in lines[lines.index("Label  Precision     Recall         F1    Support") :][:4]
    ] == [
        "Label",
        "A",
        "B",
        "C",
    ]


def test_metrics_are_the_originals():
    y, p = [["A", "B"], ["C"], ["A"]], [["A", "C"], ["C"], ["B"]]
    options = {"average": "macro", "zero_division": 0.0}
    assert metrics.flat_accuracy_score(y, p) == original_metrics.flat_accuracy_score(y, p)
    for name in ("flat_precision_score", "flat_recall_score", "flat_f1_score"):
        assert getattr(metrics, name)(y, p, **options) == getattr(original_metrics, name)(y, p, **options)
    assert metrics.flat_fbeta_score(y, p, 2.0, **options) == original_metrics.flat_fbeta_score(y, p, 2.0, **options)
    assert metrics.sequence_accuracy_score(y, p) == pytest.approx(1 / 3)
    assert metrics.sequence_accuracy_score([], []) == 0
    report = metrics.flat_classification_report(y, p, zero_division=0.0)
    assert report == original_metrics.flat_classification_report(y, p, zero_division=0.0)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = scorers.nothing
