"""Tokens of a batch in the order of its steps: those of each sequence at the end of T, for any mask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.arrays import AnyArray
from trellis.export.graph import DOUBLE, INT64, Graph


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
        return str(graph.add("Cast", self.emissions, to=DOUBLE))

    def for_each(self, graph: Graph, column: AnyArray) -> str:
        """A column of double precision for each sequence, ``(len(column), B)``."""
        shape = graph.add("Concat", graph.constant([len(column)]), self.batch, axis=0)
        return str(graph.add("Expand", graph.constant(column[:, None]), shape))

    def back(self, graph: Graph, values: str, fill: np.int64 | float) -> str:
        """What there is at each place ``(T, B, ...)`` in the order of the input; this where there is no token."""
        rest = graph.add("Shape", values, start=2)
        flat = graph.add("Reshape", values, graph.add("Concat", graph.constant([-1]), rest, axis=0))
        last = graph.add("Expand", graph.constant(fill), graph.add("Concat", graph.constant([1]), rest, axis=0))
        return str(graph.add("Gather", graph.add("Concat", flat, last, axis=0), self.rows, axis=0))


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
    return str(graph.add("Add", graph.add("Mul", step, batch), graph.at(_numbers(graph, sequences), 1)))


def _sources(graph: Graph, rows: str, inputs: str, places: str) -> str:
    """For each row ``(T * B,)`` the place of its token in the input, or the place after all."""
    nowhere = graph.add("Expand", inputs, graph.add("Add", places, graph.constant([1])))
    target = graph.add("Reshape", rows, graph.constant([-1]))
    found = graph.add("ScatterElements", nowhere, target, _numbers(graph, inputs), axis=0)
    return str(graph.add("Slice", found, graph.constant([0]), places))


def _numbers(graph: Graph, count: str) -> str:
    """0 up to the only number of an array, without it."""
    end = graph.add("Squeeze", count, graph.constant([0]))
    return str(graph.add("Range", graph.constant(np.int64(0)), end, graph.constant(np.int64(1))))


def _with_a_row_for_no_token(graph: Graph, emissions: str, num_states: int) -> str:
    """The emissions ``(B * T + 1, S + 1)``; the last row allows nothing but the state S."""
    flat = graph.add("Reshape", emissions, graph.constant([-1, num_states]))
    wide = graph.add("Pad", flat, graph.constant([0, 0, 0, 1]), graph.constant(-np.inf))
    last = np.append(np.full(num_states, -np.inf), 0).astype(np.float32)
    return str(graph.add("Concat", wide, graph.constant(last[None]), axis=0))
