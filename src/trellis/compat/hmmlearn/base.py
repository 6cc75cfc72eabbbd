"""What hmmlearn's models share: the chain, EM, answers and samples; a subclass says what a state emits.

    emissions (N, L) --chain--> answers          log_likelihood --marginals--> counts --M-step--> parameters

As in hmmlearn, a subclass has `_init`, `_check`, `_compute_log_likelihood`, `_accumulate_sufficient_statistics`,
`_do_mstep` and `_generate_sample_from_state`. The last two arguments of the fourth are None: there are no lattices.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from trellis import chain
from trellis.arrays import AnyArray, FloatArray, IntArray
from trellis.compat.parameters import Estimator
from trellis.errors import ModelError, NoPathError
from trellis.models.hmm.probabilities import akaike, bayesian, check_distribution, logs, normalised
from trellis.ragged import check_lengths

DECODER_ALGORITHMS = frozenset(("viterbi", "map"))
RandomState = np.random.RandomState | int | None

_log = logging.getLogger(__name__)
_NEVER_CALLED = (
    "_fit_log",
    "_fit_scaling",
    "_accumulate_sufficient_statistics_log",
    "_accumulate_sufficient_statistics_scaling",
)
EMISSIONS = ("_compute_log_likelihood", "_compute_likelihood")
STATISTICS = ("_initialize_sufficient_statistics", "_accumulate_sufficient_statistics")
_WORSE = np.finfo(np.float64).eps ** 0.5


class ConvergenceMonitor:
    """Report convergence to standard error; subclass it and set ``model.monitor_`` for other criteria."""

    _template = "{iter:>10d} {log_prob:>16.8f} {delta:>+16.8f}"

    def __init__(self, tol: float, n_iter: int, verbose: bool) -> None:
        self.tol = tol
        self.n_iter = n_iter
        self.verbose = verbose
        self.history: deque[float] = deque()
        self.iter = 0

    def __repr__(self) -> str:
        values = sorted({**vars(self), "history": list(self.history)}.items())
        return f"{type(self).__name__}(\n" + "".join(f"    {name}={value},\n" for name, value in values) + ")"

    def _reset(self) -> None:
        self.iter = 0
        self.history.clear()

    def report(self, log_prob: float) -> None:
        """Record the log-likelihood that an iteration began with."""
        delta = log_prob - self.history[-1] if self.history else float("nan")
        if self.verbose:
            sys.stderr.write(self._template.format(iter=self.iter + 1, log_prob=log_prob, delta=delta) + "\n")
        if delta < -_WORSE:
            _log.warning("Model is not converging: the log-likelihood went from %r to %r", self.history[-1], log_prob)
        self.history.append(log_prob)
        self.iter += 1

    @property
    def converged(self) -> bool:
        """Whether the last allowed iteration is done, or the last one gained less than ``tol``."""
        gained = self.history[-1] - self.history[-2] if len(self.history) >= 2 else float("inf")
        return self.iter == self.n_iter or gained < self.tol


class AbstractHMM(Estimator):
    """A hidden Markov model with any emissions."""

    n_components: int
    startprob_prior: npt.ArrayLike
    transmat_prior: npt.ArrayLike
    algorithm: str
    random_state: RandomState
    n_iter: int
    tol: float
    verbose: bool
    params: str
    init_params: str
    implementation: str
    n_features: int | None
    startprob_: FloatArray
    transmat_: FloatArray

    def __post_init__(self) -> None:
        self.monitor_ = ConvergenceMonitor(self.tol, self.n_iter, self.verbose)

    def fit(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> Self:
        """Estimate the parameters by EM, starting from those that are set, or from random ones for ``init_params``."""
        for name in _NEVER_CALLED:
            if hasattr(type(self), name):
                raise ModelError(f"{type(self).__name__}.{name} would never be called: nothing here makes lattices")
        samples, sizes = self._input(X, lengths)
        self._init(samples, sizes)
        self._check()
        self.monitor_._reset()
        for _ in range(self.n_iter):
            stats, log_prob = self._do_estep(samples, sizes)
            bound = self._compute_lower_bound(log_prob)
            self._do_mstep(stats)
            self.monitor_.report(bound)
            if self.monitor_.converged:
                break
        return self

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
        return self.decode(X, lengths)[1]

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, currstate: int | None = None
    ) -> tuple[AnyArray, IntArray]:
        """Observations (n_samples, n_features) and the states that emitted them; the same draws as hmmlearn's."""
        self._check_fitted()
        random = random_generator(self.random_state if random_state is None else random_state)
        steps = self.transmat_.cumsum(axis=1)
        states, observed = list[int](), []
        for t in range(n_samples):
            if t or currstate is None:
                state = pick(steps[states[-1]] if t else self.startprob_.cumsum(), random)
            else:
                state = currstate
            states.append(state)
            observed.append(self._generate_sample_from_state(state, random))
        return np.atleast_2d(np.array(observed)), np.array(states, dtype=np.int64)

    def get_stationary_distribution(self) -> FloatArray:
        """The distribution of states that a step leaves unchanged."""
        from trellis.study import MarkovChain

        n = self.n_components
        return MarkovChain(np.full(n, 1 / n), check_distribution("transmat_", self.transmat_, (n, n))).stationary()

    def aic(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> float:
        """Akaike's information criterion; lower is better."""
        return akaike(self.score(X, lengths), sum(self._get_n_fit_scalars_per_param().values()))

    def bic(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None = None) -> float:
        """The Bayesian information criterion; lower is better."""
        free = sum(self._get_n_fit_scalars_per_param().values())
        return bayesian(self.score(X, lengths), free, len(np.asarray(X)))

    # What subclasses have, or add to.

    def _init(self, X: AnyArray, lengths: Any = None) -> None:
        """Random distributions if ``init_params`` asks for them or nothing is set, drawn as hmmlearn draws them."""
        self._check_and_set_n_features(X)
        shares, random = np.full(self.n_components, 1.0 / self.n_components), random_generator(self.random_state)
        if self._needs_init("s", "startprob_"):
            self.startprob_ = random.dirichlet(shares)
        if self._needs_init("t", "transmat_"):
            self.transmat_ = random.dirichlet(shares, size=self.n_components)
        free = self._get_n_fit_scalars_per_param()
        if free is not None and X.size < (learned := sum(free.get(code, 0) for code in self.params)):
            _log.warning("%d free parameters from %d numbers give a degenerate solution", learned, X.size)

    def _check(self) -> None:
        n = self.n_components
        self.startprob_ = check_distribution("startprob_", self.startprob_, (n,))
        self.transmat_ = check_distribution("transmat_", self.transmat_, (n, n))

    def _check_and_set_n_features(self, X: AnyArray) -> None:
        columns = np.shape(X)[1]
        if getattr(self, "n_features", None) not in (None, columns):
            raise ModelError(f"Unexpected number of dimensions, got {columns} but expected {self.n_features}")
        self.n_features = columns

    def _compute_log_likelihood(self, X: AnyArray) -> FloatArray:
        """``(n_samples, n_components)`` log probability of each sample under each state."""
        if type(self)._compute_likelihood is AbstractHMM._compute_likelihood:
            raise ModelError(f"{type(self).__name__} needs a method _compute_log_likelihood")
        return logs(self._compute_likelihood(X))

    def _compute_likelihood(self, X: AnyArray) -> FloatArray:
        """`_compute_log_likelihood` as probabilities; a subclass overrides one of the two."""
        return np.exp(self._compute_log_likelihood(X))

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        n = self.n_components
        return {"nobs": 0, "start": np.zeros(n), "trans": np.zeros((n, n))}

    def _accumulate_sufficient_statistics(
        self, stats: dict[str, Any], X: Any, lattice: Any, posteriors: Any, fwdlattice: Any, bwdlattice: Any
    ) -> None:
        """Add what the M-step of the emissions needs of these samples; starts and transitions are counted already."""
        self._count(stats, X, posteriors)

    def _count(self, stats: dict[str, Any], X: AnyArray, posteriors: FloatArray) -> None:
        """Add the expected emissions of some samples to `stats`; overridden by the models of this package."""

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        """Set the parameters that maximise the expected log-likelihood of these counts; subclasses do more."""
        for code, name, counts, prior in (
            ("s", "startprob_", stats["start"], self.startprob_prior),
            ("t", "transmat_", stats["trans"], self.transmat_prior),
        ):
            if code in self.params:
                setattr(self, name, reestimated(counts, prior, getattr(self, name), keep_zeros=True))

    def _compute_lower_bound(self, curr_logprob: float) -> float:
        return curr_logprob

    def _get_n_fit_scalars_per_param(self) -> Any:
        """How many free numbers each letter of ``params`` stands for; None if that is unknown."""
        return {"s": self.n_components - 1, "t": self.n_components * (self.n_components - 1)}

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        return ()

    def _needs_init(self, code: str, name: str) -> bool:
        if code in self.init_params and hasattr(self, name):
            _log.warning("%s is set, but will be overwritten: init_params contains %r", name, code)
        return code in self.init_params or not hasattr(self, name)

    # What is the same for all of them.

    def _do_estep(self, X: AnyArray, lengths: IntArray) -> tuple[dict[str, Any], float]:
        """Expected counts under the parameters, and the log-likelihood."""
        stats = self._initialize_sufficient_statistics()
        scores = self._chain(X, lengths)
        answers = scores.marginals()
        stats["nobs"] += len(lengths)
        stats["start"] += answers.start
        stats["trans"] += answers.transitions
        lattice = scores.emissions if self.implementation == "log" else np.exp(scores.emissions)
        for block in self._blocks(STATISTICS, lengths):
            self._accumulate_sufficient_statistics(stats, X[block], lattice[block], answers.tokens[block], None, None)
        return stats, float(answers.log_partition.sum())

    def _chain(self, X: AnyArray, lengths: IntArray) -> chain.ChainScores:
        emissions = np.concatenate(
            [self._compute_log_likelihood(X[block]) for block in self._blocks(EMISSIONS, lengths)]
        )
        return chain.ChainScores(emissions, lengths, logs(self.transmat_), logs(self.startprob_), None)

    def _blocks(self, methods: Sequence[str], lengths: IntArray) -> list[slice]:
        """The samples that methods are called with: all, but sequence by sequence if one was overridden elsewhere."""
        if self._has_original(*methods) or len(lengths) < 2:
            return [slice(None)]
        ends = np.cumsum(lengths).tolist()
        return [slice(end - length, end) for end, length in zip(ends, lengths.tolist(), strict=True)]

    def _has_original(self, *methods: str) -> bool:
        package = __name__.rpartition(".")[0]
        return all(getattr(type(self), method).__module__.startswith(package) for method in methods)

    def _scores(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None) -> chain.ChainScores:
        self._check_fitted()
        samples, sizes = self._input(X, lengths)
        self._check_and_set_n_features(samples)
        return self._chain(samples, sizes)

    def _check_fitted(self) -> None:
        if not hasattr(self, "startprob_"):
            raise ModelError(f"This {type(self).__name__} is not fitted: call fit, or set startprob_ and the others")
        self._check()

    def _input(self, X: npt.ArrayLike, lengths: npt.ArrayLike | None) -> tuple[AnyArray, IntArray]:
        """Samples as an array of numbers, and the lengths of the sequences."""
        array = np.asarray(X)
        if array.dtype.kind not in "biuf":
            try:
                array = array.astype(np.float64)
            except (TypeError, ValueError):
                raise ModelError(f"X must be numbers (n_samples, n_features), got {array.dtype}") from None
        if array.ndim != 2:
            raise ModelError(f"X must have shape (n_samples, n_features), got {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row, column = np.argwhere(~np.isfinite(array))[0]
            raise ModelError(f"X[{row}, {column}] is {array[row, column]}: samples must be finite")
        return array, check_lengths([len(array)] if lengths is None else lengths, len(array))


@dataclass(eq=False, repr=False)
class BaseHMM(AbstractHMM):
    """hmmlearn's base class for emissions of one's own; parameters and attributes are those of the original."""

    n_components: int = 1
    startprob_prior: npt.ArrayLike = 1.0
    transmat_prior: npt.ArrayLike = 1.0
    algorithm: str = "viterbi"
    random_state: RandomState = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = ascii_letters
    init_params: str = ascii_letters
    implementation: str = "log"


_BaseHMM = BaseHMM


def reestimated(counts: Any, prior: Any, old: FloatArray, *, keep_zeros: bool = False) -> FloatArray:
    """Distributions from expected counts and a Dirichlet prior; a row that nothing was counted for stays."""
    counts = np.maximum(np.asarray(prior) - 1 + counts, 0)
    return normalised(np.where(old == 0, 0, counts) if keep_zeros else counts, old)


def random_generator(state: RandomState) -> np.random.RandomState:
    """A generator for a seed or a generator, by the rules of scikit-learn's ``check_random_state``."""
    if isinstance(state, np.random.RandomState):
        return state
    default: np.random.RandomState = np.random.mtrand._rand
    return default if state is None else np.random.RandomState(state)


def pick(cumulative: FloatArray, random: np.random.RandomState) -> int:
    """The outcome that a number between 0 and 1 falls on."""
    return int((cumulative > random.rand()).argmax())
