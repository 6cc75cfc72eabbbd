"""Forward-backward in log space, one loop over time, in float64 NumPy: slow, plain, and right for any scores.

Used where enumeration cannot go (many labels, long sequences). It shares nothing with the code under test. Each row
is kept with its maximum at zero, so that differences between labels keep their precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reference:
    log_partition: float
    tokens: np.ndarray  # [T, L]
    pairs: np.ndarray  # [T - 1, L, L]
    best: float

    @property
    def transitions(self) -> np.ndarray:
        """Expected counts, [L, L]."""
        return np.asarray(self.pairs.sum(axis=0))


def reference(
    emissions: np.ndarray, transitions: np.ndarray, start: np.ndarray, end: np.ndarray, *edges: np.ndarray
) -> Reference:
    """Answers for one sequence of at least one token, with edges [T - 1, L, L] or without."""
    (answer,) = references([(emissions, transitions, start, end, *edges)])
    return answer


def references(cases: Sequence[Sequence[np.ndarray]]) -> list[Reference]:
    """Answers for chains of one length and one number of labels, each with its own transitions."""
    e, A, s, f, *edges = (np.stack(parts).astype(np.float64) for parts in zip(*cases, strict=True))
    e = e.transpose(1, 0, 2)  # [T, C, L]
    # [T - 1, C, L, L], or [1, C, L, L] where every step is the same
    steps = A + edges[0].transpose(1, 0, 2, 3) if edges else A[None]
    alpha, total = forward(e, steps, s, np.logaddexp)
    best, best_total = forward(e, steps, s, np.maximum)
    beta = np.empty_like(e)
    beta[-1] = f
    for t in range(len(e) - 1, 0, -1):
        row = np.logaddexp.reduce(step(steps, t) + (e[t] + beta[t])[:, None], axis=2)
        beta[t - 1] = row - finite(row.max(axis=1, keepdims=True))
    last = np.logaddexp.reduce(alpha[-1] + f, axis=1)
    tokens = probabilities(alpha + beta)
    moves = [pairs(alpha[:, c], steps[:, c], (e + beta)[:, c]) for c in range(len(cases))]
    top = (best[-1] + f).max(axis=1) + best_total
    return [Reference(float(last[c] + total[c]), tokens[:, c], moves[c], float(top[c])) for c in range(len(cases))]


def step(steps: np.ndarray, t: int) -> np.ndarray:
    """Scores of the transitions into position t, [C, L, L]."""
    return np.asarray(steps[0] if len(steps) == 1 else steps[t - 1])


def forward(e: np.ndarray, steps: np.ndarray, s: np.ndarray, add: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
    """Rows [T, C, L] with their maxima at zero, and the sum of what was taken off, [C]."""
    rows, total = np.empty_like(e), np.zeros(e.shape[1])
    for t in range(len(e)):
        row = e[t] + (add.reduce(rows[t - 1][:, :, None] + step(steps, t), axis=1) if t else s)
        top = finite(row.max(axis=1))
        rows[t] = row - top[:, None]
        total += top
    return rows, total


def pairs(alpha: np.ndarray, steps: np.ndarray, onward: np.ndarray) -> np.ndarray:
    """P(y[t-1] = i, y[t] = j), [T - 1, L, L], from alpha[T, L] and e + beta[T, L]."""
    T, L = alpha.shape
    scores = alpha[:-1, :, None] + steps + onward[1:, None, :]
    return probabilities(scores.reshape(T - 1, L * L)).reshape(T - 1, L, L)


def probabilities(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; zeros where all is forbidden."""
    odds = np.exp(x - finite(x.max(axis=-1, keepdims=True, initial=-np.inf)))
    return np.asarray(odds / np.maximum(odds.sum(axis=-1, keepdims=True), 1e-300))


def finite(x: np.ndarray) -> np.ndarray:
    return np.where(x > -np.inf, x, 0.0)
