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


def test_overrides_of_the_emissions_are_called() -> None:
    """Words that are written badly: a state may emit the neighbour of its symbol, never across sequences."""
    X, lengths = corpus()
    models = []
    for kind in (CategoricalHMM, theirs.CategoricalHMM):

        class Smeared(kind):
            def _compute_log_likelihood(self, X):
                before = np.vstack([X[:1], X[:-1]])[:, 0]
                return np.log(0.8 * self.emissionprob_[:, X[:, 0]].T + 0.2 * self.emissionprob_[:, before].T)

            def _accumulate_sufficient_statistics(self, stats, X, lattice, posteriors, fwdlattice, bwdlattice):
                super()._accumulate_sufficient_statistics(stats, X, lattice, posteriors, fwdlattice, bwdlattice)
                stats["obs"][:, X[0, 0]] += 1.0

        model = Smeared(3, n_iter=4, tol=-np.inf, init_params="")
        model.startprob_, model.transmat_, model.emissionprob_ = (x.copy() for x in start())
        models.append(model.fit(X, lengths))
    assert_same(*models)
    assert models[0].score(X, lengths) == pytest.approx(models[1].score(X, lengths))


def test_overrides_that_would_never_be_called_are_refused() -> None:
    class Own(CategoricalHMM):
        def _fit_log(self, X):
            raise AssertionError

    with pytest.raises(ModelError, match=r"Own\._fit_log would never be called"):
        Own(2).fit(*corpus())


def test_emissions_of_ones_own() -> None:
    """hmmlearn's way to extend it: here the time between two events, which is exponential."""
    from hmmlearn.base import BaseHMM as TheirBaseHMM

    from trellis.compat.hmmlearn.base import BaseHMM

    X, found = np.random.default_rng(0).exponential(3.0, (60, 1)), []
    for base in (BaseHMM, TheirBaseHMM):

        class Exponential(base):
            def _init(self, X, lengths=None):
                super()._init(X, lengths)
                self.rates_ = np.array([0.1, 1.0])

            def _get_n_fit_scalars_per_param(self):
                return None

            def _compute_likelihood(self, X):
                return self.rates_ * np.exp(-self.rates_ * X)

            def _initialize_sufficient_statistics(self):
                return super()._initialize_sufficient_statistics() | {"post": np.zeros(2), "time": np.zeros(2)}

            def _accumulate_sufficient_statistics(self, stats, X, lattice, posteriors, fwdlattice, bwdlattice):
                super()._accumulate_sufficient_statistics(stats, X, lattice, posteriors, fwdlattice, bwdlattice)
                stats["post"] += posteriors.sum(axis=0)
                stats["time"] += posteriors.T @ X[:, 0]

            def _do_mstep(self, stats):
                super()._do_mstep(stats)
                self.rates_ = stats["post"] / stats["time"]

        model = Exponential(2, n_iter=5, random_state=3).fit(X, [20, 1, 39])
        found.append((model.rates_, model.transmat_, model.monitor_.history, model.predict(X), model.score(X)))
    for ours, other in zip(*found, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-9)
    with pytest.raises(ModelError, match="BaseHMM needs a method _compute_log_likelihood"):
        BaseHMM(2).fit(X)


VECTORS = np.random.default_rng(1).normal(size=(90, 2)) + np.repeat([[0, 0], [4, 1], [0, 5]], 30, axis=0)
COUNTS = np.random.default_rng(1).poisson(np.repeat([[1.0, 4.0], [6.0, 2.0], [3.0, 3.0]], 30, axis=0))
PRIORS = {"means_prior": 1.0, "means_weight": 0.5, "transmat_prior": 1.3}
KINDS = ("diag", "full", "spherical", "tied")
OTHERS = [
    *(("GaussianHMM", VECTORS, {"covariance_type": kind}) for kind in KINDS),
    *(
        ("GaussianHMM", VECTORS, {"covariance_type": kind, "covars_prior": 0.3, "covars_weight": 5, **PRIORS})
        for kind in KINDS
    ),
    ("GaussianHMM", VECTORS[:, :1], {"params": "sm", "implementation": "scaling"}),
    *(("GMMHMM", VECTORS, {"covariance_type": kind, "n_mix": 2}) for kind in KINDS),
    *(("GMMHMM", VECTORS, {"covariance_type": kind, "n_mix": 2, "weights_prior": 1.2, **PRIORS}) for kind in KINDS),
    ("PoissonHMM", COUNTS, {}),
    ("PoissonHMM", COUNTS, {"lambdas_prior": 2.0, "lambdas_weight": 0.5, "implementation": "scaling"}),
    ("MultinomialHMM", np.column_stack([COUNTS.clip(0, 4), 8 - COUNTS.clip(0, 4).sum(axis=1)]), {"n_trials": 8}),
]
LEARNED = ("startprob_", "transmat_", "means_", "_covars_", "covars_", "weights_", "lambdas_", "emissionprob_")


