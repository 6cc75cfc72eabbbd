"""From Python functions to numbers: what each function says of each label, or pair of labels, at each place."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.errors import ModelError, shown

StateFunction = Callable[[Any, Any, int], float]
"""``s(current, x, i)``"""
TransitionFunction = Callable[[Any, Any, Any, int], float]
"""``t(previous, current, x, i)``, asked for i = 1, 2, ..."""

Entry = tuple[int, int, float]
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class SparseTable:
    """What is not zero: function `functions[e]` has the value `values[e]` in cell `cells[e]` of a flat array."""

    cells: IntArray
    functions: IntArray
    values: FloatArray
    size: int
    """Cells in all."""

    def scores(self, weights: FloatArray) -> FloatArray:
        """sum_k weights[k] f_k, for each cell."""
        return _sums(self.cells, self.values * weights[self.functions], self.size)

    def totals(self, amounts: FloatArray, count: int) -> FloatArray:
        """sum_c amounts[c] f_k(c), for each of `count` functions."""
        return _sums(self.functions, self.values * amounts[self.cells], count)


def _sums(places: IntArray, amounts: FloatArray, size: int) -> FloatArray:
    return np.bincount(places, amounts, size).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """All functions at all places of some sentences: of states in ``(N, L)`` cells, of transitions in ``(P, L, L)``."""

    lengths: IntArray
    states: SparseTable
    transitions: SparseTable


def evaluate(
    sentences: Sequence[Any],
    labels: Sequence[Hashable],
    states: Sequence[StateFunction],
    transitions: Sequence[TransitionFunction],
) -> Evaluated:
    """Ask each function about each label, or pair of labels, of each place of each sentence."""
    L, lengths = len(labels), np.array([_length(x, n) for n, x in enumerate(sentences)], dtype=np.int64)
    places = [(n, i) for n, T in enumerate(lengths) for i in range(T)]
    steps = [(n, i) for n, i in places if i > 0]
    of_states = _table(_state_entries(sentences, places, labels, states), len(places) * L)
    of_steps = _table(_step_entries(sentences, steps, labels, transitions), len(steps) * L * L)
    for n, (x, T) in enumerate(zip(sentences, lengths, strict=True)):
        if len(x) != T:
            raise ModelError(f"a feature function changed sentence {n}: it had {T} places, and now has {len(x)}")
    return Evaluated(lengths, of_states, of_steps)


def name_of(function: Any) -> str:
    """What a function is called in messages and tables."""
    return getattr(function, "__name__", None) or shown(function)


def _length(sentence: Any, number: int) -> int:
    try:
        return len(sentence)
    except TypeError:
        found = type(sentence).__name__
        raise ModelError(f"sentence {number} must have a length, one place per label; got {found}") from None


def _state_entries(
    sentences: Sequence[Any], places: list[tuple[int, int]], labels: Sequence[Hashable], functions: Sequence[Any]
) -> Iterator[Entry]:
    for row, (n, i) in enumerate(places):
        for y, label in enumerate(labels):
            for k, function in enumerate(functions):
                yield row * len(labels) + y, k, _value(function, (label,), sentences[n], n, i)


def _step_entries(
    sentences: Sequence[Any], steps: list[tuple[int, int]], labels: Sequence[Hashable], functions: Sequence[Any]
) -> Iterator[Entry]:
    L = len(labels)
    for row, (n, i) in enumerate(steps):
        for cell in range(L * L):
            pair = labels[cell // L], labels[cell % L]
            for k, function in enumerate(functions):
                yield row * L * L + cell, k, _value(function, pair, sentences[n], n, i)


def _value(function: Any, labels: tuple[Hashable, ...], x: Any, n: int, i: int) -> float:
    """The value of a function, which must be a finite number."""
    try:
        value = function(*labels, x, i)
    except Exception as error:
        raise ModelError(f"{_place(function, labels, n, i)} raised {_said(error)}") from error
    found = _number(value)
    if math.isfinite(found):
        return found
    raise ModelError(f"{_place(function, labels, n, i)} must be a finite number, got {shown(value)}")


def _said(error: Exception) -> str:
    """What an exception says, short; the caller's own may be of any length, or fail to say it."""
    try:
        return f"{type(error).__name__}: {str(error)[:_LONGEST]}"
    except Exception:
        return type(error).__name__


def _number(value: Any) -> float:
    """A real number as a float, NaN if it is none; one too large for a float is infinite."""
    try:
        return float(value) if isinstance(value, np.bool_ | numbers.Real) else math.nan
    except OverflowError:
        return math.inf


def _place(function: Any, labels: tuple[Hashable, ...], n: int, i: int) -> str:
    said = ", ".join(map(shown, labels))
    return f"the feature function {name_of(function)}({said}, x, {i}) of sentence {n}"


def _table(entries: Iterator[Entry], size: int) -> SparseTable:
    kept = [entry for entry in entries if entry[2] != 0.0]
    columns = zip(*kept, strict=True) if kept else ((), (), ())
    cells, functions, values = columns
    return SparseTable(
        np.array(cells, dtype=np.int64), np.array(functions, dtype=np.int64), np.array(values, dtype=np.float64), size
    )
