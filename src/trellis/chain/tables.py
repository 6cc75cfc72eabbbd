"""The tables of forward, backward and Viterbi, to be read and to be followed by hand.

With e the emissions, A[t] the scores of transitions into position t (those of the chain plus its edges), and T tokens::

    alpha[0, j] = start[j] + e[0, j]     alpha[t, j] = log sum_i exp(alpha[t-1, i] + A[t, i, j]) + e[t, j]
    beta[T-1, i] = end[i]                beta[t, i]  = log sum_j exp(A[t+1, i, j] + e[t+1, j] + beta[t+1, j])
    delta[0, j] = start[j] + e[0, j]     delta[t, j] = max_i (delta[t-1, i] + A[t, i, j]) + e[t, j]
                                         psi[t, j]   = the i of that maximum; the smallest if there are several

    log Z = log sum_j exp(alpha[T-1, j] + end[j]) = log sum_j exp(start[j] + e[0, j] + beta[0, j])
    best  = max_j (delta[T-1, j] + end[j]), and from that j the best path follows psi back

They are computed in plain NumPy, in float64 and in log space, as the textbook writes them. Nothing that trains or tags
comes through here: that is the work of the native kernels. For example::

    >>> from trellis import chain
    >>> scores = chain.ChainScores([[2, 1], [0, 1], [1, 0]], lengths=[3], transitions=[[1, 0], [0, 2]])
    >>> print(scores.viterbi_table(labels=["N", "V"], tokens=["they", "can", "fish"]))
    Viterbi: delta, ← psi, ● best path; best score 6
    <BLANKLINE>
    | token |     N |       V |
    | :---- | ----: | ------: |
    | they  |     2 |     ● 1 |
    | can   | 3 ← N | ● 4 ← V |
    | fish  | 5 ← N | ● 6 ← V |
    | end   |     5 |     ● 6 |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.chain.problems import NO_PATH, NOT_FINITE, SUM_TOO_LARGE, OneSequence, raise_bad_chain_score, raise_problem
from trellis.errors import ShapeError, shown
from trellis.ragged import offsets_of, rows_of
from trellis.results import Grid, Report

T = TypeVar("T")
Kind = Literal["forward", "backward", "viterbi"]
Tokens = Sequence[str] | Sequence[Sequence[str]]
_TITLES = {"forward": "Forward: alpha", "backward": "Backward: beta", "viterbi": "Viterbi: delta, ← psi"}


@dataclass(frozen=True, eq=False, repr=False)
class ChainTable(Report):
    """Alpha, beta or delta of a batch, in log space; it prints as a table with the best path marked.

    Attributes:
        kind: "forward", "backward" or "viterbi".
        lengths: ``(B,)`` the tokens of each sequence.
        values: ``(N, L)`` alpha, beta or delta, one sequence after another, like the emissions of the chain.
        last: ``(B, L)`` the last step, before its labels are joined: ``alpha[T-1] + end``; ``delta[T-1] + end``, the
            scores of the last label before the way back; for beta, which ends at the first token, ``start + e[0] +
            beta[0]``. Minus infinity for an empty sequence.
        total: ``(B,)`` log Z, or with Viterbi the score of the best path; 0 for an empty sequence.
        path: ``(N,)`` the best labels, found by following psi back; -1 in a sequence without any path.
        back: ``(N, L)`` psi: the best label before each label, -1 at the first token; None unless Viterbi.
        labels: names of the labels; default: their numbers.
        tokens: ``(N,)`` the tokens; default: their positions.

    """

    kind: Kind
    lengths: IntArray
    values: FloatArray
    last: FloatArray
    total: FloatArray
    path: IntArray
    back: IntArray | None
    labels: tuple[str, ...]
    tokens: tuple[str, ...]

    def part(self, index: int) -> ChainTable:
        """The table of one sequence."""
        b, first, stop = rows_of(self.lengths, index)
        one = slice(b, b + 1)
        return ChainTable(
            self.kind,
            self.lengths[one],
            self.values[first:stop],
            self.last[one],
            self.total[one],
            self.path[first:stop],
            None if self.back is None else self.back[first:stop],
            self.labels,
            self.tokens[first:stop],
        )

    def grid(self) -> Grid:
        """Tokens down, labels across; ● marks the best path."""
        title = f"{_TITLES[self.kind]}, ● best path"
        if len(self.total) == 1:
            result = "best score" if self.kind == "viterbi" else "log Z"
            title += f"; {result} {_number(float(self.total[0]))}"
        return self.grid_of(title, self.values, self.last)

    def grid_of(self, title: str, values: FloatArray, last: FloatArray) -> Grid:
        """The grid with other numbers in place of `values` and `last`, such as their exponentials."""
        head = ("token",) if len(self.lengths) == 1 else ("sequence", "token")
        cells: list[tuple[str, ...]] = []
        best: list[int] = []

        def add(b: int, name: str, numbers: FloatArray, label: int, back: IntArray | None = None) -> None:
            row = []
            for j, number in enumerate(numbers.tolist()):
                arrow = "" if back is None or back[j] < 0 or number == -np.inf else f" ← {self.labels[back[j]]}"
                row.append(f"{'● ' if j == label else ''}{_number(number)}{arrow}")
            cells.append((*(str(b), name)[-len(head) :], *row))
            best.append(label)

        for b, (first, stop) in enumerate(pairwise(offsets_of(self.lengths).tolist())):
            if first == stop:
                continue
            if self.kind == "backward":
                add(b, "start", last[b], int(self.path[first]))
            for t in range(first, stop):
                add(b, self.tokens[t], values[t], int(self.path[t]), None if self.back is None else self.back[t])
            if self.kind != "backward":
                add(b, "end", last[b], int(self.path[stop - 1]))
        marked = frozenset((number, len(head) + label) for number, label in enumerate(best) if label >= 0)
        return Grid(title, (*head, *self.labels), tuple(cells), marked, names=len(head))

    def to_dict(self) -> dict[str, Any]:
        """All attributes, arrays as lists."""
        return {name: x.tolist() if isinstance(x, np.ndarray) else x for name, x in vars(self).items()}

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per token: its sequence, the token, and the value of each label."""
        sequences = np.repeat(np.arange(len(self.lengths)), self.lengths).tolist()
        rows = zip(sequences, self.tokens, self.values.tolist(), strict=True)
        return [{"sequence": b, "token": x} | dict(zip(self.labels, row, strict=True)) for b, x, row in rows]

    def __repr__(self) -> str:
        return str(self)


