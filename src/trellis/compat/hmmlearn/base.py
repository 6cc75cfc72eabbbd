"""hmmlearn's convergence monitor: the log-likelihood of each iteration, and whether EM has converged."""

from __future__ import annotations

import sys
from collections import deque


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
        """All settings and the history, one per line."""
        values = sorted({**vars(self), "history": list(self.history)}.items())
        return f"{type(self).__name__}(\n" + "".join(f"    {name}={value},\n" for name, value in values) + ")"

    def _reset(self) -> None:
        self.iter = 0
        self.history.clear()

    def report(self, log_prob: float) -> None:
        """Record the log-likelihood that an iteration began with."""
        if self.verbose:
            delta = log_prob - self.history[-1] if self.history else float("nan")
            sys.stderr.write(self._template.format(iter=self.iter + 1, log_prob=log_prob, delta=delta) + "\n")
        self.history.append(log_prob)
        self.iter += 1

    @property
    def converged(self) -> bool:
        """Whether the last allowed iteration is done, or the last one gained less than ``tol``."""
        gained = self.history[-1] - self.history[-2] if len(self.history) >= 2 else float("inf")
        return self.iter == self.n_iter or gained < self.tol
