"""Layers of neural taggers as graphs: BiLSTM layers, and the two readers of characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.arrays import AnyArray
from trellis.export.graph import Graph
from trellis.models.neural.plan import Weights


def lstm(graph: Graph, features: str, lengths: str, weights: Weights, name: str) -> tuple[str, str]:
    """A bidirectional layer over ``(T, B, D)``: states ``(T, B, 2 H)``, and the last state each way ``(B, 2 H)``."""
    ways = ("", "_reverse")
    inward = np.stack([_gates(weights[f"{name}.weight_ih_l0{way}"]) for way in ways])
    recurrent = np.stack([_gates(weights[f"{name}.weight_hh_l0{way}"]) for way in ways])
    biases = [[_gates(weights[f"{name}.bias_{kind}_l0{way}"]) for kind in ("ih", "hh")] for way in ways]
    H = recurrent.shape[2]
    bias = graph.constant(np.stack([np.concatenate(own) for own in biases]))
    parts = (features, graph.constant(inward), graph.constant(recurrent), bias, lengths)
    states, last, _ = graph.add("LSTM", *parts, outputs=3, hidden_size=H, direction="bidirectional")
    # (T, 2, B, H) and (2, B, H)
    by_place = graph.add("Reshape", graph.add("Transpose", states, perm=[0, 2, 1, 3]), graph.constant([0, 0, 2 * H]))
    ends = graph.add("Reshape", graph.add("Transpose", last, perm=[1, 0, 2]), graph.constant([-1, 2 * H]))
    return by_place, ends


def bilstm(graph: Graph, features: str, mask: str, weights: Weights, name: str, layers: int) -> str:
    """Layers over ``(B, T, D)``: ``(B, T, H)``; what counts comes before the padding of a sequence."""
    lengths = graph.reduce("ReduceSum", graph.add("Cast", mask, to=6), 1, keep=False)
    states = graph.add("Transpose", features, perm=[1, 0, 2])
    for i in range(layers):
        states, _ = lstm(graph, states, lengths, weights, f"{name}.layers.{i}")
    return str(graph.add("Transpose", states, perm=[1, 0, 2]))


def _gates(weights: AnyArray) -> AnyArray:
    """Rows in the order of ONNX (input, output, forget, cell), from that of torch (input, forget, cell, output)."""
    i, f, c, o = np.split(weights, 4)
    return np.concatenate([i, o, f, c])


def embedded(graph: Graph, ids: str, table: AnyArray) -> str:
    """The vector of each id; padding is row 0, which is zero."""
    values = table.copy()
    values[0] = 0.0
    return str(graph.add("Gather", graph.constant(values), ids, axis=0))


def character_cnn(graph: Graph, characters: str, weights: Weights, name: str, widths: Sequence[int]) -> str:
    """``(W, C)`` ids to ``(W, output_size)``: the largest value of each filter over the characters of a word."""
    vectors = embedded(graph, characters, weights[f"{name}.embedding.weight"])
    size = int(weights[f"{name}.embedding.weight"].shape[1])
    by_channel = graph.add("Transpose", vectors, perm=[0, 2, 1])  # (W, size, C)
    outside = graph.at(graph.add("Not", _present(graph, characters)), 1)
    found = []
    for i, width in enumerate(widths):
        # The weights of a filter are those of width * size numbers, place by place.
        kernel = weights[f"{name}.filters.{i}.weight"].reshape(-1, width, size).transpose(0, 2, 1)
        bias = graph.constant(weights[f"{name}.filters.{i}.bias"])
        left = (width - 1) // 2
        values = graph.add("Conv", by_channel, graph.constant(kernel), bias, pads=[left, width - 1 - left])
        inside = graph.add("Where", outside, graph.constant(np.float32(-np.inf)), values)
        found.append(graph.reduce("ReduceMax", inside, 2, keep=False))
    return str(graph.add("Tanh", graph.add("Concat", *found, axis=1)))


def character_lstm(graph: Graph, characters: str, weights: Weights, name: str) -> str:
    """``(W, C)`` ids to ``(W, output_size)``: the last states of both directions."""
    vectors = embedded(graph, characters, weights[f"{name}.embedding.weight"])
    present = graph.add("Cast", _present(graph, characters), to=6)
    lengths = graph.reduce("ReduceSum", present, 1, keep=False)
    return lstm(graph, graph.add("Transpose", vectors, perm=[1, 0, 2]), lengths, weights, f"{name}.lstm")[1]


def _present(graph: Graph, characters: str) -> str:
    """Which places hold a character, ``(W, C)``; a word without any is read as one place of padding."""
    real = graph.add("Cast", graph.add("Not", graph.add("Equal", characters, graph.constant(np.int64(0)))), to=7)
    lengths = graph.add("Max", graph.reduce("ReduceSum", real, 1), graph.constant([1]))
    ends = graph.add("Squeeze", graph.add("Shape", characters, start=1, end=2), graph.constant([0]))
    places = graph.add("Range", graph.constant(np.int64(0)), ends, graph.constant(np.int64(1)))
    return str(graph.add("Less", places, lengths))
