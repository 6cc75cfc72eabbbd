"""The inverse Hessian as L-BFGS approximates it: from the last few steps s and changes of the gradient y.

H v by the two-loop recursion (Nocedal 1980). All vectors in it are sums of the s, the y and v, so the
recursion runs on their coefficients, and needs only the dot products between them. Learning a step makes s and y and
all new products in one pass over the long vectors; the multiplication is a second one, for any memory. The
s and y are kept in single precision: H is then exact for slightly different steps, which is just as good.
"""

from __future__ import annotations

import numpy as np

from trellis import _native
from trellis.arrays import Arrays, Float32Array
from trellis.training.objective import Vector

Step = Float32Array


def dot(a: Vector, b: Vector) -> float:
    """Dot product, the same with any number of threads."""
    return _native.dot(a, b)


def norm(a: Vector) -> float:
    """Euclidean length."""
    return float(np.sqrt(dot(a, a)))


def combine(vectors: list[Vector], factors: list[float], out: Vector) -> Vector:
    """Sum of factors times vectors, into `out`, which may be one of them."""
    _native.combine(vectors, factors, out)
    return out


def add_decay(weights: Vector, factor: float, gradient: Vector) -> float:
    """Add ``factor * weights`` to the gradient; returns ``weights . weights``."""
    return _native.add_decay(weights, factor, gradient)


class InverseHessian:
    """Approximation from at most `memory` pairs (s, y), and its product with one vector v, given ahead."""

    def __init__(self, v: Vector, memory: int) -> None:
        self._memory, self._v = memory, v
        self._pairs: list[tuple[Step, Step]] = []
        self._products = np.array([[dot(v, v)]])  # [2k + 1, 2k + 1] between s_0.. s_k-1, y_0.. y_k-1, v

    def arrays(self) -> Arrays:
        """All that it knows, apart from v; it changes with the next `update`."""
        named = {
            f"{name}{i}": vector for i, pair in enumerate(self._pairs) for name, vector in zip("sy", pair, strict=True)
        }
        return {"products": self._products, **named}

    def recall(self, arrays: Arrays) -> None:
        """Know again what `arrays` returned, when v was the same."""
        self._products = arrays["products"]
        pairs = len(self._products) // 2
        self._pairs = [(arrays[f"s{i}"], arrays[f"y{i}"]) for i in range(pairs)]

    def update(self, x: Vector, x_before: Vector, g: Vector, g_before: Vector, v: Vector) -> None:
        """Learn from a step; one without positive curvature is ignored. `v` is the next vector to multiply."""
        s, y = self._room(len(v))
        k = len(self._pairs)
        old, new = [*range(k), *range(k + 1, 2 * k + 1)], [k, 2 * k + 1, 2 * k + 2]
        fresh = _native.learn_step(x, x_before, g, g_before, v, self._vectors(), s, y).reshape(3, 2 * k + 3)
        products = np.empty((2 * k + 3, 2 * k + 3))
        products[np.ix_(old, old)] = self._products[: 2 * k, : 2 * k]
        products[np.ix_(new, [*old, *new])] = fresh
        products[np.ix_([*old, *new], new)] = fresh.T
        if 0 < fresh[0, 2 * k + 1] < np.inf:
            self._pairs.append((s, y))
        else:
            kept = [*old, 2 * k + 2]
            products = products[np.ix_(kept, kept)]
        self._products, self._v = products, v

    def _room(self, size: int) -> tuple[Step, Step]:
        """Arrays for a new pair: those of the oldest, which is forgotten, if the memory is full."""
        k = len(self._pairs)
        if k < self._memory:
            return np.empty(size, dtype=np.float32), np.empty(size, dtype=np.float32)
        kept = [i for i in range(2 * k) if i not in (0, k)]
        self._products = self._products[np.ix_(kept, kept)]
        return self._pairs.pop(0)

    def _vectors(self) -> list[Step]:
        return [s for s, _ in self._pairs] + [y for _, y in self._pairs]

    @property
    def length(self) -> float:
        """``|v|``."""
        return float(np.sqrt(self._products[-1, -1]))

    def descent(self, out: Vector) -> float:
        """``-H v``, into `out`; returns its product with v."""
        k = len(self._pairs)
        factors = _two_loops(self._products, k) if k else np.array([-1.0])
        _native.combine_steps(self._vectors(), factors[:-1].tolist(), self._v, float(factors[-1]), out)
        return float(self._products[-1] @ factors)


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
