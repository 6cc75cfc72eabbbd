"""Markov chains: the probability of a state depends on the state before it, and on nothing else.

P(s[0], ..., s[T-1]) = start[s[0]] * transitions[s[0], s[1]] * ... * transitions[s[T-2], s[T-1]]

>>> weather = MarkovChain([0.2, 0.8], [[0.3, 0.7], [0.6, 0.4]], states=("rain", "sun"))
>>> round(weather.probability(["sun", "rain", "sun", "sun"]), 6)
0.1344
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from trellis.arrays import FloatArray, IntArray
from trellis.errors import ModelError, TagError, nearest, shown
from trellis.models.hmm.probabilities import (
    Smoothing,
    akaike,
    bayesian,
    check_distribution,
    generator,
    logs,
    sample_paths,
    smoothed,
)

State = str | int
_SMOOTHINGS = ("witten_bell", "additive", "none")


@final
class MarkovChain:
    """Start and transition probabilities of named states.

    Args:
        start: ``(L,)`` probability that each state comes first.
        transitions: ``(L, L)`` probability that the state of a column follows that of a row.
        states: names, distinct: strings or integers; default: "0", "1", ..., which may be asked about as 0, 1, ... too

    """

    def __init__(
        self, start: npt.ArrayLike, transitions: npt.ArrayLike, *, states: Sequence[State] | None = None
    ) -> None:
        self.start = check_distribution("start", start, (None,))
        L = len(self.start)
        self.transitions = check_distribution("transitions", transitions, (L, L))
        self._names = tuple(map(str, range(L))) if states is None else _check_names(states)
        if len(self._names) != L:
            raise ModelError(f"states must be {L} names to match start, got {len(self._names)}")
        self._ids: dict[State, int] = {name: i for i, name in enumerate(self._names)}
        if states is None:
            self._ids |= {i: i for i in range(L)}

    @classmethod
    def fit(
        cls,
        sequences: Iterable[Sequence[State]],
        *,
        smoothing: Smoothing = "none",
        alpha: float = 1.0,
        states: Sequence[State] | None = None,
    ) -> Self:
        """The chain that sequences of states were most probably drawn from, smoothed.

        Args:
            sequences: states by name, all strings or all integers; empty ones say nothing.
            smoothing: "none" for relative frequencies, "additive" with `alpha`, or "witten_bell"; see
                `trellis.models.hmm.probabilities`. A state that is never left moves to every state equally often.
            alpha: what additive smoothing adds to every count.
            states: all states, if some may not occur; default: those that occur, in the order of their names.

        """
        if smoothing not in _SMOOTHINGS:
            raise ModelError(f"smoothing must be one of {', '.join(_SMOOTHINGS)}, got {smoothing!r}")
        if not isinstance(alpha, int | float | np.integer | np.floating) or not 0 <= alpha < np.inf:
            raise ModelError(f"alpha must be a finite number >= 0, got {shown(alpha)}")
        listed = _sequences(sequences)
        if states is None:
            occurring = set().union(*listed)
            if len({isinstance(state, str) for state in occurring}) > 1:
                raise ModelError("states must be all strings or all integers, got both")
            names: tuple[State, ...] = tuple(sorted(occurring))
        else:
            names = _check_names(states)
        if not names:
            raise ModelError("there is nothing to learn from: no state occurs")
        L, ids = len(names), {name: i for i, name in enumerate(names)}
        # how often each state comes first, each pair of states follows each other, and each state occurs
        start, transitions, occurrences = np.zeros(L), np.zeros((L, L)), np.zeros(L)
        for number, sequence in enumerate(listed):
            with _about(number):
                path = _encode(sequence, ids)
            np.add.at(start, path[:1], 1.0)
            np.add.at(transitions, (path[:-1], path[1:]), 1.0)
            np.add.at(occurrences, path, 1.0)
        legal = np.ones_like(transitions, dtype=np.bool_)
        base = occurrences / max(occurrences.sum(), 1.0)
        rows = [smoothed(counts, legal[0], smoothing, alpha, base) for counts in (start, *transitions)]
        return cls(rows[0], np.array(rows[1:]), states=names)

    @property
    def states(self) -> tuple[State, ...]:
        """The names, in the order of rows and columns."""
        return self._names

    def log_likelihood(self, sequences: Iterable[Sequence[State]]) -> FloatArray:
        """Log probability of each sequence; minus infinity if a step is impossible."""
        logs_of_sequences = []
        for number, sequence in enumerate(_sequences(sequences)):
            with _about(number):
                logs_of_sequences.append(self.log_probability(sequence))
        return np.array(logs_of_sequences, dtype=np.float64)

    def aic(self, sequences: Iterable[Sequence[State]]) -> float:
        """Akaike's information criterion of all sequences together; lower is better."""
        return akaike(float(self.log_likelihood(sequences).sum()), self._free())

    def bic(self, sequences: Iterable[Sequence[State]]) -> float:
        """The Bayesian information criterion of all sequences together, with one observation per state."""
        listed = _sequences(sequences)
        return bayesian(float(self.log_likelihood(listed).sum()), self._free(), sum(map(len, listed)))

    def _free(self) -> int:
        """How many of the numbers can be chosen freely: each distribution sums to one."""
        L = len(self.start)
        return L - 1 + L * (L - 1)

    def log_probability(self, states: Sequence[State]) -> float:
        """Log of `probability`; minus infinity if a step is impossible."""
        ids = _encode(_listed(states), self._ids)
        if len(ids) == 0:
            return 0.0
        return float(logs(self.start[ids[0]]) + logs(self.transitions[ids[:-1], ids[1:]]).sum())

    def probability(self, states: Sequence[State]) -> float:
        """Probability that a sequence of this length is exactly this one; of the empty one, 1."""
        return float(np.exp(self.log_probability(states)))

    def k_step(self, k: int) -> FloatArray:
        """``(L, L)``: probability of being in the column's state `k` steps after the row's; the k-th power."""
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
            raise ModelError(f"k must be an integer >= 0, got {shown(k)}")
        power: FloatArray = np.linalg.matrix_power(self.transitions, int(k))
        return power

    def stationary(self) -> FloatArray:
        """The distribution that a step does not change: ``p = p @ transitions``.

        A chain that falls apart into several that cannot reach each other has many: that is an error.
        """
        L = len(self.start)
        system = np.vstack([self.transitions.T - np.eye(L), np.ones((1, L))])
        solution, _, rank, _ = np.linalg.lstsq(system, np.append(np.zeros(L), 1.0), rcond=1e-10)
        if rank < L:
            raise ModelError("the stationary distribution is not unique: some states cannot reach each other")
        clean: FloatArray = np.maximum(solution, 0.0)
        result: FloatArray = clean / clean.sum()
        return result

    def sample(self, length: int, *, n: int = 1, seed: int = 0) -> list[list[State]]:
        """`n` sequences of `length` states, drawn from the chain; the same seed gives the same ones."""
        paths = sample_paths(self.start, self.transitions, length, n, generator(seed))
        return [[self._names[i] for i in path] for path in paths.tolist()]


