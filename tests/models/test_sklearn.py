"""Taggers among scikit-learn's tools: its own checks where they apply, and the same promises on sequences elsewhere.

`check_estimator` as a whole feeds tables of numbers with one label per row, which a tagger refuses. The checks below
that look at settings and tags are scikit-learn's own; those that need data are restated for sentences.
"""

import copy
import pickle
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted

import trellis
from trellis.errors import ConfigError
from trellis.models import Tagger

NEURAL = {"encoder": {"hidden": 8, "words": {"size": 8}, "characters": {"kind": "none"}}, "training": {"epochs": 2}}
MAKERS: dict[str, Any] = {
    "crf": lambda: trellis.CRF(max_iterations=5),
    "hmm": trellis.HMM,
    "neural": lambda: trellis.NeuralTagger(**NEURAL),
}
OWN_CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)


def data() -> tuple[list[list[str]], list[list[str]]]:
    kinds = {"Ada": "B-PER", "Bob": "B-PER", "Paris": "B-LOC", "Rome": "B-LOC"}
    rng = np.random.default_rng(0)
    X = [list(map(str, rng.choice([*kinds, "lives", "in", "and"], n))) for n in rng.integers(2, 7, 16)]
    return X, [[kinds.get(word, "O") for word in words] for words in X]


def learned(tagger: Tagger[Any]) -> set[str]:
    """The public names; what only saves time may come later."""
    return {name for name in vars(tagger) if not name.startswith("_")}


@pytest.fixture(params=MAKERS)
def tagger(request: pytest.FixtureRequest) -> Tagger[Any]:
    return MAKERS[request.param]()


# A wrong setting is refused at once, not when fit is called; scikit-learn warns that it would wait.
@pytest.mark.filterwarnings("ignore:ConfigError occurred during set_params")
@pytest.mark.parametrize("name", OWN_CHECKS)
def test_scikit_learns_own_check(tagger: Tagger[Any], name: str) -> None:
    getattr(estimator_checks, name)(type(tagger).__name__, tagger)


def test_it_is_neither_a_classifier_nor_for_tables_of_numbers(tagger: Tagger[Any]) -> None:
    tags = get_tags(tagger)
    assert tags.estimator_type is None
    assert tags.target_tags.required
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array
    assert not tags.target_tags.one_d_labels


def test_fit_gives_itself_keeps_settings_and_data_and_answers_leave_no_trace(tagger: Tagger[Any]) -> None:
    X, y = data()
    before, settings = copy.deepcopy((X, y)), tagger.get_params()
    assert tagger.fit(X, y) is tagger
    assert tagger.get_params() == settings
    names = learned(tagger)
    for ask in (tagger.predict, tagger.transform, tagger.marginals):
        ask(X)
    tagger.score(X, y)
    assert learned(tagger) == names
    assert (X, y) == before


def test_scikit_learn_knows_whether_it_is_fitted(tagger: Tagger[Any]) -> None:
    with pytest.raises(NotFittedError):
        check_is_fitted(tagger)
    check_is_fitted(tagger.fit(*data()))


def test_fitting_again_forgets_the_first_time(tagger: Tagger[Any]) -> None:
    X, y = data()
    expected = clone(tagger).fit(X, y).predict(X)
    other = [["here" for _ in words] for words in X]
    tagger.fit(X, [["B-X" if t == 0 else "O" for t in range(len(words))] for words in other])
    assert tagger.fit(X, y).predict(X) == expected
    assert set(tagger.classes_) == {label for own in y for label in own} | {"I-PER", "I-LOC"}


@pytest.mark.parametrize("form", ["object array", "arrays of strings", "tuples", "series"])
def test_sentences_and_labels_may_be_any_sequences(tagger: Tagger[Any], form: str) -> None:
    X, y = data()
    ways: dict[str, Any] = {
        "object array": lambda rows: np.array([*rows, None], dtype=object)[:-1],
        "arrays of strings": lambda rows: [np.array(row) for row in rows],
        "tuples": lambda rows: tuple(map(tuple, rows)),
        "series": lambda rows: pandas.Series(rows),
    }
    expected = clone(tagger).fit(X, y).predict(X)
    assert tagger.fit(ways[form](X), ways[form](y)).predict(ways[form](X)) == expected


def test_a_search_over_nested_settings_in_two_processes() -> None:
    X, y = data()
    steps = Pipeline([("as they are", FunctionTransformer()), ("tagger", MAKERS["neural"]())])
    grid = {"tagger__training__epochs": [1, 15], "tagger__encoder__words__size": [4]}
    found = GridSearchCV(steps, grid, cv=KFold(2), n_jobs=2, error_score="raise").fit(X, y)
    assert found.best_params_["tagger__training__epochs"] == 15
    assert found.best_estimator_.named_steps["tagger"].config.training.epochs == 15
    single = GridSearchCV(steps, grid, cv=KFold(2), error_score="raise").fit(X, y)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], single.cv_results_["mean_test_score"])


def test_weights_of_sentences_are_cut_with_the_folds() -> None:
    X, y = data()
    weights = np.linspace(0.1, 2, len(X))
    found = cross_val_score(MAKERS["crf"](), X, y, cv=KFold(4), params={"sentence_weights": weights})
    folds = KFold(4).split(X)
    pick = lambda rows, places: [rows[i] for i in places]  # noqa: E731
    for (train, test), score in zip(folds, found, strict=True):
        model = MAKERS["crf"]().fit(pick(X, train), pick(y, train), sentence_weights=weights[train])
        assert score == model.score(pick(X, test), pick(y, test))


def test_transform_gives_probabilities_as_arrays_or_as_one_frame(tagger: Tagger[Any]) -> None:
    X, y = data()
    X.insert(1, [])
    y.insert(1, [])
    arrays = tagger.fit(X, y).transform(X)
    assert [own.shape for own in arrays] == [(len(words), len(tagger.labels_)) for words in X]
    assert list(tagger.get_feature_names_out()) == list(tagger.labels_)
    frame = tagger.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == list(tagger.labels_)
    assert list(frame.index) == [(i, t) for i, words in enumerate(X) for t in range(len(words))]
    np.testing.assert_array_equal(frame.to_numpy(), np.concatenate(arrays))
    assert tagger.transform([]).shape == (0, len(tagger.labels_))


def test_copies_keep_the_form_of_the_output(tagger: Tagger[Any]) -> None:
    X, y = data()
    tagger.fit(X, y).set_output(transform="pandas").set_output()
    for again in (clone(tagger).fit(X, y), pickle.loads(pickle.dumps(tagger))):
        assert isinstance(again.transform(X), pandas.DataFrame)
    assert isinstance(pickle.loads(pickle.dumps(tagger.set_output(transform="default"))).transform(X), list)


def test_a_pipeline_passes_the_form_of_the_output_on() -> None:
    X, y = data()
    steps = Pipeline([("as they are", FunctionTransformer()), ("tagger", MAKERS["hmm"]())]).fit(X, y)
    steps.named_steps["tagger"].set_output(transform="pandas")
    assert list(steps[-1:].get_feature_names_out()) == list(steps[-1].labels_)
    assert isinstance(steps.transform(X), pandas.DataFrame)


def test_an_output_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="transform must be one of default, pandas, got 'polars'"):
        trellis.HMM().set_output(transform="polars")  # type: ignore[arg-type]
