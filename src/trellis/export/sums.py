"""Marginals and the log partition as a graph, over the steps of `trellis.export.alignment`.

    alpha[t, j]  = p[t, j] * sum_i alpha[t-1, i] * M[i, j]             alpha before all = 1 at S
    beta[t-1, i] = sum_j M[i, j] * p[t, j] * beta[t, j]                beta of the last token = exp(end)
    P(y_t = j)   = (sum_i alpha[t-1, i] * M[i, j]) * (p[t, j] * beta[t, j]) / sum of these over j

with M = exp(A) and p = exp(e - max e), in double precision, each divided by its sum at each step: products of small
matrices. That is exact as long as no number underflows that may matter later. If after D steps a chain can be in the
same states wherever it began (`mixing_steps`), and if scores of one step differ by at most W, then a number that the
chain itself does not make zero is at least exp(-(D + 1) * (W + log(S + 1))). The graph compares its input with the W
that follows from that. If it is exceeded, and where there is no such D, the same sums are computed in log space, where
nothing underflows, with S * S exponentials per token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trellis.arrays import AnyArray, FloatArray
from trellis.export.alignment import Alignment
from trellis.export.graph import DOUBLE, FLOAT, Graph

RANGE = 690.0
"""The logarithm of what two numbers of double precision may lose before their product underflows."""
SINGLE = 80.0
"""The same for the exponential of one emission, which is computed in single precision."""


@dataclass(frozen=True, eq=False)
class ChainWithStart:
    """Transitions ``(S + 1, S + 1)``, whose last state is the one before the first token, and end ``(S + 1,)``."""

    table: FloatArray
    end: FloatArray

    def widest(self) -> float:
        """How much the emissions of a token may differ for scaled sums to be exact; minus infinity if never."""
        steps = mixing_steps(self.table[:-1, :-1])
        if steps is None:
            return -np.inf
        scores = np.concatenate([self.table.ravel(), self.end])
        spread = np.ptp(scores[np.isfinite(scores)])
        return float(min(SINGLE, RANGE / (2 * (steps + 1)) - np.log(len(self.end)) - spread))


def mixing_steps(transitions: FloatArray) -> int | None:
    """The fewest steps after which all states can be in the same states; None if more than 8."""
    allowed = np.isfinite(transitions)
    reached = allowed
    for steps in range(1, 9):
        if reached[0].any() and (reached == reached[0]).all():
            return steps
        reached = (reached.astype(np.float32) @ allowed.astype(np.float32)) > 0
    return None


def marginals_and_partition(
    graph: Graph, chain: ChainWithStart, places: Alignment, emissions: str, mask: str
) -> tuple[str, str]:
    """The probability of each state ``(T, B, S)``, float32, and the log partition ``(B,)``, double."""
    widest = chain.widest()
    if widest <= 0:
        return _in_log_space(graph, chain, places)
    fine = _all_within(graph, emissions, mask, widest)
    branches = {
        name: _branch(prefix, find, chain, places)
        for name, prefix, find in (("then_branch", "scaled_", _scaled), ("else_branch", "log_", _in_log_space))
    }
    marginals, partition = graph.add("If", fine, outputs=2, **branches)
    return str(marginals), str(partition)


def _all_within(graph: Graph, emissions: str, mask: str, width: float) -> str:
    """Whether at each token the largest less the smallest score is at most this; not so if one is no number."""
    largest, smallest = (graph.reduce(kind, emissions, 2, keep=False) for kind in ("ReduceMax", "ReduceMin"))
    narrow = graph.add("LessOrEqual", graph.add("Sub", largest, smallest), graph.constant(width))
    wide = graph.add("And", mask, graph.add("Not", narrow))
    count = graph.add("ReduceSum", graph.add("Cast", wide, to=FLOAT), keepdims=0)
    return str(graph.add("Equal", count, graph.constant(0.0)))


Finder = Callable[[Graph, ChainWithStart, Alignment], tuple[str, str]]


def _branch(prefix: str, find: Finder, chain: ChainWithStart, places: Alignment) -> object:
    own = Graph(prefix)
    marginals, partition = find(own, chain, places)
    own.result(marginals, "float32", [None, None, len(chain.end) - 1])
    own.result(partition, "float64", [None])
    return own.body(prefix)


def _scaled(graph: Graph, chain: ChainWithStart, places: Alignment) -> tuple[str, str]:
    shift, last = np.max(chain.table[:, :-1]), np.max(chain.end)
    table = np.exp(chain.table - shift)
    table[-1, -1] = 1  # where there is no token, nothing is taken out
    largest = graph.reduce("ReduceMax", places.emissions, 1)  # (T, 1, B); 0 where there is no token
    p = graph.add("Cast", graph.add("Exp", graph.add("Sub", places.emissions, largest)), to=DOUBLE)
    begin, end = np.append(np.zeros(len(chain.end) - 1), 1.0), np.exp(chain.end - last)
    before, arriving, leaving, sums = _both_ways(graph, places, p, begin, end, _scaled_step(graph, table), kept=3)
    joint = graph.add("Mul", arriving, leaving)
    marginals = graph.add("Div", joint, graph.reduce("ReduceSum", joint, 1))
    taken_out = graph.add("Add", graph.add("Log", sums), graph.add("Cast", largest, to=DOUBLE))
    total = graph.add(
        "Add", graph.add("ReduceSum", taken_out, graph.constant([0, 1]), keepdims=0), graph.add("Log", before)
    )
    of_tokens = graph.add("Mul", places.lengths, graph.constant(np.float64(shift)))
    partition = graph.add("Add", graph.add("Add", total, of_tokens), graph.constant(np.float64(last)))
    return _of_states(graph, marginals, chain), partition


def _scaled_step(graph: Graph, table: FloatArray) -> object:
    into, out_of, shape = graph.constant(table.T), graph.constant(table), [len(table), None]
    own = Graph(f"{graph.prefix}step_")
    alpha, beta, ahead, back = (own.input(name, "float64", shape) for name in ("alpha", "beta", "ahead", "back"))
    arriving, leaving = own.add("MatMul", into, alpha), own.add("Mul", back, beta)
    after, before = own.add("Mul", arriving, ahead), own.add("MatMul", out_of, leaving)
    total = own.reduce("ReduceSum", before, 0)
    own.result(own.add("Div", after, own.reduce("ReduceSum", after, 0)), "float64", shape)
    own.result(own.add("Div", before, total), "float64", shape)
    own.result(arriving, "float64", shape)
    own.result(leaving, "float64", shape)
    own.result(total, "float64", [1, None])
    return own.body("scaled")


def _in_log_space(graph: Graph, chain: ChainWithStart, places: Alignment) -> tuple[str, str]:
    begin, step = np.append(np.full(len(chain.end) - 1, -np.inf), 0.0), _log_step(graph, chain.table)
    before, arriving, leaving = _both_ways(graph, places, places.exact(graph), begin, chain.end, step, kept=2)
    marginals = graph.add("Softmax", graph.add("Add", arriving, leaving), axis=1)
    return _of_states(graph, marginals, chain), before


def _log_step(graph: Graph, table: FloatArray) -> object:
    into, out_of = (graph.constant(rows[:, :, None].copy()) for rows in (table.T, table))
    own, shape = Graph(f"{graph.prefix}step_"), [len(table), None]
    alpha, beta, ahead, back = (own.input(name, "float64", shape) for name in ("alpha", "beta", "ahead", "back"))
    arriving, leaving = _log_sum_exp(own, own.add("Add", alpha, into)), own.add("Add", back, beta)
    after, before = own.add("Add", arriving, ahead), _log_sum_exp(own, own.add("Add", leaving, out_of))
    for value in (after, before, arriving, leaving):
        own.result(value, "float64", shape)
    return own.body("log")


def _log_sum_exp(graph: Graph, values: str) -> str:
    """Over the middle of three axes, which is removed; minus infinity if all are."""
    least = graph.constant(np.finfo(np.float64).min)  # minus infinity could not be subtracted
    largest = graph.add("Max", graph.reduce("ReduceMax", values, 1), least)
    less = graph.add("Cast", graph.add("Sub", values, largest), to=FLOAT)  # single precision has the quick exponentials
    total = graph.reduce("ReduceSum", graph.add("Exp", less), 1, keep=False)
    taken_out = graph.add("Squeeze", largest, graph.constant([1]))
    return str(graph.add("Add", graph.add("Log", graph.add("Cast", total, to=DOUBLE)), taken_out))


def _both_ways(
    graph: Graph, places: Alignment, given: str, begin: AnyArray, end: AnyArray, body: object, *, kept: int
) -> list[str]:
    """Beta of the state before all ``(B,)``, then what the steps keep: what arrives at a state, what leaves it, ..."""
    first = [places.for_each(graph, begin), places.for_each(graph, end)]
    directions = {"scan_input_directions": [0, 1], "scan_output_directions": [0, 1, 1][:kept]}
    found = graph.add("Scan", *first, given, given, outputs=2 + kept, body=body, num_scan_inputs=2, **directions)
    return [graph.add("Gather", found[1], graph.constant(np.int64(len(end) - 1)), axis=0), *found[2:]]


def _of_states(graph: Graph, marginals: str, chain: ChainWithStart) -> str:
    """Of all states but the one before the first token, ``(T, B, S)``."""
    ends = [graph.constant([n]) for n in (0, len(chain.end) - 1, 1)]
    return str(
        graph.add("Transpose", graph.add("Cast", graph.add("Slice", marginals, *ends), to=FLOAT), perm=[0, 2, 1])
    )