@contextmanager
def _about(number: int) -> Iterator[None]:
    """Errors name the sequence that they are about."""
    try:
        yield
    except TagError as error:
        raise TagError(f"sequence {number}: {error}") from None


def _encode(states: list[Any], ids: dict[State, int]) -> IntArray:
    """The number of each state; one that is not known is named."""
    try:
        return np.fromiter(map(ids.__getitem__, states), dtype=np.int64, count=len(states))
    except KeyError:
        position, state = next((i, x) for i, x in enumerate(states) if x not in ids)
        near = nearest(
            shown(state)[:80] if isinstance(state, int) else state[:80], list(dict.fromkeys(map(str, ids))), always=True
        )
        hint = f"; the nearest of the {len(set(ids.values()))} states is {near!r}"
        raise TagError(f"state {shown(state)} at position {position} is not one of the chain's{hint}") from None


def _sequences(sequences: Any) -> list[list[Any]]:
    """The states of each sequence; a string is a state, and not a sequence of characters."""
    if isinstance(sequences, str) or not isinstance(sequences, Iterable):
        raise ModelError(f"expected a list of sequences of states, got {shown(sequences)}")
    listed = []
    for number, sequence in enumerate(sequences):
        if isinstance(sequence, str):
            raise ModelError(f"sequence {number} must be a list of states, got the string {shown(sequence)}")
        with _about(number):
            listed.append(_listed(sequence))
    return listed


def _listed(states: Any) -> list[Any]:
    """Strings or integers: a float is measured, and an equal one may never come again."""
    if not isinstance(states, Iterable) or (isinstance(states, np.ndarray) and states.ndim == 0):
        raise ModelError(f"a sequence of states must be a list of strings or integers, got {shown(states)}")
    if isinstance(states, np.ndarray):
        states = states.tolist()
    listed = [state.item() if isinstance(state, np.integer | np.str_) else state for state in states]
    for position, state in enumerate(listed if set(map(type, listed)) - {str, int} else ()):
        if isinstance(state, bool) or not isinstance(state, str | int):
            kind = type(state).__name__
            raise TagError(f"state {shown(state)} at position {position} must be a string or an integer, got {kind}")
    return listed


def _check_names(states: Sequence[State]) -> tuple[State, ...]:
    names = tuple(_listed(states))
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise TagError(f"state {shown(twice)} occurs twice in {shown(names)}")
    return names
