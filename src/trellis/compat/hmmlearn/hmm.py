"""The models of ``hmmlearn.hmm``: what a state emits, and how that is estimated."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from trellis.arrays import AnyArray, FloatArray, IntArray
from trellis.compat.hmmlearn import base
from trellis.compat.hmmlearn.base import AbstractHMM, BaseHMM, RandomState, pick, random_generator, reestimated
from trellis.errors import ModelError
from trellis.models.hmm.estimation import HMMObjective
from trellis.models.hmm.probabilities import Probabilities, check_distribution, log_emissions, logs, normalised

__all__ = ["GMMHMM", "BaseHMM", "CategoricalHMM", "GaussianHMM", "MultinomialHMM", "PoissonHMM"]

COVARIANCE_TYPES = frozenset(("diag", "full", "spherical", "tied"))
_log = logging.getLogger(__name__)


class _DiscreteHMM(AbstractHMM):
    """States that emit one of ``n_features`` symbols, or counts of them, with the probabilities ``emissionprob_``."""

    emissionprob_: FloatArray
    emissionprob_prior: ClassVar[Any] = 1.0

    def _init(self, X: AnyArray, lengths: Any = None) -> None:
        super()._init(X, lengths)
        self.random_state = random_generator(self.random_state)
        if self._needs_init("e", "emissionprob_"):
            drawn = self.random_state.rand(self.n_components, self._features())
            self.emissionprob_ = drawn / drawn.sum(axis=1, keepdims=True)

    def _check(self) -> None:
        super()._check()
        shape = (self.n_components, self.n_features)
        self.emissionprob_ = check_distribution("emissionprob_", np.atleast_2d(self.emissionprob_), shape)
        self.n_features = self.emissionprob_.shape[1]

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        obs = np.zeros((self.n_components, self._features()))
        return super()._initialize_sufficient_statistics() | {"obs": obs}

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        if "e" in self.params:
            self.emissionprob_ = reestimated(stats["obs"], self.emissionprob_prior, self.emissionprob_)

    def _get_n_fit_scalars_per_param(self) -> Any:
        return super()._get_n_fit_scalars_per_param() | {"e": self.n_components * (self._features() - 1)}

    def _features(self) -> int:
        assert self.n_features is not None
        return self.n_features


@dataclass(eq=False, repr=False)
class CategoricalHMM(_DiscreteHMM):
    """Hidden Markov model with categorical emissions; parameters and attributes are hmmlearn's.

    It learns ``startprob_`` (n_components,), ``transmat_`` (n_components, n_components) and ``emissionprob_``
    (n_components, n_features); ``monitor_`` has the history. ``implementation`` is accepted only for compatibility.
    """

    n_components: int = 1
    startprob_prior: npt.ArrayLike = 1.0
    transmat_prior: npt.ArrayLike = 1.0
    _: KW_ONLY
    emissionprob_prior: npt.ArrayLike = 1.0  # type: ignore[misc]
    n_features: int | None = None
    algorithm: str = "viterbi"
    random_state: RandomState = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "ste"
    init_params: str = "ste"
    implementation: str = "log"

    def fit(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> Self:
        """Estimate the parameters by EM, starting from those that are set, or from random ones for ``init_params``."""
        try:
            return super().fit(X, lengths)
        finally:
            self.__dict__.pop("_objective", None)

    def _do_estep(self, X: AnyArray, lengths: IntArray) -> tuple[dict[str, Any], float]:
        """The E-step of `trellis.HMM`, unless something of it was overridden."""
        if not self._has_original(*base.EMISSIONS, *base.STATISTICS):
            return super()._do_estep(X, lengths)
        if not hasattr(self, "_objective"):
            self._objective = HMMObjective(X.ravel(), lengths, self.n_components, self._features())
        emissions = np.ascontiguousarray(self.emissionprob_.T)
        log_prob, counts = self._objective.expected_counts(Probabilities(self.startprob_, self.transmat_, emissions))
        stats = {"start": counts.start, "trans": counts.transitions, "obs": counts.emissions.T}
        return {"nobs": len(lengths), **stats}, log_prob

    def _compute_log_likelihood(self, X: AnyArray) -> FloatArray:
        return log_emissions(Probabilities(self.startprob_, self.transmat_, self.emissionprob_.T), X.ravel())

    def _count(self, stats: dict[str, Any], X: AnyArray, posteriors: FloatArray) -> None:
        np.add.at(stats["obs"].T, X.ravel(), posteriors)

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        return [pick(self.emissionprob_[state].cumsum(), random_state)]

    def _input(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None) -> tuple[AnyArray, IntArray]:
        array = np.asarray(X)
        if array.ndim != 2 or array.dtype.kind not in "iu":
            raise ModelError(f"Symbols should be integers (n_samples, 1), got {array.dtype} of shape {array.shape}")
        return super()._input(array.reshape(-1, 1).astype(np.int64), lengths)

    def _check_and_set_n_features(self, X: AnyArray) -> None:
        symbols = self._input(X, None)[0]
        if self.n_features is None:
            self.n_features = int(symbols.max(initial=0)) + 1
        if symbols.size and symbols.min() < 0:
            raise ModelError("Symbols should be nonnegative")
        if symbols.size and symbols.max() >= self.n_features:
            raise ModelError(
                f"Largest symbol is {symbols.max()} but the model only emits symbols up to {self.n_features - 1}"
            )


@dataclass(eq=False, repr=False)
class MultinomialHMM(_DiscreteHMM):
    """States that emit counts of symbols, ``n_trials`` in all per sample."""

    n_components: int = 1
    n_trials: npt.ArrayLike | None = None
    startprob_prior: npt.ArrayLike = 1.0
    transmat_prior: npt.ArrayLike = 1.0
    algorithm: str = "viterbi"
    random_state: RandomState = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "ste"
    init_params: str = "ste"
    implementation: str = "log"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.n_features: int | None = None

    def _check(self) -> None:
        super()._check()
        if self.n_trials is None:
            raise ModelError("n_trials must be set")

    def _check_and_set_n_features(self, X: AnyArray) -> None:
        super()._check_and_set_n_features(X)
        if X.dtype.kind not in "iu" or X.min(initial=0) < 0:
            raise ModelError("Symbol counts should be nonnegative integers")
        if X.shape[1] == 1:
            _log.warning("MultinomialHMM reads a row as counts of symbols; CategoricalHMM reads it as one symbol")
        if self.n_trials is None:
            self.n_trials = X.sum(axis=1)
        elif not (X.sum(axis=1) == self.n_trials).all():
            raise ModelError("Total count for each sample should add up to the number of trials")

    def _compute_log_likelihood(self, X: AnyArray) -> FloatArray:
        ways = _log_factorials(X.sum(axis=1)) - _log_factorials(X).sum(axis=1)
        result: FloatArray = ways[:, None] + _times_logs(X, self.emissionprob_).sum(axis=2)
        return result

    def _count(self, stats: dict[str, Any], X: AnyArray, posteriors: FloatArray) -> None:
        stats["obs"] += posteriors.T @ X

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        trials = np.unique(np.asarray(self.n_trials))
        if len(trials) != 1:
            raise ModelError("For sampling, a single n_trials must be given")
        return random_state.multinomial(trials[0], self.emissionprob_[state])


@dataclass(eq=False, repr=False)
class PoissonHMM(AbstractHMM):
    """States that emit numbers of events, whose means are ``lambdas_`` (n_components, n_features)."""

    n_components: int = 1
    startprob_prior: npt.ArrayLike = 1.0
    transmat_prior: npt.ArrayLike = 1.0
    lambdas_prior: npt.ArrayLike = 0.0
    lambdas_weight: npt.ArrayLike = 0.0
    algorithm: str = "viterbi"
    random_state: RandomState = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "stl"
    init_params: str = "stl"
    implementation: str = "log"

    def _init(self, X: AnyArray, lengths: Any = None) -> None:
        super()._init(X, lengths)
        self.random_state = random_generator(self.random_state)
        if self._needs_init("l", "lambdas_"):
            mean, variance = X.mean(), X.var()
            size = (self.n_components, X.shape[1])
            self.lambdas_ = self.random_state.gamma(shape=mean**2 / variance, scale=variance / mean, size=size)

    def _check(self) -> None:
        super()._check()
        self.lambdas_ = np.atleast_2d(self.lambdas_)
        shape = (self.n_components, getattr(self, "n_features", self.lambdas_.shape[1]))
        if self.lambdas_.shape != shape:
            raise ModelError(
                f"lambdas_ must have shape (n_components, n_features) = {shape}, got {self.lambdas_.shape}"
            )
        self.n_features = shape[1]

    def _compute_log_likelihood(self, X: AnyArray) -> FloatArray:
        if (X < 0).any() or (np.floor(X) != X).any():
            raise ModelError("X must be numbers of events: whole numbers >= 0")
        events = _times_logs(X, self.lambdas_)
        result: FloatArray = (events - self.lambdas_ - _log_factorials(X)[:, None]).sum(axis=2)
        return result

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        stats = super()._initialize_sufficient_statistics()
        return stats | {"post": np.zeros(self.n_components), "obs": np.zeros_like(self.lambdas_)}

    def _count(self, stats: dict[str, Any], X: AnyArray, posteriors: FloatArray) -> None:
        stats["post"] += posteriors.sum(axis=0)
        stats["obs"] += posteriors.T @ X

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        if "l" in self.params:
            visits, n = stats["post"][:, None], stats["post"].sum()
            means = np.where(visits > 0, stats["obs"] / np.where(visits > 0, visits, 1.0), self.lambdas_)
            self.lambdas_ = (self.lambdas_prior + n * means) / (self.lambdas_weight + n)

    def _get_n_fit_scalars_per_param(self) -> Any:
        return super()._get_n_fit_scalars_per_param() | {"l": self.n_components * (self.n_features or 0)}

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        return random_state.poisson(self.lambdas_[state])


@dataclass(eq=False, repr=False)
class GaussianHMM(AbstractHMM):
    """States that emit vectors, normally distributed around ``means_`` (n_components, n_features).

    ``covars_`` are full matrices, one per state, whatever ``covariance_type`` says; to set them, the shape is that of
    the type, as in hmmlearn. First means are those of scikit-learn's KMeans.
    """

    n_components: int = 1
    covariance_type: str = "diag"
    min_covar: float = 1e-3
    startprob_prior: npt.ArrayLike = 1.0
    transmat_prior: npt.ArrayLike = 1.0
    means_prior: Any = 0
    means_weight: Any = 0
    covars_prior: Any = 1e-2
    covars_weight: Any = 1
    algorithm: str = "viterbi"
    random_state: RandomState = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "stmc"
    init_params: str = "stmc"
    implementation: str = "log"

    @property
    def covars_(self) -> FloatArray:
        """``(n_components, n_features, n_features)``: the covariances of each state."""
        return _full(self._covars_, self.covariance_type, *self.means_.shape)

    @covars_.setter
    def covars_(self, covars: npt.ArrayLike) -> None:
        given: FloatArray = np.array(covars, dtype=np.float64)
        if self.covariance_type == "spherical" and given.size == self.n_components:
            given = given.reshape(-1)
        ndim = {"spherical": (1, 2), "diag": (2,), "full": (3,), "tied": (2,)}.get(self.covariance_type, ())
        if given.ndim not in ndim or (self.covariance_type != "tied" and len(given) != self.n_components):
            raise ModelError(f"covars_ of shape {given.shape} do not fit {self.covariance_type!r} covariances")
        _check_covariances(given, self.covariance_type)
        self._covars_ = given

    def _init(self, X: AnyArray, lengths: Any = None) -> None:
        super()._init(X, lengths)
        if self._needs_init("m", "means_"):
            self.means_ = _clusters(X, self.n_components, self.random_state).cluster_centers_
        if self._needs_init("c", "covars_"):
            cov = _covariance(X, self.min_covar)
            n, d = self.n_components, len(cov)
            self._covars_ = {
                "spherical": np.full((n, d), cov.mean()),
                "diag": np.tile(np.diag(cov), (n, 1)),
                "full": np.tile(cov, (n, 1, 1)),
                "tied": cov,
            }[self.covariance_type]

    def _check(self) -> None:
        super()._check()
        if self.covariance_type not in COVARIANCE_TYPES:
            raise ModelError(f"covariance_type must be one of {sorted(COVARIANCE_TYPES)}, got {self.covariance_type!r}")
        self.means_ = np.asarray(self.means_)
        self.n_features = self.means_.shape[1]

    def _compute_log_likelihood(self, X: AnyArray) -> FloatArray:
        return _log_densities(X, self.means_, self._covars_, self.covariance_type)

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        means = np.zeros(self.means_.shape)
        stats = super()._initialize_sufficient_statistics()
        stats |= {"post": np.zeros(len(means)), "obs": means, "obs**2": means.copy()}
        if self.covariance_type in ("full", "tied"):
            stats["obs*obs.T"] = np.zeros((*means.shape, means.shape[1]))
        return stats

    def _count(self, stats: dict[str, Any], X: AnyArray, posteriors: FloatArray) -> None:
        stats["post"] += posteriors.sum(axis=0)
        stats["obs"] += posteriors.T @ X
        if "c" not in self.params:
            return
        if self.covariance_type in ("spherical", "diag"):
            stats["obs**2"] += posteriors.T @ X**2
        else:
            for state, share in enumerate(posteriors.T):
                stats["obs*obs.T"][state] += (share[:, None] * X).T @ X

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        post, obs, weight = stats["post"][:, None], stats["obs"], self.means_weight
        if "m" in self.params:
            total = weight + post
            seen = total > 0
            self.means_ = np.where(seen, (weight * self.means_prior + obs) / np.where(seen, total, 1.0), self.means_)
        if "c" not in self.params:
            return
        means, from_prior = self.means_, self.means_ - self.means_prior
        if self.covariance_type in ("spherical", "diag"):
            squares = weight * from_prior**2 + stats["obs**2"] - 2 * means * obs + means**2 * post
            total = np.maximum(max(self.covars_weight - 1, 0) + post, 1e-5)
            covars = np.where(post > 0, (self.covars_prior + squares) / total, self._covars_.reshape(len(means), -1))
            if self.covariance_type == "spherical":
                covars = np.repeat(covars.mean(axis=1, keepdims=True), covars.shape[1], axis=1)
            self._covars_ = covars
            return
        crossed = _outer(obs, means)
        products = weight * _outer(from_prior, from_prior) + stats["obs*obs.T"]
        products += post[:, :, None] * _outer(means, means) - crossed - crossed.swapaxes(1, 2)
        more = max(self.covars_weight - means.shape[1], 0)
        if self.covariance_type == "tied":
            self._covars_ = (self.covars_prior + products.sum(axis=0)) / (more + post.sum())
        else:
            total = more + post[:, :, None]
            seen = total > 0
            self._covars_ = np.where(seen, (self.covars_prior + products) / np.where(seen, total, 1.0), self._covars_)

    def _get_n_fit_scalars_per_param(self) -> Any:
        n, d = self.n_components, self.n_features or 0
        sizes = {"spherical": n, "diag": n * d, "full": n * d * (d + 1) // 2, "tied": d * (d + 1) // 2}
        return super()._get_n_fit_scalars_per_param() | {"m": n * d, "c": sizes[self.covariance_type]}

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        return random_state.multivariate_normal(self.means_[state], self.covars_[state])


@dataclass(eq=False, repr=False)
class GMMHMM(AbstractHMM):
    """States that emit vectors, each from one of ``n_mix`` normal distributions, chosen by ``weights_``.

    ``means_`` are (n_components, n_mix, n_features). The shape of ``covars_`` is that of the type, after (n_components,
    n_mix); it is (n_components, n_features, n_features) if they are tied within a state.
    """

    n_components: int = 1
    n_mix: int = 1
    min_covar: float = 1e-3
    startprob_prior: npt.ArrayLike = 1.0
    transmat_prior: npt.ArrayLike = 1.0
    weights_prior: Any = 1.0
    means_prior: Any = 0.0
    means_weight: Any = 0.0
    covars_prior: Any = None
    covars_weight: Any = None
    algorithm: str = "viterbi"
    covariance_type: str = "diag"
    random_state: RandomState = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "stmcw"
    init_params: str = "stmcw"
    implementation: str = "log"

    def _init(self, X: AnyArray, lengths: Any = None) -> None:
        super()._init(X, None)
        n, m = self.n_components, self.n_mix
        coarse = _clusters(X, n, self.random_state)
        means, cov = [], _covariance(X, self.min_covar)
        for state in range(n):
            members = X[coarse.labels_ == state]
            if len(members) >= m:
                means.append(_clusters(members, m, self.random_state).cluster_centers_)
            else:
                means.append(np.random.multivariate_normal(coarse.cluster_centers_.mean(axis=0), cov=cov, size=m))
        if self._needs_init("w", "weights_"):
            self.weights_ = np.full((n, m), 1 / m)
        if self._needs_init("m", "means_"):
            self.means_ = np.stack(means)
        if self._needs_init("c", "covars_"):
            self.covars_ = {
                "spherical": np.full((n, m), cov.mean()),
                "diag": np.tile(np.diag(cov), (n, m, 1)),
                "full": np.tile(cov, (n, m, 1, 1)),
                "tied": np.tile(cov, (n, 1, 1)),
            }[self.covariance_type]

    def _check(self) -> None:
        super()._check()
        if self.covariance_type not in COVARIANCE_TYPES:
            raise ModelError(f"covariance_type must be one of {sorted(COVARIANCE_TYPES)}, got {self.covariance_type!r}")
        n, m = self.n_components, self.n_mix
        self.means_, self.covars_ = np.array(self.means_), np.array(self.covars_)
        d = getattr(self, "n_features", self.means_.shape[-1])
        self.n_features = d
        self.weights_ = check_distribution("weights_", self.weights_, (n, m))
        shapes = {"spherical": (n, m), "diag": (n, m, d), "full": (n, m, d, d), "tied": (n, d, d)}
        for name, shape in (("means_", (n, m, d)), ("covars_", shapes[self.covariance_type])):
            if getattr(self, name).shape != shape:
                raise ModelError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")
        _check_covariances(self.covars_, self.covariance_type, strict=False)

    def _priors(self) -> Mapping[str, Any]:
        """Parameters of the priors; by default they change nothing but "spherical", as in hmmlearn."""
        m, d = self.n_mix, self.n_features or 0
        defaults = {
            "full": (0.0, -(d + 2.0)),
            "tied": (0.0, -(m + d + 1.0)),
            "diag": (-1.5, 0.0),
            "spherical": (-(m + 2.0) / 2, 0.0),
        }[self.covariance_type]
        given = (self.covars_prior, self.covars_weight)
        prior, weight = (default if one is None else one for one, default in zip(given, defaults, strict=True))
        return {
            "weights": np.broadcast_to(self.weights_prior, self.weights_.shape),
            "means": np.broadcast_to(self.means_prior, self.means_.shape),
            "means_weight": np.broadcast_to(self.means_weight, self.weights_.shape),
            "covars": np.broadcast_to(prior, self.covars_.shape),
            "covars_weight": np.asarray(weight),
        }

    def _log_weighted(self, X: AnyArray) -> FloatArray:
        """``(n_samples, n_components, n_mix)`` log of weight times density."""
        by_state = zip(self.means_, self.covars_, strict=True)
        densities = [_log_densities(X, means, covars, self.covariance_type) for means, covars in by_state]
        result: FloatArray = np.stack(densities, axis=1) + logs(self.weights_)
        return result

    def _compute_log_likelihood(self, X: AnyArray) -> FloatArray:
        result: FloatArray = np.logaddexp.reduce(self._log_weighted(X), axis=2)
        return result

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        priors, stats = self._priors(), super()._initialize_sufficient_statistics()
        stats |= {"post_mix_sum": np.zeros(self.weights_.shape), "post_sum": np.zeros(self.n_components)}
        return stats | {
            "m_n": priors["means_weight"][:, :, None] * priors["means"],
            "c_n": np.zeros(self.covars_.shape),
        }

    def _count(self, stats: dict[str, Any], X: AnyArray, posteriors: FloatArray) -> None:
        weighted = self._log_weighted(X)
        total = np.logaddexp.reduce(weighted, axis=2, keepdims=True)
        shares = posteriors[:, :, None] * np.exp(weighted - np.where(np.isfinite(total), total, 0.0))
        stats["post_mix_sum"] += shares.sum(axis=0)
        stats["post_sum"] += posteriors.sum(axis=0)
        stats["m_n"] += np.einsum("ijk,il->jkl", shares, X)
        for state, mix in np.ndindex(self.weights_.shape) if "c" in self.params else ():
            share, centered = shares[:, state, mix], X - self.means_[state, mix]
            if self.covariance_type == "tied":
                stats["c_n"][state] += (share[:, None] * centered).T @ centered
            elif self.covariance_type == "full":
                stats["c_n"][state, mix] += (share[:, None] * centered).T @ centered
            else:
                squares = share @ centered**2
                stats["c_n"][state, mix] += squares if self.covariance_type == "diag" else squares.sum()

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        priors, sums, d = self._priors(), stats["post_mix_sum"], self.means_.shape[2]
        if "w" in self.params:
            more = priors["weights"] - 1
            self.weights_ = normalised(np.maximum(sums + more, 0), self.weights_)
        if "m" in self.params:
            total = (sums + priors["means_weight"])[:, :, None]
            self.means_ = np.where(total > 0, stats["m_n"] / np.where(total > 0, total, 1.0), self.means_)
        if "c" not in self.params:
            return
        weight, centered = priors["means_weight"], self.means_ - priors["means"]
        prior, more = priors["covars"], priors["covars_weight"]
        if self.covariance_type in ("full", "tied"):
            counts = weight[:, :, None, None] * _outer(centered, centered)
            tied = self.covariance_type == "tied"
            counts = stats["c_n"] + prior.swapaxes(-1, -2) + (counts.sum(axis=1) if tied else counts)
            total = (stats["post_sum"] + self.n_mix if tied else sums + 1) + more + d + 1
            total = total[..., None, None]
        elif self.covariance_type == "diag":
            counts = stats["c_n"] + weight[:, :, None] * centered**2 + 2 * more
            total = sums[:, :, None] + 1 + 2 * (prior + 1)
        else:
            counts = stats["c_n"] + weight * (centered**2).sum(axis=2) + 2 * more
            total = d * (sums + 1) + 2 * (prior + 1)
        self.covars_ = np.where(total > 0, counts / np.where(total > 0, total, 1.0), self.covars_)

    def _get_n_fit_scalars_per_param(self) -> Any:
        n, m, d = self.n_components, self.n_mix, self.n_features or 0
        full = d * (d + 1) // 2
        sizes = {"spherical": n * m, "diag": n * m * d, "full": n * m * full, "tied": n * full}
        free = {"m": n * m * d, "c": sizes[self.covariance_type], "w": m - 1}
        return super()._get_n_fit_scalars_per_param() | free

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        mix = random_state.choice(self.n_mix, p=self.weights_[state])
        covars = self.covars_[state] if self.covariance_type == "tied" else self.covars_[state, mix]
        return random_state.multivariate_normal(
            self.means_[state, mix], _full(covars[None], self.covariance_type, 1, self.means_.shape[2])[0]
        )


def _log_factorials(numbers: AnyArray) -> FloatArray:
    """Logarithm of n! for each number."""
    values, inverse = np.unique(numbers, return_inverse=True)
    table = np.array([math.lgamma(value + 1) for value in values.tolist()])
    return table[inverse].reshape(numbers.shape)


def _times_logs(counts: AnyArray, means: FloatArray) -> FloatArray:
    """``(n_samples, n_components, n_features)``: counts times logarithms; what does not occur counts nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(counts[:, None] > 0, counts[:, None] * logs(means), 0.0)


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    """The products of all pairs in the last axis."""
    return a[..., :, None] * b[..., None, :]