class Tabled(ABC):
    """The tables of a chain, for arrays and tensors alike."""

    __slots__ = ()

    @property
    @abstractmethod
    def num_labels(self) -> int:
        """L, the number of labels."""

    @abstractmethod
    def _sequences(self, allowed: Any) -> list[OneSequence]:
        """The scores of each sequence, restricted to the allowed labels."""

    def forward_table(
        self, *, allowed: Any = None, labels: Sequence[str] | None = None, tokens: Tokens | None = None
    ) -> ChainTable:
        """Alpha of every label at every token, and log Z, as a table that prints with the best path marked.

        Args:
            allowed: forbids every label outside it, as in all questions.
            labels: ``(L,)`` names of the labels to show.
            tokens: the tokens to show: a list for each sequence, or one list of all.

        """
        return _make_table("forward", self._sequences(allowed), self.num_labels, labels, tokens)

    def backward_table(
        self, *, allowed: Any = None, labels: Sequence[str] | None = None, tokens: Tokens | None = None
    ) -> ChainTable:
        """Beta of every label at every token; the rest is as in `forward_table`."""
        return _make_table("backward", self._sequences(allowed), self.num_labels, labels, tokens)

    def viterbi_table(
        self, *, allowed: Any = None, labels: Sequence[str] | None = None, tokens: Tokens | None = None
    ) -> ChainTable:
        """Delta and psi of every label at every token, and the best path; the rest is as in `forward_table`."""
        return _make_table("viterbi", self._sequences(allowed), self.num_labels, labels, tokens)


def _make_table(
    kind: Kind, batch: list[OneSequence], L: int, labels: Sequence[str] | None, tokens: Tokens | None
) -> ChainTable:
    """The table of a batch; a sequence without any path is an error with Viterbi only."""
    names = tuple(map(str, range(L) if labels is None else _iterable("labels", labels)))
    lengths = np.array([len(one.emissions) for one in batch], dtype=np.int64)
    solved = [_solve(kind, one) for one in batch]
    if len(names) != L:
        raise ShapeError(f"labels must be (L,) = ({L},) names, got {len(names)}")
    values, last, total, path, back = zip(*solved, strict=True) if solved else ((), (), (), (), ())
    return ChainTable(
        kind,
        lengths,
        np.concatenate([np.empty((0, L)), *values]),
        np.array(last).reshape(-1, L),
        np.array(total, dtype=np.float64),
        np.concatenate([np.empty(0, dtype=np.int64), *path]),
        np.concatenate([np.empty((0, L), dtype=np.int64), *back]) if kind == "viterbi" else None,
        names,
        _check_tokens(tokens, lengths),
    )


