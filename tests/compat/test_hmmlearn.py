"""CategoricalHMM beside hmmlearn's own, call by call."""

import inspect
import logging

import hmmlearn.hmm as theirs
import numpy as np
import pytest

from trellis.compat import hmmlearn as package
from trellis.compat.hmmlearn import hmm
from trellis.compat.hmmlearn.base import ConvergenceMonitor
from trellis.compat.hmmlearn.hmm import CategoricalHMM
from trellis.errors import ModelError, NoPathError


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def corpus(V=6, B=30, seed=0):
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 30, B)
    return random.integers(0, V, (lengths.sum(), 1)), lengths


def start(L=3, V=6, seed=1):
    random = np.random.default_rng(seed)
    return random.dirichlet(np.ones(L)), random.dirichlet(np.ones(L), L), random.dirichlet(np.ones(V), L)


def pair(L=3, V=6, model=None, **options):
    """Our model and theirs, from the same start."""
    both = [kind(L, **{"init_params": "", **options}) for kind in (CategoricalHMM, theirs.CategoricalHMM)]
    for one in both:
        one.startprob_, one.transmat_, one.emissionprob_ = (x.copy() for x in model or start(L, V))
    return both


def assert_same(ours, other, tolerance=1e-8):
    for name in ("startprob_", "transmat_", "emissionprob_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), rtol=0, atol=tolerance, err_msg=name)


def path_score(model, X, lengths, states):
    """Log probability of states and observations; among paths that are exactly as good, either may be found."""
    first = np.cumsum([0, *(lengths[:-1] if lengths is not None else [])])
    steps = np.setdiff1d(np.arange(1, len(states)), first)
    logs = np.log(model.startprob_[states[first]]).sum() + np.log(model.emissionprob_[states, X[:, 0]]).sum()
    return logs + np.log(model.transmat_[states[steps - 1], states[steps]]).sum()


def test_both_ways_to_import_it() -> None:
    assert package.CategoricalHMM is hmm.CategoricalHMM is CategoricalHMM


def test_the_signature_is_hmmlearns() -> None:
    ours, other = (inspect.signature(kind).parameters for kind in (CategoricalHMM, theirs.CategoricalHMM))
    assert list(ours) == list(other)
    assert [p.default for p in ours.values()] == [p.default for p in other.values()]
    assert [p.kind for p in ours.values()] == [p.kind for p in other.values()]


@pytest.mark.parametrize("implementation", ["log", "scaling"])
@pytest.mark.parametrize("shape", [(1, 2), (2, 2), (3, 6), (12, 40)])
def test_parameters_agree_after_each_of_ten_iterations(implementation, shape) -> None:
    X, lengths = corpus(shape[1])
    for n in range(1, 11):
        ours, other = pair(*shape, n_iter=n, tol=-np.inf, implementation=implementation)
        assert_same(ours.fit(X, lengths), other.fit(X, lengths))
        np.testing.assert_allclose(ours.monitor_.history, other.monitor_.history, rtol=1e-10)


@pytest.mark.parametrize("params", ["s", "t", "e", "st", "te", ""])
def test_params_says_what_is_learnt(params) -> None:
    X, lengths = corpus()
    ours, other = pair(params=params, n_iter=3, tol=-np.inf)
    assert_same(ours.fit(X, lengths), other.fit(X, lengths))


@pytest.mark.parametrize("init_params", ["ste", "s", "te", "e"])
def test_random_starts_are_the_same_draws(init_params) -> None:
    X, lengths = corpus()
    ours, other = pair(init_params=init_params, random_state=4, n_iter=2)
    assert_same(ours.fit(X, lengths), other.fit(X, lengths))
    fresh = CategoricalHMM(3, random_state=9).fit(X, lengths), theirs.CategoricalHMM(3, random_state=9).fit(X, lengths)
    assert_same(*fresh)


def test_priors() -> None:
    X, lengths = corpus()
    priors = {"startprob_prior": 2.0, "transmat_prior": np.full((3, 3), 1.5), "emissionprob_prior": 0.7}
    ours, other = pair(**priors, n_iter=4, tol=-np.inf)
    assert_same(ours.fit(X, lengths), other.fit(X, lengths))


def test_what_is_forbidden_stays_forbidden() -> None:
    model = (np.array([1.0, 0, 0]), np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1.0]]), start()[2])
    X, lengths = corpus()
    ours, other = pair(model=model, transmat_prior=2.0, n_iter=3, tol=-np.inf)
    assert_same(ours.fit(X, lengths), other.fit(X, lengths))
    assert ours.transmat_[0, 2] == 0