def _clusters(X: AnyArray, n: int, random_state: RandomState) -> Any:
    """scikit-learn's KMeans, with hmmlearn's settings."""
    try:
        from sklearn.cluster import KMeans  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise ModelError("first means come from scikit-learn's KMeans: install scikit-learn, or set means_") from None
    return KMeans(n_clusters=n, random_state=random_state, n_init=10).fit(X)


def _covariance(X: AnyArray, floor: float) -> FloatArray:
    """The covariance of all samples, ``(n_features, n_features)``, plus `floor` on its diagonal."""
    return np.atleast_2d(np.cov(X.T)) + floor * np.eye(X.shape[1])


def _full(covars: FloatArray, kind: str, n: int, d: int) -> FloatArray:
    """``(n, d, d)`` matrices from what is kept of them."""
    if kind == "full":
        return covars
    if kind == "tied":
        return np.tile(covars, (n, 1, 1))
    return np.broadcast_to(covars.reshape(n, -1), (n, d))[:, :, None] * np.eye(d)


def _check_covariances(covars: FloatArray, kind: str, *, strict: bool = True) -> None:
    """Refuse variances and matrices that are no covariances; zero is one unless `strict`."""
    sizes: AnyArray = covars
    if kind in ("full", "tied"):
        if covars.shape[-1] != covars.shape[-2] or not np.allclose(covars, covars.swapaxes(-1, -2)):
            raise ModelError(f"{kind!r} covars must be symmetric matrices")
        sizes = np.linalg.eigvalsh(covars)
    if not (sizes > 0 if strict else sizes >= 0).all():
        raise ModelError(f"{kind!r} covars must be positive{'-definite' if kind in ('full', 'tied') else ''}")


