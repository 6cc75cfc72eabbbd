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

from collections.abc import Collection
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
        """Values ``(T, B, ...)`` in the order of the input, and `fill` where there is no token."""
        rest = graph.add("Shape", values, start=2)
        flat = graph.add("Reshape", values, graph.add("Concat", graph.constant([-1]), rest, axis=0))
        last = graph.add("Expand", graph.constant(fill), graph.add("Concat", graph.constant([1]), rest, axis=0))
        return graph.add("Gather", graph.add("Concat", flat, last, axis=0), self.rows, axis=0)


def aligned(graph: Graph, emissions: str, mask: str, num_states: int) -> Alignment:
    """Emissions ``(B, T, S)`` and mask ``(B, T)`` in the order of the steps."""
    sizes = [graph.add("Shape", mask, start=axis, end=axis + 1) for axis in (1, 0)]
    length, batch = (graph.add("Max", size, graph.constant([1])) for size in sizes)
    counts = graph.add("Cast", mask, to=INT64)
    tokens = graph.reduce("ReduceSum", counts, 1)  # (B, 1)
    # The row of a token by how many come after it: the last of each sequence is at T - 1.
    after = graph.add("Sub", tokens, graph.add("CumSum", counts, graph.constant(np.int64(1))))
    step = graph.add("Sub", graph.add("Sub", length, graph.constant([1])), after)
    row = graph.add("Add", graph.add("Mul", step, batch), graph.at(graph.numbers(sizes[1]), 1))
    places = graph.add("Mul", length, batch)
    rows = graph.add("Where", mask, row, places)
    # For each row (T * B,) the place of its token in the input, or the place after all.
    inputs = graph.add("Mul", *sizes)
    nowhere = graph.add("Expand", inputs, graph.add("Add", places, graph.constant([1])))
    target = graph.add("Reshape", rows, graph.constant([-1]))
    sources = graph.add("ScatterElements", nowhere, target, graph.numbers(inputs), axis=0)
    sources = graph.add("Slice", sources, graph.constant([0]), places)
    # Emissions (B * T + 1, S + 1), whose last row allows nothing but the state S.
    flat = graph.add("Reshape", emissions, graph.constant([-1, num_states]))
    wide = graph.add("Pad", flat, graph.constant([0, 0, 0, 1]), graph.constant(-np.inf))
    last = np.append(np.full(num_states, -np.inf), 0).astype(np.float32)
    columns = graph.add("Concat", wide, graph.constant(last[None]), axis=0)
    shape = graph.add("Concat", length, batch, axis=0)
    ordered = graph.add("Gather", columns, graph.add("Reshape", sources, shape), axis=0)  # (T, B, S + 1)
    lengths = graph.add("Cast", graph.add("Squeeze", tokens, graph.constant([1])), to=DOUBLE)
    return Alignment(graph.add("Transpose", ordered, perm=[0, 2, 1]), batch, sizes[1], rows, lengths)


RANGE = 690.0
"""Within this many nats, the product of two scaled numbers does not underflow in double precision."""
SINGLE = 80.0
"""Within this many nats, the exponential of an emission does not underflow in single precision."""


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
    # Whether at each token the largest less the smallest score is at most this; not so if one is no number.
    largest, smallest = (graph.reduce(kind, emissions, 2, keep=False) for kind in ("ReduceMax", "ReduceMin"))
    narrow = graph.add("LessOrEqual", graph.add("Sub", largest, smallest), graph.constant(widest))
    wide = graph.add("Cast", graph.add("And", mask, graph.add("Not", narrow)), to=FLOAT)
    fine = graph.add("Equal", graph.add("ReduceSum", wide, keepdims=0), graph.constant(0.0))
    branches = {}
    for branch, prefix, find in (("then_branch", "scaled_", _scaled), ("else_branch", "log_", _in_log_space)):
        inner = Graph(prefix)
        marginals, partition = find(inner, chain, places)
        inner.result(marginals, "float32", [None, None, len(chain.end) - 1])
        inner.result(partition, "float64", [None])
        branches[branch] = inner.body(prefix)
    marginals, partition = graph.add_several("If", 2, fine, **branches)
    return marginals, partition


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
    step = Graph(f"{graph.prefix}step_")
    alpha, beta, ahead, back = (step.input(name, "float64", shape) for name in ("alpha", "beta", "ahead", "back"))
    arriving, leaving = step.add("MatMul", into, alpha), step.add("Mul", back, beta)
    after, before = step.add("Mul", arriving, ahead), step.add("MatMul", out_of, leaving)
    total = step.reduce("ReduceSum", before, 0)
    scaled = step.add("Div", after, step.reduce("ReduceSum", after, 0)), step.add("Div", before, total)
    for value in (*scaled, arriving, leaving):
        step.result(value, "float64", shape)
    step.result(total, "float64", [1, None])
    return step.body("scaled")


def _in_log_space(graph: Graph, chain: ChainWithStart, places: Alignment) -> tuple[str, str]:
    begin, step = np.append(np.full(len(chain.end) - 1, -np.inf), 0.0), _log_step(graph, chain.table)
    before, arriving, leaving = _both_ways(graph, places, places.exact(graph), begin, chain.end, step, kept=2)
    marginals = graph.add("Softmax", graph.add("Add", arriving, leaving), axis=1)
    return _of_states(graph, marginals, chain), before


