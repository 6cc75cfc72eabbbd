"""The network of a BiLSTM tagger as a graph: ids of tokens to emissions."""

from __future__ import annotations

from typing import Any

from trellis.errors import ModelError
from trellis.export.graph import Graph
from trellis.export.layers import Weights, array, character_cnn, character_lstm, embedded, lstm


def add_network(graph: Graph, network: Any, mask: str) -> str:
    """The emissions ``(B, T, S)`` of a network without a transformer; its inputs are added to the graph."""
    if network.edges is not None:
        raise ModelError("a tagger with edges cannot be exported: its transitions depend on the place")
    if network.head.histories is not None:
        raise ModelError("a tagger with head = semicrf cannot be exported: its spans are scored as a whole")
    weights = network.state_dict()
    parts = [_part(graph, name, part, weights) for name, part in network.encoder.parts.items()]
    features = graph.add("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    if network.encoder.lstm is not None:
        features = _bilstm(graph, features, mask, weights, len(network.encoder.lstm.layers))
    product = graph.add("MatMul", features, graph.constant(array(weights["emission.weight"]).T))
    return str(graph.add("Add", product, graph.constant(array(weights["emission.bias"]))))


def _bilstm(graph: Graph, features: str, mask: str, weights: Weights, layers: int) -> str:
    """``(B, T, D)`` to ``(B, T, H)``; the tokens of a sequence come before its padding."""
    lengths = graph.reduce("ReduceSum", graph.add("Cast", mask, to=6), 1, keep=False)
    states = graph.add("Transpose", features, perm=[1, 0, 2])
    for i in range(layers):
        states, _ = lstm(graph, states, lengths, weights, f"encoder.lstm.layers.{i}")
    return str(graph.add("Transpose", states, perm=[1, 0, 2]))


def _part(graph: Graph, name: str, part: Any, weights: Weights) -> str:
    """What a part gives each token, ``(B, T, width)``."""
    own = f"encoder.parts.{name}"
    if name == "words":
        return _words(graph, part, weights, own)
    if name == "characters":
        return _characters(graph, part, weights, own)
    if name == "pairs":
        both = embedded(
            graph, graph.input("pairs", "int64", ["batch", "length", 2]), weights[f"{own}.embedding.weight"]
        )
        return str(graph.add("Reshape", both, graph.constant([0, 0, part.output_size])))
    if name == "case" or name.startswith("column "):
        ids = graph.input(name.replace("column ", "column_"), "int64", ["batch", "length"])
        return embedded(graph, ids, weights[f"{own}.embedding.weight"])
    raise ModelError(f"a tagger with the part {name!r} cannot be exported from token ids")


def _words(graph: Graph, part: Any, weights: Weights, own: str) -> str:
    tables = (("word", "learnt", part.learnt), ("vector", "vectors", part.vectors))
    found = [
        embedded(graph, graph.input(given, "int64", ["batch", "length"]), weights[f"{own}.{table}.weight"])
        for given, table, module in tables
        if module is not None
    ]
    return str(graph.add("Add", *found)) if len(found) == 2 else found[0]


def _characters(graph: Graph, part: Any, weights: Weights, own: str) -> str:
    given = graph.input("characters", "int64", ["batch", "length", "spelling"])
    shape = graph.add("Shape", given)
    spelling = graph.add("Slice", shape, graph.constant([2]), graph.constant([3]))
    by_word = graph.add("Reshape", given, graph.add("Concat", graph.constant([-1]), spelling, axis=0))
    widths = getattr(part.module, "widths", None)
    if widths is None:
        features = character_lstm(graph, by_word, weights, f"{own}.module")
    else:
        features = character_cnn(graph, by_word, weights, f"{own}.module", widths)
    places = graph.add("Slice", shape, graph.constant([0]), graph.constant([2]))
    wanted = graph.add("Concat", places, graph.constant([part.output_size]), axis=0)
    return str(graph.add("Reshape", features, wanted))