def _log_densities(X: AnyArray, means: FloatArray, covars: FloatArray, kind: str) -> FloatArray:
    """``(n_samples, n)`` log density of each sample under n normal distributions."""
    n, d = means.shape
    found = np.empty((len(X), n))
    for k, mean in enumerate(means):
        if kind in ("spherical", "diag"):
            variances = np.broadcast_to(np.maximum(covars[k], np.finfo(np.float64).tiny), d)
            log_determinant = np.log(variances).sum()
            with np.errstate(over="ignore"):
                distances = ((X - mean) ** 2 / variances).sum(axis=1)
        else:
            root = _root(covars if kind == "tied" else covars[k])
            log_determinant = 2 * np.log(np.diag(root)).sum()
            distances = (np.linalg.solve(root, (X - mean).T) ** 2).sum(axis=0)
        found[:, k] = -0.5 * (d * math.log(2 * math.pi) + log_determinant + distances)
    return found


def _root(covariance: FloatArray) -> FloatArray:
    """Cholesky's factor; a matrix that is not quite positive-definite gets a little more on its diagonal."""
    for more in (0.0, 1e-7):
        try:
            return np.asarray(np.linalg.cholesky(covariance + more * np.eye(len(covariance))), dtype=np.float64)
        except np.linalg.LinAlgError:
            continue
    raise ModelError("'covars' must be symmetric, positive-definite")
