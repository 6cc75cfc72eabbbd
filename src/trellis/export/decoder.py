"""The decoder as a graph: emissions and a mask in; best labels, marginals and the path's probability out.

Two Scans over time, in log space, so that long inputs and forbidden transitions (minus infinity) are exact. Places
without a token leave everything as it is, so any mask is fine. Backward, for sums and for the best path:

    beta[t-1, i] = log sum_j exp(A[i, j] + e[t, j] + beta[t, j])       beta of the last token = end
    best[t-1, i] = max_j (A[i, j] + e[t, j] + best[t, j])

Forward, where row S of A holds the start scores and alpha begins with everything on that row:

    alpha[t, j]  = e[t, j] + log sum_i exp(alpha[t-1, i] + A[i, j])
    P(y_t = j)   = softmax_j(alpha[t, j] + beta[t, j])
    y[t]         = argmax_j (A[y[t-1], j] + e[t, j] + best[t, j])
    log P(y)    += (A[y[t-1], .] + e[t] + beta[t]) at y[t], minus its log sum exp

alpha, beta and best are kept near zero by taking their largest value out at each step, which changes none of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.arrays import AnyArray, FloatArray, IntArray
from trellis.export.graph import Graph


@dataclass(frozen=True, eq=False)
class Decoder:
    """The chain of a model: transitions ``(S, S)``, start and end ``(S,)``, and the label of each state."""

    transitions: FloatArray
    start: FloatArray
    end: FloatArray
    state_labels: IntArray | None
    num_labels: int

    @property
    def num_states(self) -> int:
        """S."""
        return len(self.start)

    def add_to(self, graph: Graph, emissions: str, mask: str) -> None:
        """Emissions ``(B, T, S)`` and mask ``(B, T)`` to the outputs labels, marginals and probability."""
        beta, best = self._backward(graph, emissions, mask)
        log_probability, states, marginals = self._forward(graph, emissions, mask, beta, best)
        labels, by_label = self._by_label(graph, states, marginals)
        # -1 and 0 where there is no token
        labels = graph.add("Where", mask, labels, graph.constant(np.int64(-1)))
        by_label = graph.add("Where", graph.at(mask, 2), by_label, graph.constant(0.0))
        graph.output(labels, "labels", "int64", ["batch", "length"])
        graph.output(by_label, "marginals", "float32", ["batch", "length", self.num_labels])
        graph.output(graph.add("Exp", log_probability), "probability", "float32", ["batch"])

    def _backward(self, graph: Graph, emissions: str, mask: str) -> tuple[str, str]:
        """Beta and best, ``(B, T, S)``."""
        table = graph.constant(_single(self.transitions)[None])  # (1, S, S)
        first = _for_each(graph, emissions, _single(self.end))
        own, S = Graph("back_"), self.num_states
        beta, best = own.input("beta", "float32", [None, S]), own.input("best", "float32", [None, S])
        e, m = own.input("e", "float32", [None, S]), own.at(own.input("m", "bool", [None]), 1)
        for name, then, reduced in (("beta", beta, _log_sum_exp), ("best", best, _largest)):
            step = own.add("Add", own.at(own.add("Add", e, then), 1), table)  # (B, S, S)
            before = _near_zero(own, reduced(own, step, 2))
            own.output(own.add("Where", m, before, then), f"{name}_before", "float32", [None, S])
        own.output(beta, "beta_here", "float32", [None, S])
        own.output(best, "best_here", "float32", [None, S])
        along = {name: [1, 1] for name in ("scan_input_axes", "scan_output_axes")}  # time
        reverse = {name: [1, 1] for name in ("scan_input_directions", "scan_output_directions")}
        body, given = own.body("backward"), (first, first, emissions, mask)
        found = graph.add("Scan", *given, outputs=4, body=body, num_scan_inputs=2, **along, **reverse)
        return found[2], found[3]

    def _forward(self, graph: Graph, emissions: str, mask: str, beta: str, best: str) -> tuple[str, str, str]:
        """The log probability of the best path (B,), its states ``(B, T)``, and marginals ``(B, T, S)``."""
        S = self.num_states
        rows = np.concatenate([_single(self.transitions), _single(self.start)[None]])  # (S + 1, S)
        by_row, by_target = graph.constant(rows), graph.constant(rows.T[None].copy())
        begun = np.append(np.full(S, -np.inf, dtype=np.float32), np.float32(0))
        alpha = _for_each(graph, emissions, begun)
        state, nothing = _filled(graph, emissions, np.int64(S)), _filled(graph, emissions, np.float32(0))
        body, given = self._step(by_row, by_target), (alpha, state, nothing, emissions, mask, beta, best)
        along = {"scan_input_axes": [1] * 4, "scan_output_axes": [1] * 2}  # time
        found = graph.add("Scan", *given, outputs=5, body=body, num_scan_inputs=4, **along)
        return found[2], found[3], found[4]

    def _step(self, by_row: str, by_target: str) -> object:
        own, S = Graph("ahead_"), self.num_states
        alpha, state = own.input("alpha", "float32", [None, S + 1]), own.input("state", "int64", [None])
        total = own.input("total", "float32", [None])
        e, m = own.input("e", "float32", [None, S]), own.input("m", "bool", [None])
        beta, best = own.input("beta", "float32", [None, S]), own.input("best", "float32", [None, S])
        m_row = own.at(m, 1)
        into = _log_sum_exp(own, own.add("Add", own.at(alpha, 1), by_target), 2)  # (B, S)
        here = _near_zero(own, own.add("Add", into, e))
        nowhere = own.add("Expand", own.constant(np.full((1, 1), -np.inf, dtype=np.float32)), own.add("Shape", m_row))
        after = own.add("Where", m_row, own.add("Concat", here, nowhere, axis=1), alpha)
        row = own.add("Add", own.add("Gather", by_row, state, axis=0), e)  # (B, S)
        chosen = own.add("ArgMax", own.add("Add", row, best), axis=1, keepdims=0)
        scores = own.add("Add", row, beta)
        picked = own.add("GatherElements", scores, own.at(chosen, 1), axis=1)
        gain = own.add("Squeeze", own.add("Sub", picked, own.at(_log_sum_exp(own, scores, 1), 1)), own.constant([1]))
        own.output(after, "alpha_after", "float32", [None, S + 1])
        own.output(own.add("Where", m, chosen, state), "state_after", "int64", [None])
        own.output(own.add("Where", m, own.add("Add", total, gain), total), "total_after", "float32", [None])
        own.output(chosen, "chosen", "int64", [None])
        own.output(own.add("Softmax", own.add("Add", here, beta), axis=1), "marginals", "float32", [None, S])
        return own.body("forward")

    def _by_label(self, graph: Graph, states: str, marginals: str) -> tuple[str, str]:
        """Labels, and marginals of labels: the sum over the states of each."""
        if self.state_labels is None:
            return states, marginals
        member = (self.state_labels[:, None] == np.arange(self.num_labels)).astype(np.float32)
        labels = graph.add("Gather", graph.constant(self.state_labels.astype(np.int64)), states, axis=0)
        return labels, graph.add("MatMul", marginals, graph.constant(member))


def _single(values: AnyArray) -> AnyArray:
    return np.asarray(values, dtype=np.float32)


def _for_each(graph: Graph, emissions: str, row: AnyArray) -> str:
    """The row for each sequence, ``(B, len(row))``."""
    shape = graph.add("Concat", _batch(graph, emissions), graph.constant([len(row)]), axis=0)
    return str(graph.add("Expand", graph.constant(row[None]), shape))


def _filled(graph: Graph, emissions: str, value: np.int64 | np.float32) -> str:
    """The value for each sequence, ``(B,)``."""
    return str(graph.add("Expand", graph.constant(np.asarray([value])), _batch(graph, emissions)))


def _batch(graph: Graph, emissions: str) -> str:
    return str(graph.add("Shape", emissions, start=0, end=1))


def _log_sum_exp(graph: Graph, values: str, axis: int) -> str:
    """Over one axis, which is removed; minus infinity if all are."""
    largest = _finite(graph, graph.reduce("ReduceMax", values, axis))
    total = graph.reduce("ReduceSum", graph.add("Exp", graph.add("Sub", values, largest)), axis, keep=False)
    return str(graph.add("Add", graph.add("Log", total), graph.add("Squeeze", largest, graph.constant([axis]))))


def _largest(graph: Graph, values: str, axis: int) -> str:
    return graph.reduce("ReduceMax", values, axis, keep=False)


def _near_zero(graph: Graph, values: str) -> str:
    """Less the largest of each row."""
    return str(graph.add("Sub", values, _finite(graph, graph.reduce("ReduceMax", values, 1))))


def _finite(graph: Graph, values: str) -> str:
    """0 in place of infinities, which could not be subtracted."""
    return str(graph.add("Where", graph.add("IsInf", values), graph.constant(0.0), values))
