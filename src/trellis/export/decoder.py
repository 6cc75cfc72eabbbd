"""The decoder as a graph: emissions and a mask in; best labels, marginals and the path's probability out.

All Scans go over time, over arrays (T, states, B): a batch in the last axis is what onnxruntime computes fastest.
`aligned` moves the tokens of each sequence to the end of T, in order, so that any mask is fine. What is before them is
the state S, "not begun": places without a token lead from S to S and change nothing, a first token from S to the
labels by the start scores. No step needs a mask. The best path, in double precision:

    best[t-1, i] = max_j (A[i, j] + e[t, j] + best[t, j])              best of the last token = end
    y[t]         = argmax_j (A[y[t-1], j] + e[t, j] + best[t, j])      y before all = S

The score of the best path is best[S] before all. Marginals and the log partition:

    alpha[t, j]  = p[t, j] * sum_i alpha[t-1, i] * M[i, j]             alpha before all = 1 at S
    beta[t-1, i] = sum_j M[i, j] * p[t, j] * beta[t, j]                beta of the last token = exp(end)
    P(y_t = j)   = (sum_i alpha[t-1, i] * M[i, j]) * (p[t, j] * beta[t, j]) / sum of these over j

with M = exp(A) and p = exp(e - max e), in double precision, each divided by its sum at each step: products of small
matrices. That is exact as long as no number underflows that may matter later. If after D steps a chain can be in the
same states wherever it began (`mixing_steps`), and if scores of one step differ by at most W, then a number that the
chain itself does not make zero is at least exp(-(D + 1) * (W + log(S + 1))). The graph compares its input with the W
that follows from that. If it is exceeded, and where there is no such D, the same sums are computed in log space, where
nothing underflows, with S * S exponentials per token.

onnxruntime computes all of a graph, whatever is asked of it, so a graph has only the outputs that are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from trellis.arrays import AnyArray, FloatArray, IntArray
from trellis.export.graph import DOUBLE, FLOAT, INT64, Graph


@dataclass(frozen=True)
class Alignment:
    """Emissions ``(T, S + 1, B)``: minus infinity for the state S, or for all others where there is no token."""

    emissions: str
    batch: str
    """The shape ``[B]``, 1 if there is no sequence: runtimes cannot step over nothing. T is at least 1, too."""
    sequences: str
    """The number of sequences."""
    rows: str
    """The row of each token ``(B, T)`` in arrays ``(T * B, ...)``; T * B where there is none."""
    lengths: str
    """Tokens of each sequence ``(B,)``, in double precision."""

    def exact(self, graph: Graph) -> str:
        """The emissions in double precision."""
        return graph.add("Cast", self.emissions, to=DOUBLE)

    def for_each(self, graph: Graph, column: AnyArray) -> str:
        """A column of double precision for each sequence, ``(len(column), B)``."""
        shape = graph.add("Concat", graph.constant([len(column)]), self.batch, axis=0)
        return graph.add("Expand", graph.constant(column[:, None]), shape)

    def back(self, graph: Graph, values: str, fill: np.int64 | float) -> str:
        """What there is at each place ``(T, B, ...)`` in the order of the input; this where there is no token."""
        rest = graph.add("Shape", values, start=2)
        flat = graph.add("Reshape", values, graph.add("Concat", graph.constant([-1]), rest, axis=0))
        last = graph.add("Expand", graph.constant(fill), graph.add("Concat", graph.constant([1]), rest, axis=0))
        return graph.add("Gather", graph.add("Concat", flat, last, axis=0), self.rows, axis=0)


def aligned(graph: Graph, emissions: str, mask: str, num_states: int) -> Alignment:
    """Emissions ``(B, T, S)`` and mask ``(B, T)`` in the order of the steps."""
    sizes = [graph.add("Shape", mask, start=axis, end=axis + 1) for axis in (1, 0)]
    length, batch = (graph.add("Max", size, graph.constant([1])) for size in sizes)
    shape = graph.add("Concat", length, batch, axis=0)
    counts = graph.add("Cast", mask, to=INT64)
    tokens = graph.reduce("ReduceSum", counts, 1)  # (B, 1)
    after = graph.add("Sub", tokens, graph.add("CumSum", counts, graph.constant(np.int64(1))))
    places = graph.add("Mul", length, batch)
    rows = graph.add("Where", mask, _rows(graph, after, sizes[1], batch, length), places)
    sources = _sources(graph, rows, graph.add("Mul", *sizes), places)
    columns = _with_a_row_for_no_token(graph, emissions, num_states)
    found = graph.add("Gather", columns, graph.add("Reshape", sources, shape), axis=0)  # (T, B, S + 1)
    lengths = graph.add("Cast", graph.add("Squeeze", tokens, graph.constant([1])), to=DOUBLE)
    return Alignment(graph.add("Transpose", found, perm=[0, 2, 1]), batch, sizes[1], rows, lengths)


def _rows(graph: Graph, after: str, sequences: str, batch: str, length: str) -> str:
    """The row of a token by how many come after it: the last of each sequence is at T - 1."""
    step = graph.add("Sub", graph.add("Sub", length, graph.constant([1])), after)
    return graph.add("Add", graph.add("Mul", step, batch), graph.at(_numbers(graph, sequences), 1))


def _sources(graph: Graph, rows: str, inputs: str, places: str) -> str:
    """For each row ``(T * B,)`` the place of its token in the input, or the place after all."""
    nowhere = graph.add("Expand", inputs, graph.add("Add", places, graph.constant([1])))
    target = graph.add("Reshape", rows, graph.constant([-1]))
    found = graph.add("ScatterElements", nowhere, target, _numbers(graph, inputs), axis=0)
    return graph.add("Slice", found, graph.constant([0]), places)


def _numbers(graph: Graph, count: str) -> str:
    """0 up to the only number of an array, without it."""
    end = graph.add("Squeeze", count, graph.constant([0]))
    return graph.add("Range", graph.constant(np.int64(0)), end, graph.constant(np.int64(1)))


def _with_a_row_for_no_token(graph: Graph, emissions: str, num_states: int) -> str:
    """The emissions ``(B * T + 1, S + 1)``; the last row allows nothing but the state S."""
    flat = graph.add("Reshape", emissions, graph.constant([-1, num_states]))
    wide = graph.add("Pad", flat, graph.constant([0, 0, 0, 1]), graph.constant(-np.inf))
    last = np.append(np.full(num_states, -np.inf), 0).astype(np.float32)
    return graph.add("Concat", wide, graph.constant(last[None]), axis=0)


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
    marginals, partition = graph.add_several("If", 2, fine, **branches)
    return marginals, partition


def _all_within(graph: Graph, emissions: str, mask: str, width: float) -> str:
    """Whether at each token the largest less the smallest score is at most this; not so if one is no number."""
    largest, smallest = (graph.reduce(kind, emissions, 2, keep=False) for kind in ("ReduceMax", "ReduceMin"))
    narrow = graph.add("LessOrEqual", graph.add("Sub", largest, smallest), graph.constant(width))
    wide = graph.add("And", mask, graph.add("Not", narrow))
    count = graph.add("ReduceSum", graph.add("Cast", wide, to=FLOAT), keepdims=0)
    return graph.add("Equal", count, graph.constant(0.0))


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
    return graph.add("Add", graph.add("Log", graph.add("Cast", total, to=DOUBLE)), taken_out)


def _both_ways(
    graph: Graph, places: Alignment, given: str, begin: AnyArray, end: AnyArray, body: object, *, kept: int
) -> list[str]:
    """Beta of the state before all ``(B,)``, then what the steps keep: what arrives at a state, what leaves it, ..."""
    first = [places.for_each(graph, begin), places.for_each(graph, end)]
    directions = {"scan_input_directions": [0, 1], "scan_output_directions": [0, 1, 1][:kept]}
    found = graph.add_several("Scan", 2 + kept, *first, given, given, body=body, num_scan_inputs=2, **directions)
    return [graph.add("Gather", found[1], graph.constant(np.int64(len(end) - 1)), axis=0), *found[2:]]


def _of_states(graph: Graph, marginals: str, chain: ChainWithStart) -> str:
    """Of all states but the one before the first token, ``(T, B, S)``."""
    ends = [graph.constant([n]) for n in (0, len(chain.end) - 1, 1)]
    return graph.add("Transpose", graph.add("Cast", graph.add("Slice", marginals, *ends), to=FLOAT), perm=[0, 2, 1])


OUTPUTS = ("labels", "marginals", "probability")


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

    def add_to(self, graph: Graph, emissions: str, mask: str, outputs: Collection[str] = OUTPUTS) -> None:
        """Emissions ``(B, T, S)`` and mask ``(B, T)`` to these outputs, of labels, marginals and probability."""
        places, chain = aligned(graph, emissions, mask, self.num_states), self._chain()
        if {"labels", "probability"}.intersection(outputs):
            best = self._best(graph, chain, places)
        if {"marginals", "probability"}.intersection(outputs):
            marginals, partition = marginals_and_partition(graph, chain, places, emissions, mask)
        if "labels" in outputs:
            states = self._states(graph, chain, places, best[1])
            labels = places.back(graph, self._labels(graph, states), np.int64(-1))
            graph.output(labels, "labels", "int64", ["batch", "length"])
        if "marginals" in outputs:
            by_label = places.back(graph, self._by_label(graph, marginals), 0.0)
            graph.output(by_label, "marginals", "float32", ["batch", "length", self.num_labels])
        if "probability" in outputs:
            score = graph.add("Gather", best[0], graph.constant(np.int64(self.num_states)), axis=0)
            probability = graph.add("Cast", graph.add("Exp", graph.add("Sub", score, partition)), to=FLOAT)
            own = graph.add("Slice", probability, graph.constant([0]), places.sequences)
            graph.output(own, "probability", "float32", ["batch"])

    def _chain(self) -> ChainWithStart:
        """The chain with the state S."""
        S = self.num_states
        table = np.full((S + 1, S + 1), -np.inf)
        table[:S, :S], table[S, :S], table[S, S] = self.transitions, self.start, 0
        return ChainWithStart(table, np.append(self.end, 0.0))

    def _best(self, graph: Graph, chain: ChainWithStart, places: Alignment) -> tuple[str, str]:
        """`best` before all ``(S + 1, B)``, and the score from each token on ``(T, S + 1, B)``."""
        given, body = (places.for_each(graph, chain.end), places.exact(graph)), self._backward(graph, chain)
        reverse = {"scan_input_directions": [1], "scan_output_directions": [1]}
        before, ahead = graph.add_several("Scan", 2, *given, body=body, num_scan_inputs=1, **reverse)
        return before, ahead

    def _states(self, graph: Graph, chain: ChainWithStart, places: Alignment, ahead: str) -> str:
        """The states of the best path ``(T, B)``."""
        by_sequence = graph.add("Transpose", ahead, perm=[0, 2, 1])  # (T, B, S + 1)
        begin = graph.add("Expand", graph.constant([self.num_states]), places.batch)
        body = self._forward(graph, chain)
        return graph.add_several("Scan", 2, begin, by_sequence, body=body, num_scan_inputs=1)[1]

    def _backward(self, graph: Graph, chain: ChainWithStart) -> object:
        """One step from `best` after a token to that before it, ``(S + 1, B)``; keeps e + best."""
        table, shape = graph.constant(chain.table[:, :, None]), [len(chain.end), None]
        own = Graph("back_")
        best, e = own.input("best", "float64", shape), own.input("e", "float64", shape)
        ahead = own.add("Add", e, best)
        before = own.reduce("ReduceMax", own.add("Add", ahead, table), 1, keep=False)
        own.result(before, "float64", shape)
        own.result(ahead, "float64", shape)
        return own.body("backward")

    def _forward(self, graph: Graph, chain: ChainWithStart) -> object:
        """One step from the state before a token to that of the token, ``(B,)``."""
        table = graph.constant(chain.table)
        own = Graph("ahead_")
        state = own.input("state", "int64", [None])
        ahead = own.input("ahead", "float64", [None, len(chain.end)])
        scores = own.add("Add", own.add("Gather", table, state, axis=0), ahead)
        chosen = own.add("ArgMax", scores, axis=1, keepdims=0)
        own.result(chosen, "int64", [None])
        own.result(own.add("Identity", chosen), "int64", [None])
        return own.body("forward")

    def _labels(self, graph: Graph, states: str) -> str:
        if self.state_labels is None:
            return states
        labels = np.append(self.state_labels, -1).astype(np.int64)
        return graph.add("Gather", graph.constant(labels), states, axis=0)

    def _by_label(self, graph: Graph, marginals: str) -> str:
        """The sum over the states of each label ``(T, B, L)``."""
        if self.state_labels is None:
            return marginals
        member = (self.state_labels[:, None] == np.arange(self.num_labels)).astype(np.float32)
        return graph.add("MatMul", marginals, graph.constant(member))