def _log_step(graph: Graph, table: FloatArray) -> object:
    into, out_of = (graph.constant(rows[:, :, None].copy()) for rows in (table.T, table))
    step, shape = Graph(f"{graph.prefix}step_"), [len(table), None]
    alpha, beta, ahead, back = (step.input(name, "float64", shape) for name in ("alpha", "beta", "ahead", "back"))
    arriving, leaving = _log_sum_exp(step, step.add("Add", alpha, into)), step.add("Add", back, beta)
    after, before = step.add("Add", arriving, ahead), _log_sum_exp(step, step.add("Add", leaving, out_of))
    for value in (after, before, arriving, leaving):
        step.result(value, "float64", shape)
    return step.body("log")


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
    """Beta of the state before all ``(B,)``, then the first `kept` of the other results of the steps, ``(T, ...)``."""
    first = [places.for_each(graph, begin), places.for_each(graph, end)]
    directions = {"scan_input_directions": [0, 1], "scan_output_directions": [0, 1, 1][:kept]}
    _, beta, *others = graph.add_several(
        "Scan", 2 + kept, *first, given, given, body=body, num_scan_inputs=2, **directions
    )
    return [graph.add("Gather", beta, graph.constant(np.int64(len(end) - 1)), axis=0), *others]


def _of_states(graph: Graph, marginals: str, chain: ChainWithStart) -> str:
    """Marginals ``(T, B, S)`` without the state before the first token."""
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
        return len(self.start)

    def add_to(self, graph: Graph, emissions: str, mask: str, outputs: Collection[str] = OUTPUTS) -> None:
        """Emissions ``(B, T, S)`` and mask ``(B, T)`` to these outputs, of labels, marginals and probability."""
        S = self.num_states
        table = np.full((S + 1, S + 1), -np.inf)
        table[:S, :S], table[S, :S], table[S, S] = self.transitions, self.start, 0
        places, chain = aligned(graph, emissions, mask, S), ChainWithStart(table, np.append(self.end, 0.0))
        if {"labels", "probability"}.intersection(outputs):
            # `best` before all (S + 1, B), and the score from each token on (T, S + 1, B)
            given, body = (places.for_each(graph, chain.end), places.exact(graph)), self._backward(graph, chain)
            reverse = {"scan_input_directions": [1], "scan_output_directions": [1]}
            best, ahead = graph.add_several("Scan", 2, *given, body=body, num_scan_inputs=1, **reverse)
        if {"marginals", "probability"}.intersection(outputs):
            marginals, partition = marginals_and_partition(graph, chain, places, emissions, mask)
        if "labels" in outputs:
            by_sequence = graph.add("Transpose", ahead, perm=[0, 2, 1])  # (T, B, S + 1)
            begin, body = graph.add("Expand", graph.constant([S]), places.batch), self._forward(graph, chain)
            labels = graph.add_several("Scan", 2, begin, by_sequence, body=body, num_scan_inputs=1)[1]  # (T, B)
            if self.state_labels is not None:
                label_of_state = graph.constant(np.append(self.state_labels, -1).astype(np.int64))
                labels = graph.add("Gather", label_of_state, labels, axis=0)
            graph.output(places.back(graph, labels, np.int64(-1)), "labels", "int64", ["batch", "length"])
        if "marginals" in outputs:
            if self.state_labels is not None:  # the sum over the states of each label, (T, B, L)
                member = (self.state_labels[:, None] == np.arange(self.num_labels)).astype(np.float32)
                marginals = graph.add("MatMul", marginals, graph.constant(member))
            by_label = places.back(graph, marginals, 0.0)
            graph.output(by_label, "marginals", "float32", ["batch", "length", self.num_labels])
        if "probability" in outputs:
            score = graph.add("Gather", best, graph.constant(np.int64(S)), axis=0)
            probability = graph.add("Cast", graph.add("Exp", graph.add("Sub", score, partition)), to=FLOAT)
            probability = graph.add("Slice", probability, graph.constant([0]), places.sequences)
            graph.output(probability, "probability", "float32", ["batch"])

    def _backward(self, graph: Graph, chain: ChainWithStart) -> object:
        """One step from `best` after a token to that before it, ``(S + 1, B)``; keeps e + best."""
        table, shape = graph.constant(chain.table[:, :, None]), [len(chain.end), None]
        step = Graph("back_")
        best, e = step.input("best", "float64", shape), step.input("e", "float64", shape)
        ahead = step.add("Add", e, best)
        step.result(step.reduce("ReduceMax", step.add("Add", ahead, table), 1, keep=False), "float64", shape)
        step.result(ahead, "float64", shape)
        return step.body("backward")

    def _forward(self, graph: Graph, chain: ChainWithStart) -> object:
        """One step from the state before a token to that of the token, ``(B,)``."""
        table = graph.constant(chain.table)
        step = Graph("ahead_")
        state = step.input("state", "int64", [None])
        ahead = step.input("ahead", "float64", [None, len(chain.end)])
        scores = step.add("Add", step.add("Gather", table, state, axis=0), ahead)
        chosen = step.add("ArgMax", scores, axis=1, keepdims=0)
        step.result(chosen, "int64", [None])
        step.result(step.add("Identity", chosen), "int64", [None])
        return step.body("forward")
