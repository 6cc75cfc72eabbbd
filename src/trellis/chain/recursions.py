"""Forward, backward and Viterbi of one sequence as the textbook writes them, for tables; see `trellis.chain.tables`.

Plain NumPy in float64 and in log space. Nothing that trains or tags comes through here: that is the work of the native
kernels.
"""

from __future__ import annotations

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.chain._problems import OneSequence


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
