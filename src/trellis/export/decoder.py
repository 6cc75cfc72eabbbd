"""The decoder as a graph: emissions and a mask in; best labels, marginals and the path's probability out.

All Scans go over time, over arrays (T, states, B): a batch in the last axis is what onnxruntime computes fastest.
`aligned` moves the tokens of each sequence to the end of T, in order, so that any mask is fine. What is before them is
the state S, "not begun": places without a token lead from S to S and change nothing, a first token from S to the
labels by the start scores. No step needs a mask. The best path, in double precision:

    best[t-1, i] = max_j (A[i, j] + e[t, j] + best[t, j])              best of the last token = end
    y[t]         = argmax_j (A[y[t-1], j] + e[t, j] + best[t, j])      y before all = S

The score of the best path is best[S] before all. `trellis.export.sums` has marginals and the log partition.
onnxruntime computes all of a graph, whatever is asked of it, so a graph has only the outputs that are wanted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.export.alignment import Alignment, aligned
from trellis.export.graph import FLOAT, Graph
from trellis.export.sums import ChainWithStart, marginals_and_partition

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
        before, ahead = graph.add("Scan", *given, outputs=2, body=body, num_scan_inputs=1, **reverse)
        return before, ahead

    def _states(self, graph: Graph, chain: ChainWithStart, places: Alignment, ahead: str) -> str:
        """Those of the best path ``(T, B)``."""
        by_sequence = graph.add("Transpose", ahead, perm=[0, 2, 1])  # (T, B, S + 1)
        begin = graph.add("Expand", graph.constant([self.num_states]), places.batch)
        body = self._forward(graph, chain)
        return str(graph.add("Scan", begin, by_sequence, outputs=2, body=body, num_scan_inputs=1)[1])

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
        return str(graph.add("Gather", graph.constant(labels), states, axis=0))

    def _by_label(self, graph: Graph, marginals: str) -> str:
        """The sum over the states of each label ``(T, B, L)``."""
        if self.state_labels is None:
            return marginals
        member = (self.state_labels[:, None] == np.arange(self.num_labels)).astype(np.float32)
        return str(graph.add("MatMul", marginals, graph.constant(member)))
