"""The inverse Hessian as L-BFGS knows it: from the last few steps s and changes of the gradient y.

H v by the two-loop recursion (Nocedal 1980). All vectors it meets are sums of the s, the y and v, so the
recursion runs on their coefficients, and needs only the dot products between them: each long vector is read
twice a multiplication, whatever the memory.
"""

from __future__ import annotations

import numpy as np

from trellis import _native
from trellis.training.objective import Vector


def dot(a: Vector, b: Vector) -> float:
    """Dot product, the same with any number of threads."""
    return float(_native.dot_products([a], [b])[0])


def norm(a: Vector) -> float:
    """Euclidean length."""
    return float(np.sqrt(dot(a, a)))


def combine(vectors: list[Vector], factors: list[float], out: Vector) -> Vector:
    """Sum of factors times vectors, into `out`, which may be one of them."""
    _native.combine(vectors, factors, out)
    return out


class InverseHessian:
    """Approximation from at most `memory` pairs (s, y)."""

    def __init__(self, size: int, memory: int) -> None:
        self._size, self._memory = size, memory
        self._pairs: list[tuple[Vector, Vector]] = []
        self._products = np.zeros((0, 0))  # [2k, 2k] between s_0.. s_k-1, y_0.. y_k-1

    def update(self, x: Vector, x_before: Vector, g: Vector, g_before: Vector) -> None:
        """Learn from a step; one without positive curvature teaches nothing."""
        oldest = self._pairs.pop(0) if len(self._pairs) == self._memory else None
        s, y = oldest or (np.empty(self._size), np.empty(self._size))
        if oldest is not None:
            k = self._memory
            kept = [i for i in range(2 * k) if i not in (0, k)]
            self._products = self._products[np.ix_(kept, kept)]
        combine([x, x_before], [1.0, -1.0], s)
        combine([g, g_before], [1.0, -1.0], y)
        self._append(s, y)

    def _append(self, s: Vector, y: Vector) -> None:
        before = self._vectors()
        k = len(self._pairs)
        fresh = _native.dot_products([s, y], [*before, s, y]).reshape(2, 2 * k + 2)
        if not fresh[0, 2 * k + 1] > 0:
            return
        products = np.empty((2 * k + 2, 2 * k + 2))
        old = [*range(k), *range(k + 1, 2 * k + 1)]
        products[np.ix_(old, old)] = self._products
        where = [*old, k, 2 * k + 1]
        products[k, where] = products[where, k] = fresh[0]
        products[2 * k + 1, where] = products[where, 2 * k + 1] = fresh[1]
        self._products = products
        self._pairs.append((s, y))

    def _vectors(self) -> list[Vector]:
        return [s for s, _ in self._pairs] + [y for _, y in self._pairs]

    def descent(self, v: Vector, out: Vector) -> Vector:
        """``-H v``, into `out`."""
        k = len(self._pairs)
        if k == 0:
            return combine([v], [-1.0], out)
        vectors = [*self._vectors(), v]
        table = np.zeros((2 * k, 2 * k + 1))
        table[:, : 2 * k] = self._products
        table[:, 2 * k] = _native.dot_products([v], vectors[:-1])
        return combine(vectors, _two_loops(table, k).tolist(), out)


def _two_loops(products: Vector, k: int) -> Vector:
    """Coefficients of ``-H v`` over s_0.. s_k-1, y_0.. y_k-1, v."""
    coefficients = np.zeros(2 * k + 1)
    coefficients[2 * k] = -1.0
    alphas = np.zeros(k)
    for i in reversed(range(k)):
        alphas[i] = products[i] @ coefficients / products[i, k + i]
        coefficients[k + i] -= alphas[i]
    coefficients *= products[k - 1, 2 * k - 1] / products[2 * k - 1, 2 * k - 1]
    for i in range(k):
        coefficients[i] += alphas[i] - products[k + i] @ coefficients / products[i, k + i]
    return coefficients