def _solve(kind: Kind, given: OneSequence) -> tuple[FloatArray, FloatArray, float, IntArray, IntArray]:
    """Values, last, total, path and back of `ChainTable` for one sequence, in float64.

    Its scores are checked before and its total after.
    """
    shared = (given.transitions, given.start, given.end)
    if not all((x < np.inf).all() for x in shared):
        raise_bad_chain_score(*shared)
    if not all((x < np.inf).all() for x in (given.emissions, given.edges) if x is not None):
        raise_problem(NOT_FINITE, given)
    emissions, transitions, start, end = (x.astype(np.float64) for x in (given.emissions, *shared))
    edges = None if given.edges is None else given.edges.astype(np.float64)
    one = OneSequence(given.number, emissions, transitions, start, end, edges)
    with np.errstate(over="ignore", invalid="ignore"):
        delta, back = viterbi(one)
        if len(delta) == 0:
            return delta, np.full(delta.shape[1], -np.inf), 0.0, np.empty(0, dtype=np.int64), back
        values, last = delta, delta[-1] + end
        path, total = trace_back(last, back), float(last.max())
        if kind != "viterbi":
            values = forward(one) if kind == "forward" else backward(one)
            last = values[-1] + end if kind == "forward" else start + emissions[0] + values[0]
            total = float(log_sum(last, axis=0))
    if not total < np.inf:
        raise_problem(SUM_TOO_LARGE, given)
    if kind == "viterbi" and np.isneginf(total):
        raise_problem(NO_PATH, given)
    return values, last, total, path, back


def log_sum(values: FloatArray, axis: int) -> FloatArray:
    """``log(sum(exp(values)))`` along an axis: the largest term is taken out, so that nothing overflows."""
    best = values.argmax(axis=axis, keepdims=True)
    top = np.take_along_axis(values, best, axis)
    others = np.exp(values - np.where(np.isneginf(top), 0.0, top))
    np.put_along_axis(others, best, 0.0, axis)
    result: FloatArray = (top + np.log1p(others.sum(axis=axis, keepdims=True))).squeeze(axis)
    return result


def forward(one: OneSequence) -> FloatArray:
    """``alpha[t, j]``: log of the sum over all beginnings that have label j at t."""
    rows = np.empty(one.emissions.shape)
    # alpha[t, j] = log sum_i exp(alpha[t-1, i] + A[t, i, j]) + e[t, j]
    for t, emission in enumerate(one.emissions):
        into = one.start if t == 0 else log_sum(rows[t - 1][:, None] + one.step(t), axis=0)
        rows[t] = into + emission
    return rows


def backward(one: OneSequence) -> FloatArray:
    """``beta[t, i]``: log of the sum over all ends that follow label i at t."""
    rows = np.empty(one.emissions.shape)
    rows[-1:] = one.end
    # beta[t, i] = log sum_j exp(A[t+1, i, j] + e[t+1, j] + beta[t+1, j])
    for t in range(len(rows) - 2, -1, -1):
        rows[t] = log_sum(one.step(t + 1) + one.emissions[t + 1] + rows[t + 1], axis=1)
    return rows


def viterbi(one: OneSequence) -> tuple[FloatArray, IntArray]:
    """``delta[t, j]``: score of the best beginning that has label j at t; ``psi[t, j]``: its label before j."""
    rows, back = np.empty(one.emissions.shape), np.full(one.emissions.shape, -1, dtype=np.int64)
    # psi[t, j] = argmax_i delta[t-1, i] + A[t, i, j]         delta[t, j] = the maximum + e[t, j]
    for t, emission in enumerate(one.emissions):
        if t == 0:
            rows[t] = one.start + emission
            continue
        candidates = rows[t - 1][:, None] + one.step(t)
        back[t] = candidates.argmax(axis=0)
        rows[t] = candidates.max(axis=0) + emission
    return rows, back


def trace_back(last: FloatArray, back: IntArray) -> IntArray:
    """The best path: the best last label, then psi; -1 everywhere if there is no path."""
    path = np.full(len(back), -1, dtype=np.int64)
    if len(back) == 0 or np.isneginf(last.max()):
        return path
    path[-1] = last.argmax()
    # y[t-1] = psi[t, y[t]]
    for t in range(len(back) - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


def _check_tokens(tokens: Tokens | None, lengths: IntArray) -> tuple[str, ...]:
    if tokens is None:
        return tuple(str(t) for length in lengths.tolist() for t in range(length))
    given = list(_iterable("tokens", tokens))
    if any(isinstance(one, Sequence | np.ndarray) and not isinstance(one, str) for one in given):
        sizes = [len(one) if isinstance(one, Sized) else shown(one) for one in given]
        if sizes != lengths.tolist():
            raise ShapeError(f"tokens must have the lengths {lengths.tolist()} of the sequences, got {sizes}")
        given = [token for one in given for token in one]
    if len(given) != lengths.sum():
        raise ShapeError(f"tokens must be (N,) = ({lengths.sum()},) to match emissions, got {len(given)}")
    return tuple(map(str, given))


def _iterable(name: str, values: T) -> T:
    if not isinstance(values, Iterable):
        raise ShapeError(f"{name} must be a list of strings, got {shown(values)}")
    return values


def _number(x: float) -> str:
    return f"{x:.5g}"