@pytest.mark.parametrize(("name", "X", "settings"), OTHERS)
def test_other_emissions_agree_after_each_iteration(name, X, settings) -> None:
    """Means begin at samples, since KMeans would take the time."""
    lengths, found = [30, 1, 40, 19], []
    for module in (hmm, theirs):
        model = getattr(module, name)(3, random_state=4, n_iter=4, tol=-np.inf, **settings)
        if name == "GaussianHMM":
            model.init_params, model.means_ = "stc", X[[3, 40, 80]]
        elif name == "GMMHMM":
            model.init_params, model.means_ = "stw", X[[[3, 9], [40, 50], [80, 85]]]
            shape = {"diag": (3, 2, 2), "full": (3, 2, 2, 2), "spherical": (3, 2), "tied": (3, 2, 2)}
            kind = settings["covariance_type"]
            eye = np.eye(2) if kind in ("full", "tied") else 1.0
            model.covars_ = np.broadcast_to(2.0 * eye, shape[kind]).copy()
        found.append(model.fit(X, lengths))
    ours, other = found
    np.testing.assert_allclose(ours.monitor_.history, other.monitor_.history, rtol=1e-9)
    spherical = name == "GaussianHMM" and settings.get("covariance_type") == "spherical"
    for learned in LEARNED:
        if hasattr(other, learned) and not (spherical and learned == "covars_"):
            np.testing.assert_allclose(getattr(ours, learned), getattr(other, learned), atol=1e-8, err_msg=learned)
    assert ours.decode(X, lengths)[0] == pytest.approx(other.decode(X, lengths)[0])
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-8)
    assert ours.bic(X, lengths) == pytest.approx(other.bic(X, lengths))
    if settings.get("covariance_type") != "spherical":
        for mine, drawn in zip(ours.sample(20, random_state=1), other.sample(20, random_state=1), strict=True):
            np.testing.assert_allclose(mine, drawn, atol=1e-7)


@pytest.mark.parametrize(("name", "more"), [("GaussianHMM", {}), ("GMMHMM", {"n_mix": 2})])
def test_first_means_are_those_of_kmeans(name, more) -> None:
    found = [getattr(module, name)(2, random_state=4, n_iter=2, **more).fit(VECTORS) for module in (hmm, theirs)]
    for learned in ("means_", "covars_", "transmat_"):
        np.testing.assert_allclose(*(getattr(model, learned) for model in found), atol=1e-8)


def test_covariances_of_every_kind_are_one_matrix_per_state() -> None:
    """Those of "spherical" too, of which hmmlearn gives one per state and feature."""
    model = hmm.GaussianHMM(2, "spherical", init_params="st", n_iter=3, random_state=0)
    model.means_, model.covars_ = VECTORS[[0, 40]], [1.0, 2.0]
    np.testing.assert_array_equal(model.covars_, [np.eye(2), 2 * np.eye(2)])
    model.fit(VECTORS)
    np.testing.assert_array_equal(model.covars_, model._covars_[:, :, None] * np.eye(2))


def test_a_state_that_nothing_belongs_to_keeps_its_emissions() -> None:
    for name, settings in (("GaussianHMM", {"covars_prior": 0.0}), ("PoissonHMM", {})):
        model = getattr(hmm, name)(2, init_params="", n_iter=2, **settings)
        model.startprob_, model.transmat_ = np.array([1.0, 0.0]), np.eye(2)
        if name == "GaussianHMM":
            model.means_, model.covars_ = np.array([[1.0], [7.0]]), np.array([[1.0], [3.0]])
            model.fit(COUNTS[:, :1].astype(float))
            assert (model.means_[1, 0], model.covars_[1, 0, 0]) == (7.0, 3.0)
        else:
            model.lambdas_ = np.array([[1.0], [7.0]])
            assert model.fit(COUNTS[:, :1]).lambdas_[1, 0] == 7.0


def test_what_other_emissions_refuse() -> None:
    gaussian = hmm.GaussianHMM(2)
    for covars, kind, why in (
        ([[1.0], [0.0]], "diag", "'diag' covars must be positive"),
        ([[1.0, 1.0]], "diag", r"covars_ of shape \(1, 2\) do not fit 'diag'"),
        ([[1.0, 2.0], [0.0, 1.0]], "tied", "'tied' covars must be symmetric"),
        ([[[1.0, 2.0], [2.0, 1.0]]] * 2, "full", "'full' covars must be positive-definite"),
        ([1.0, 1.0], "round", "do not fit 'round'"),
    ):
        gaussian.covariance_type = kind
        with pytest.raises(ModelError, match=why):
            gaussian.covars_ = covars
    with pytest.raises(ModelError, match=r"X\[1, 0\] is nan: samples must be finite"):
        hmm.GaussianHMM(1).fit([[0.0], [np.nan]])
    with pytest.raises(ModelError, match=r"X must have shape \(n_samples, n_features\), got \(2,\)"):
        hmm.GaussianHMM(1).fit([0.0, 1.0])
    with pytest.raises(ModelError, match="whole numbers >= 0"):
        hmm.PoissonHMM(1).fit([[0.5], [1.5]])
    with pytest.raises(ModelError, match="add up to the number of trials"):
        hmm.MultinomialHMM(1, n_trials=5).fit([[2, 2], [1, 4]])


def test_grid_search_chooses_a_number_of_states() -> None:
    from sklearn.model_selection import GridSearchCV

    found = []
    for kind in (CategoricalHMM, theirs.CategoricalHMM):
        model = kind(n_iter=3, random_state=0, n_features=6)
        search = GridSearchCV(model, {"n_components": [1, 2]}, cv=2).fit(corpus()[0])
        found.append((search.best_params_, search.best_score_))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1])