def test_it_stops_when_hmmlearn_stops() -> None:
    X, lengths = corpus()
    ours, other = pair(n_iter=200, tol=0.05)
    ours.fit(X, lengths), other.fit(X, lengths)
    assert ours.monitor_.iter == other.monitor_.iter
    assert ours.monitor_.converged
    assert repr(ours.monitor_).startswith("ConvergenceMonitor(\n    history=[")


def test_answers_agree() -> None:
    X, lengths = corpus()
    ours, other = pair()
    for sizes in (lengths, None):
        assert ours.score(X, sizes) == pytest.approx(other.score(X, sizes))
        np.testing.assert_allclose(ours.predict_proba(X, sizes), other.predict_proba(X, sizes), atol=1e-10)
        assert path_score(ours, X, sizes, ours.predict(X, sizes)) == pytest.approx(
            path_score(ours, X, sizes, other.predict(X, sizes))
        )
        assert ours.decode(X, sizes)[0] == pytest.approx(other.decode(X, sizes)[0])
        found, expected = ours.decode(X, sizes, "map"), other.decode(X, sizes, "map")
        assert found[0] == pytest.approx(expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
        found, expected = ours.score_samples(X, sizes), other.score_samples(X, sizes)
        assert found[0] == pytest.approx(expected[0])
        np.testing.assert_allclose(found[1], expected[1], atol=1e-10)
        assert ours.aic(X, sizes) == pytest.approx(other.aic(X, sizes))
        assert ours.bic(X, sizes) == pytest.approx(other.bic(X, sizes))
    np.testing.assert_allclose(ours.get_stationary_distribution(), other.get_stationary_distribution())


def test_samples_are_the_same_draws() -> None:
    ours, other = pair()
    for options in ({"random_state": 5}, {"random_state": 5, "currstate": 2}):
        for found, expected in zip(ours.sample(50, **options), other.sample(50, **options), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_parameters_by_name() -> None:
    model = CategoricalHMM(2, n_iter=3)
    assert repr(model) == "CategoricalHMM(n_components=2, n_iter=3)"
    assert model.set_params(tol=0.5).get_params() == {**CategoricalHMM(2, n_iter=3).get_params(), "tol": 0.5}
    with pytest.raises(ValueError, match="Invalid parameter 'nope'"):
        model.set_params(nope=1)


def test_verbose_reports_go_to_standard_error(capsys) -> None:
    X, lengths = corpus()
    ours, other = pair(verbose=True, n_iter=2)
    ours.fit(X, lengths)
    mine = capsys.readouterr().err
    other.fit(X, lengths)
    assert mine == capsys.readouterr().err
    assert ConvergenceMonitor(0.1, 5, True).converged is False


class TestWhereHmmlearnFails:
    def test_a_state_never_visited_keeps_its_distribution(self) -> None:
        model = (np.array([1.0, 0]), np.array([[1.0, 0], [0.5, 0.5]]), np.array([[0.5, 0.5], [0.2, 0.8]]))
        ours, other = pair(2, 2, model=model)
        X = np.array([[0], [1], [1]])
        ours.fit(X)
        np.testing.assert_array_equal(ours.transmat_[1], [0.5, 0.5])
        np.testing.assert_array_equal(ours.emissionprob_[1], [0.2, 0.8])
        assert (other.fit(X).transmat_[1] == 0).all()

    def test_an_impossible_sequence(self) -> None:
        model = (np.array([1.0, 0]), np.eye(2), np.array([[1.0, 0], [0, 1.0]]))
        ours, _ = pair(2, 2, model=model)
        assert ours.score([[0], [1]]) == -np.inf
        for ask in (ours.predict, ours.predict_proba, ours.fit):
            with pytest.raises(NoPathError):
                ask(np.array([[0], [1]]))

    @pytest.mark.parametrize("name", ["startprob_", "transmat_", "emissionprob_"])
    def test_what_does_not_sum_to_one_is_refused_by_name(self, name) -> None:
        ours, _ = pair()
        broken = getattr(ours, name)
        broken.flat[0] += 0.25
        with pytest.raises(ModelError, match=f"{name} must sum to 1, got 1.25"):
            ours.score([[0]])

    def test_bad_input_is_named(self) -> None:
        ours, _ = pair()
        with pytest.raises(ModelError, match="Largest symbol is 6 but the model only emits symbols up to 5"):
            ours.score([[6]])
        with pytest.raises(ModelError, match="Symbols should be nonnegative"):
            ours.score([[-1]])
        with pytest.raises(ModelError, match="Symbols should be integers"):
            ours.score([[0.5]])
        with pytest.raises(ModelError, match="Unknown decoder 'best'"):
            ours.decode([[0]], algorithm="best")
        with pytest.raises(ModelError, match="not fitted"):
            CategoricalHMM(2).score([[0]])
        with pytest.raises(ValueError, match="lengths must add up"):
            ours.score([[0], [1]], [1])


def test_subclasses_find_the_methods_that_hmmlearns_tests_call():
    model = CategoricalHMM(2, random_state=0)
    model._init(np.array([[0], [2], [1]]))
    assert model.emissionprob_.shape == (2, 3)
    model._check()
    for bad in (np.array([[0.0, 1.0]]), np.array([[0, -2]])):
        with pytest.raises(ValueError, match="Symbols should be"):
            model._check_and_set_n_features(bad)
    model.emissionprob_ = []
    with pytest.raises(ValueError, match="emissionprob_ must have shape"):
        model._check()


def test_an_override_of_the_m_step_is_called_with_the_originals_counts() -> None:
    """A left-right model whose last state absorbs, and one that looks at the counts."""
    X, lengths = corpus()
    models, seen = [], []
    for kind in (CategoricalHMM, theirs.CategoricalHMM):

        class Absorbing(kind):
            def _do_mstep(self, stats, record=seen):
                record.append({name: np.array(value) for name, value in stats.items()})
                super()._do_mstep(stats)
                self.transmat_[-1] = [0.0, 0.0, 1.0]

        model = Absorbing(3, n_iter=4, tol=0, init_params="")
        model.startprob_, model.transmat_, model.emissionprob_ = (x.copy() for x in start())
        models.append(model.fit(X, lengths))
    assert_same(*models)
    assert models[0].transmat_[-1].tolist() == [0.0, 0.0, 1.0]
    for ours, other in zip(seen[:4], seen[4:], strict=True):
        assert ours.keys() == other.keys()
        for name, value in other.items():
            np.testing.assert_allclose(ours[name], value, rtol=0, atol=1e-8, err_msg=name)


def test_other_overrides_are_refused() -> None:
    class Own(CategoricalHMM):
        def _compute_log_likelihood(self, X):
            return np.zeros((len(X), self.n_components))

    with pytest.raises(ModelError, match=r"Own\._compute_log_likelihood would never be called: .*only _do_mstep can"):
        Own(2).fit(*corpus())


def test_grid_search_chooses_a_number_of_states() -> None:
    from sklearn.model_selection import GridSearchCV

    found = []
    for kind in (CategoricalHMM, theirs.CategoricalHMM):
        model = kind(n_iter=3, random_state=0, n_features=6)
        search = GridSearchCV(model, {"n_components": [1, 2]}, cv=2).fit(corpus()[0])
        found.append((search.best_params_, search.best_score_))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1])
