"""``hmmlearn.hmm.CategoricalHMM`` on the kernels of Trellis."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from trellis import chain
from trellis.arrays import FloatArray, IntArray
from trellis.compat.estimator import Estimator
from trellis.compat.hmmlearn.base import ConvergenceMonitor
from trellis.errors import ModelError, NoPathError
from trellis.models.hmm.estimation import HMMObjective
from trellis.models.hmm.probabilities import Probabilities, akaike, bayesian, chain_scores, log_emissions
from trellis.ragged import check_lengths

__all__ = ["CategoricalHMM"]

RandomState = np.random.RandomState | int | None
_CODES = {"s": "start", "t": "transitions", "e": "emissions"}
_INTERNALS = (
    "_do_estep",
    "_initialize_sufficient_statistics",
    "_accumulate_sufficient_statistics",
    "_accumulate_sufficient_statistics_log",
    "_accumulate_sufficient_statistics_scaling",
    "_compute_likelihood",
    "_compute_log_likelihood",
    "_compute_lower_bound",
    "_generate_sample_from_state",
    "_fit_log",
    "_fit_scaling",
)
_NAMES = ("startprob_", "transmat_", "emissionprob_")


@dataclass(eq=False, repr=False)
class CategoricalHMM(Estimator):
    """Hidden Markov model with categorical emissions; parameters and attributes are hmmlearn's.

    It learns ``startprob_`` (n_components,), ``transmat_`` (n_components, n_components) and ``emissionprob_``
    (n_components, n_features); ``monitor_`` has the history. ``implementation`` is accepted only for compatibility.
    """

    n_components: int = 1
    startprob_prior: npt.ArrayLike = 1.0
    transmat_prior: npt.ArrayLike = 1.0
    _: KW_ONLY
    emissionprob_prior: npt.ArrayLike = 1.0
    n_features: int | None = None
    algorithm: str = "viterbi"
    random_state: RandomState = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "ste"
    init_params: str = "ste"
    implementation: str = "log"
    startprob_: FloatArray = field(init=False)
    transmat_: FloatArray = field(init=False)
    emissionprob_: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)

    def fit(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> Self:
        """Estimate the parameters by EM, starting from those that are set, or from random ones for ``init_params``."""
        for name in _INTERNALS:
            if hasattr(type(self), name):
                raise ModelError(
                    f"{type(self).__name__}.{name} would never be called: of the internals of hmmlearn, only "
                    "_do_mstep can be overridden"
                )
        symbols, sizes = self._input(X, lengths)
        self._init(X, lengths)
        self._check()
        fixed = frozenset(part for code, part in _CODES.items() if code not in self.params)
        n, V = self.n_components, self._features()
        shapes = ((n,), (n, n), (n, V))
        # The priors as pseudo-counts: Dirichlet parameters less one.
        priors = (self.startprob_prior, self.transmat_prior, self.emissionprob_prior)
        start, transitions, emissions = (
            np.broadcast_to(np.asarray(prior, dtype=np.float64) - 1, shape)
            for prior, shape in zip(priors, shapes, strict=True)
        )
        pseudo = Probabilities(start, transitions, emissions.T)
        self._objective = HMMObjective(symbols, sizes, n, V, pseudo=pseudo, fixed=fixed)
        self.monitor_._reset()
        try:
            for _ in range(self.n_iter):
                log_prob, counts = self._objective.expected_counts(self._check())
                stats = {"start": counts.start, "trans": counts.transitions, "obs": counts.emissions.T}
                self._do_mstep({"nobs": len(sizes), **stats})
                self.monitor_.report(log_prob)
                if self.monitor_.converged:
                    break
        finally:
            del self._objective
        return self

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        """Set the parameters that maximise the expected log-likelihood of these counts; subclasses may do more."""
        counts = Probabilities(stats["start"], stats["trans"], np.ascontiguousarray(np.asarray(stats["obs"]).T))
        weights = self._objective.maximise(self._check().flat(), counts)
        p = Probabilities.from_flat(weights, self.n_components)
        self.startprob_, self.transmat_, self.emissionprob_ = p.start, p.transitions, p.emissions.T

    def score(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> float:
        """Log-likelihood of all sequences together; minus infinity if one is impossible."""
        try:
            return float(self._scores(X, lengths).log_partition().sum())
        except NoPathError:
            return -np.inf

    def score_samples(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> tuple[float, FloatArray]:
        """Log-likelihood and the posterior probability (n_samples, n_components) of each state."""
        marginals = self._scores(X, lengths).marginals()
        return float(marginals.log_partition.sum()), marginals.tokens

    def predict_proba(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> FloatArray:
        """Posterior probability of each state."""
        return self.score_samples(X, lengths)[1]

    def decode(
        self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None, algorithm: str | None = None
    ) -> tuple[float, IntArray]:
        """The log probability and the best states: of the whole sequence ("viterbi") or each by itself ("map").

        For "map" the first value is the sum of the posteriors, as in hmmlearn.
        """
        chosen = algorithm or self.algorithm
        if chosen == "viterbi":
            best = self._scores(X, lengths).viterbi()
            return float(best.scores.sum()), best.tags
        if chosen == "map":
            posteriors = self.predict_proba(X, lengths)
            return float(posteriors.max(axis=1).sum()), posteriors.argmax(axis=1)
        raise ModelError(f"Unknown decoder {chosen!r}")

    def predict(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> IntArray:
        """The best states."""
        return self.decode(X, lengths)[1]

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, currstate: int | None = None
    ) -> tuple[IntArray, IntArray]:
        """Observations (n_samples, 1) and the states that emitted them; the same draws as hmmlearn's."""
        p = self._check()
        random = _random(self.random_state if random_state is None else random_state)
        steps, emissions = p.transitions.cumsum(axis=1), p.emissions.T.cumsum(axis=1)
        state = _pick(p.start.cumsum(), random) if currstate is None else currstate
        states, observed = [state], [_pick(emissions[state], random)]
        for _ in range(n_samples - 1):
            states.append(_pick(steps[states[-1]], random))
            observed.append(_pick(emissions[states[-1]], random))
        return np.array(observed, dtype=np.int64)[:, None], np.array(states, dtype=np.int64)

    def get_stationary_distribution(self) -> FloatArray:
        """The distribution of states that a step leaves unchanged."""
        from trellis.study import MarkovChain

        p = self._check()
        return MarkovChain(p.start, p.transitions).stationary()

    def aic(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> float:
        """Akaike's information criterion; lower is better."""
        return akaike(self.score(X, lengths), self._check().free())

    def bic(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> float:
        """The Bayesian information criterion; lower is better."""
        return bayesian(self.score(X, lengths), self._check().free(), len(np.asarray(X)))

    def _scores(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None) -> chain.ChainScores:
        p = self._check()
        symbols, sizes = self._input(X, lengths)
        self._check_and_set_n_features(X)
        return chain_scores(p, log_emissions(p, symbols), sizes)

    def _input(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None) -> tuple[IntArray, IntArray]:
        array = np.asarray(X)
        if array.ndim != 2 or array.dtype.kind not in "iu":
            raise ModelError(f"Symbols should be integers (n_samples, 1), got {array.dtype} of shape {array.shape}")
        symbols = np.ascontiguousarray(array.ravel(), dtype=np.int64)
        return symbols, check_lengths([len(symbols)] if lengths is None else lengths, len(symbols))

    def _check_and_set_n_features(self, X: npt.ArrayLike) -> None:
        symbols, _ = self._input(X, None)
        if self.n_features is None:
            self.n_features = int(symbols.max(initial=0)) + 1
        if symbols.size and symbols.min() < 0:
            raise ModelError("Symbols should be nonnegative")
        if symbols.size and symbols.max() >= self._features():
            raise ModelError(
                f"Largest symbol is {symbols.max()} but the model only emits symbols up to {self._features() - 1}"
            )

    def _init(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> None:
        """Random distributions if ``init_params`` asks for them or nothing is set, drawn as hmmlearn draws them."""
        self._check_and_set_n_features(X)
        n, share = self.n_components, 1.0 / self.n_components
        random = _random(self.random_state)
        if self._needs("s", "startprob_"):
            self.startprob_ = random.dirichlet(np.full(n, share))
        if self._needs("t", "transmat_"):
            self.transmat_ = random.dirichlet(np.full(n, share), size=n)
        self.random_state = _random(self.random_state)
        if self._needs("e", "emissionprob_"):
            drawn = self.random_state.rand(n, self._features())
            self.emissionprob_ = drawn / drawn.sum(axis=1, keepdims=True)

    def _needs(self, code: str, name: str) -> bool:
        return code in self.init_params or not hasattr(self, name)

    def _check(self) -> Probabilities:
        if not hasattr(self, "startprob_"):
            raise ModelError("This CategoricalHMM is not fitted: call fit, or set startprob_ and the others")
        checked = Probabilities.checked(
            self.startprob_, self.transmat_, np.atleast_2d(self.emissionprob_), names=_NAMES
        )
        if checked.num_states != self.n_components:
            raise ModelError(f"startprob_ must have length n_components = {self.n_components}")
        if self.n_features is None:
            self.n_features = checked.num_symbols
        if checked.num_symbols != self.n_features:
            raise ModelError(f"emissionprob_ must have shape ({self.n_components}, {self.n_features})")
        return checked

    def _features(self) -> int:
        assert self.n_features is not None
        return self.n_features


def _random(state: RandomState) -> np.random.RandomState:
    """A generator for a seed or a generator, by the rules of scikit-learn's ``check_random_state``."""
    if isinstance(state, np.random.RandomState):
        return state
    default: np.random.RandomState = np.random.mtrand._rand
    return default if state is None else np.random.RandomState(state)


def _pick(cumulative: FloatArray, random: np.random.RandomState) -> int:
    return int((cumulative > random.rand()).argmax())
