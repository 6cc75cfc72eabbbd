"""`FeatureFunctions`: score(y | x) = sum_i sum_k lambda_k t_k(y[i-1], y[i], x, i) + sum_i sum_l mu_l s_l(y[i], x, i).

>>> def noun_after_determiner(previous, current, x, i):
...     return previous == "DET" and current == "NOUN"
>>> def the(current, x, i):
...     return x[i] == "the" and current == "DET"
>>> model = FeatureFunctions(["DET", "NOUN"], [noun_after_determiner], [the], weights=[1.0, 2.0])
>>> model.viterbi(["the", "dog"])
ScoredLabels(labels=['DET', 'NOUN'], score=3.0)
>>> round(model.probability(["the", "dog"], ["DET", "NOUN"]), 4)
0.6815
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt

from trellis import chain
from trellis.arrays import FloatArray, IntArray, plain_array
from trellis.errors import ModelError, NotFittedError, number_of, shown
from trellis.ragged import later_tokens, split
from trellis.training import History, Progress, lbfgs, owlqn, run


class ScoredLabels(NamedTuple):
    """A labelling, and its score before it is normalised."""

    labels: list[Any]
    score: float


@final
class FeatureFunctions:
    """A linear-chain CRF over feature functions that you write.

    Args:
        labels: what the places of a sentence are labelled with: strings, numbers, anything with a hash.
        transitions: functions ``t(previous, current, x, i)`` of two neighbouring labels, the whole sentence, and the
            place of the second label, i = 1, 2, ..., counted from 0 as Python does.
        states: functions ``s(current, x, i)`` of one label, for i = 0, 1, ...
        weights: one per function, those of `transitions` first; `fit` learns them where they are left out.

    Every function is asked about every label (or pair of labels) at every place: that is right for study and for small
    data. `trellis.CRF` learns templates over a million tokens.

    """

    def __init__(
        self,
        labels: Sequence[Hashable],
        transitions: Sequence[TransitionFunction] = (),
        states: Sequence[StateFunction] = (),
        *,
        weights: npt.ArrayLike | None = None,
    ) -> None:
        try:
            self.labels = tuple(labels)
            distinct = len(set(self.labels)) == len(self.labels)
        except TypeError as error:
            raise ModelError(
                f"labels must be a list of labels that have a hash, got {shown(labels)}: {error}"
            ) from None
        if not self.labels or not distinct:
            raise ModelError(f"labels must be one or more and distinct, got {shown(self.labels)}")
        self.transitions: tuple[TransitionFunction, ...] = _functions("transitions", transitions)
        self.states: tuple[StateFunction, ...] = _functions("states", states)
        self._ids = {label: number for number, label in enumerate(self.labels)}
        if weights is not None:
            self.weights_, count = plain_array(weights, np.float64).copy(), len(self.names)
            if self.weights_.shape != (count,) or not np.isfinite(self.weights_).all():
                raise ModelError(f"weights must be {count} finite numbers, one per function, got {shown(weights)}")

    @property
    def names(self) -> list[str]:
        """The names of the functions, in the order of the weights."""
        return [name_of(function) for function in (*self.transitions, *self.states)]

    def scores(self, X: Sequence[Any]) -> chain.ChainScores:
        """The chain of the sentences: it answers every question about their labels, as numbers ``0 .. L - 1``."""
        values = self._evaluated(X)
        if not hasattr(self, "weights_"):
            raise NotFittedError("this model has no weights yet: call fit, or give them with weights=")
        return self._chain(values, self.weights_)

    def score(self, x: Any, y: Sequence[Hashable]) -> float:
        """The score of the labels of a sentence, not normalised: the sum of all weighted functions."""
        return float(self.scores([x]).score(self._encoded([x], [y]))[0])

    def log_partition(self, x: Any) -> float:
        """Log Z: the log of the sum of ``exp(score)`` over all labellings of a sentence."""
        return float(self.scores([x]).log_partition()[0])

    def probability(self, x: Any, y: Sequence[Hashable]) -> float:
        """P(y | x)."""
        return float(np.exp(-self.scores([x]).nll(self._encoded([x], [y]))[0]))

    def viterbi(self, x: Any) -> ScoredLabels:
        """The best labels of a sentence, and their score; among equals the label that is listed first."""
        best = self.scores([x]).viterbi()
        return ScoredLabels(self._decoded(best.tags), float(best.scores[0]))

    def kbest(self, x: Any, k: int) -> list[ScoredLabels]:
        """The k best labellings of a sentence, best first; fewer where fewer exist."""
        paths = self.scores([x]).kbest(k)
        pairs = zip(paths.tags[0], paths.scores[0], strict=True)
        return [ScoredLabels(self._decoded(ids), float(score)) for ids, score in pairs]

    def marginals(self, x: Any) -> FloatArray:
        """``(T, L)``: the probability of each label at each place of a sentence."""
        return self.scores([x]).marginals().tokens

    def predict(self, X: Sequence[Any]) -> list[list[Any]]:
        """The best labels of each sentence."""
        scores = self.scores(X)
        return [self._decoded(ids) for ids in split(scores.viterbi().tags, scores.lengths)]

    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Sequence[Hashable]],
        *,
        c1: float = 0.0,
        c2: float = 1.0,
        max_iterations: int | None = 200,
        progress: Progress | None = None,
    ) -> Self:
        """Learn the weights: minimise ``sum -log P(y | x) + c1 |w| + c2 |w|^2``, by OWL-QN where c1 > 0, else L-BFGS.

        Weights that are there already are where it begins; c1 and c2 are those of `trellis.CRF`. Without a limit
        (`max_iterations` None) it ends where the loss does. `history_` tells how it went.
        """
        for name, value in (("c1", c1), ("c2", c2)):
            if not isinstance(value, int | float | np.integer | np.floating) or not 0 <= value < math.inf:
                raise ModelError(f"{name} must be a finite number >= 0, got {shown(value)}")
        if max_iterations is not None:
            whole = isinstance(max_iterations, int | np.integer) and not isinstance(max_iterations, bool)
            if not whole or max_iterations < 1:
                raise ModelError(
                    f"max_iterations must be an integer >= 1, or None for no limit, got {shown(max_iterations)}"
                )
        values = self._evaluated(X)
        if len(values.lengths) == 0:
            raise ModelError("there is nothing to learn from: X has no sentence")
        objective = _Likelihood(self, values, self._encoded(X, y), c2)
        start = self.weights_.copy() if hasattr(self, "weights_") else np.zeros(objective.size)
        iterates = owlqn(objective, start, c1=c1) if c1 else lbfgs(objective, start)
        trained = run(iterates, start, max_iterations=max_iterations, progress=progress)
        self.weights_, self.history_ = trained.weights.copy(), trained.history
        return self

    weights_: FloatArray
    history_: History

    def _evaluated(self, X: Sequence[Any]) -> FunctionValues:
        if isinstance(X, str | Mapping | Set) or not isinstance(X, Sized):
            raise ModelError(f"X must be a list of sentences, got {'one string' if isinstance(X, str) else shown(X)}")
        return evaluate(X, self.labels, self.states, self.transitions)

    def _chain(self, values: FunctionValues, weights: FloatArray) -> chain.ChainScores:
        L, K = len(self.labels), len(self.transitions)
        emissions = values.states.scores(weights[K:]).reshape(-1, L)
        edges = values.transitions.scores(weights[:K]).reshape(-1, L, L)
        return chain.ChainScores(emissions, values.lengths, np.zeros((L, L)), edges=edges)

    def _encoded(self, X: Sequence[Any], y: Sequence[Sequence[Hashable]]) -> IntArray:
        if not isinstance(y, Sized):
            raise ModelError(f"y must be a list of labels for each sentence, got {shown(y)}")
        if len(X) != len(y):
            raise ModelError(f"there are {number_of(len(X), 'sentence')}, but labels for {len(y)}")
        ids = []
        for n, (x, labels) in enumerate(zip(X, y, strict=True)):
            if not isinstance(labels, Sized):
                raise ModelError(f"sentence {n}: expected a list of labels, one per place, got {shown(labels)}")
            if len(x) != len(labels):
                raise ModelError(f"sentence {n} has {len(x)} places, but {len(labels)} labels")
            for label in labels:
                if not isinstance(label, Hashable) or label not in self._ids:
                    known = shown(list(self.labels))
                    raise ModelError(f"sentence {n}: unknown label {shown(label)}, expected one of {known}")
                ids.append(self._ids[label])
        return np.array(ids, dtype=np.int64)

    def _decoded(self, ids: IntArray) -> list[Any]:
        return [self.labels[number] for number in ids.tolist()]


def _functions(name: str, functions: Any) -> tuple[Any, ...]:
    if not isinstance(functions, Iterable):
        raise ModelError(f"{name} must be a list of feature functions, got {shown(functions)}")
    checked = tuple(functions)
    for function in checked:
        if not callable(function):
            raise ModelError(f"a feature function must be callable, got {shown(function)}")
    return checked


class _Likelihood:
    """The penalised negative log-likelihood; its gradient is what is expected of each function less what is seen."""

    def __init__(self, model: FeatureFunctions, functions: FunctionValues, gold: IntArray, c2: float) -> None:
        self._model, self._functions, self._gold, self._c2 = model, functions, gold, c2

    @property
    def size(self) -> int:
        return len(self._model.names)

    def evaluate(self, weights: FloatArray, gradient: FloatArray) -> float:
        functions, gold = self._functions, self._gold
        scores = self._model._chain(functions, weights)
        expected = scores.marginals(pairwise=True)
        assert expected.pairwise is not None
        tokens, pairs = expected.tokens, expected.pairwise
        loss = float((expected.log_partition - scores.score(gold)).sum())
        tokens[np.arange(len(gold)), gold] -= 1.0
        later = later_tokens(functions.lengths)
        pairs[np.arange(len(later)), gold[later - 1], gold[later]] -= 1.0
        K = len(self._model.transitions)
        gradient[:K] = functions.transitions.totals(pairs.ravel(), K)
        gradient[K:] = functions.states.totals(tokens.ravel(), len(weights) - K)
        gradient += 2.0 * self._c2 * weights
        return loss + self._c2 * float(weights @ weights)


StateFunction = Callable[[Any, Any, int], float]
"""``s(current, x, i)``"""
TransitionFunction = Callable[[Any, Any, Any, int], float]
"""``t(previous, current, x, i)``, asked for i = 1, 2, ..."""

_LONGEST = 500


@dataclass(frozen=True, slots=True)
class SparseTable:
    """Feature functions as entries that are not zero: `functions[e]` is `values[e]` in cell `cells[e]`."""

    cells: IntArray
    functions: IntArray
    values: FloatArray
    size: int
    """The number of cells."""

    def scores(self, weights: FloatArray) -> FloatArray:
        """sum_k weights[k] f_k, for each cell."""
        sums = np.bincount(self.cells, self.values * weights[self.functions], self.size)
        return sums.astype(np.float64, copy=False)

    def totals(self, amounts: FloatArray, count: int) -> FloatArray:
        """sum_c amounts[c] f_k(c), for each of `count` functions."""
        sums = np.bincount(self.functions, self.values * amounts[self.cells], count)
        return sums.astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True)
class FunctionValues:
    """All functions at all places of some sentences: of states in ``(N, L)`` cells, of transitions in ``(P, L, L)``."""

    lengths: IntArray
    states: SparseTable
    transitions: SparseTable


def evaluate(
    sentences: Sequence[Any],
    labels: Sequence[Hashable],
    states: Sequence[StateFunction],
    transitions: Sequence[TransitionFunction],
) -> FunctionValues:
    """Ask each function about each label, or pair of labels, of each place of each sentence."""
    lengths = np.zeros(len(sentences), dtype=np.int64)
    for n, x in enumerate(sentences):
        try:
            lengths[n] = len(x)
        except TypeError:
            raise ModelError(f"sentence {n} must have a length, one place per label; got {type(x).__name__}") from None
    positions = [(n, i) for n, T in enumerate(lengths) for i in range(T)]
    state_table = _table(sentences, positions, list(product(labels)), states)
    steps = [(n, i) for n, i in positions if i > 0]
    step_table = _table(sentences, steps, list(product(labels, repeat=2)), transitions)
    for n, (x, T) in enumerate(zip(sentences, lengths, strict=True)):
        if len(x) != T:
            raise ModelError(f"a feature function changed sentence {n}: it had {T} places, and now has {len(x)}")
    return FunctionValues(lengths, state_table, step_table)


def name_of(function: Any) -> str:
    """The name of a function in messages and tables."""
    return getattr(function, "__name__", None) or shown(function)


def _table(
    sentences: Sequence[Any],
    positions: list[tuple[int, int]],
    labels: list[tuple[Hashable, ...]],
    functions: Sequence[Any],
) -> SparseTable:
    """The values of functions for each label, or pair of labels, at each position (sentence, place)."""
    L = len(labels)
    entries = [
        (row * L + column, k, value)
        for row, (n, i) in enumerate(positions)
        for column, pair in enumerate(labels)
        for k, function in enumerate(functions)
        if (value := _value(function, pair, sentences[n], n, i)) != 0.0
    ]
    cells, indices, values = zip(*entries, strict=True) if entries else ((), (), ())
    return SparseTable(
        np.array(cells, dtype=np.int64),
        np.array(indices, dtype=np.int64),
        np.array(values, dtype=np.float64),
        len(positions) * L,
    )


def _value(function: Any, labels: tuple[Hashable, ...], x: Any, n: int, i: int) -> float:
    """The value of a function, which must be a finite number."""

    def refusal(problem: str) -> ModelError:
        call = f"{name_of(function)}({', '.join(map(shown, labels))}, x, {i})"
        return ModelError(f"the feature function {call} of sentence {n} {problem}")

    try:
        value = function(*labels, x, i)
    except Exception as error:
        try:
            message = f"{type(error).__name__}: {str(error)[:_LONGEST]}"
        except Exception:  # an exception of the caller's own may fail to say it
            message = type(error).__name__
        raise refusal(f"raised {message}") from error
    try:
        number = float(value) if isinstance(value, np.bool_ | numbers.Real) else math.nan
    except OverflowError:
        number = math.inf
    if math.isfinite(number):
        return number
    raise refusal(f"must be a finite number, got {shown(value)}")
