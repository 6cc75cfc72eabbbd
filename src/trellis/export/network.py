"""The network of a BiLSTM tagger as a graph: ids of tokens to emissions."""

from __future__ import annotations

from trellis.errors import ModelError
from trellis.export.graph import Graph
from trellis.export.layers import character_cnn, character_lstm, embedded, lstm
from trellis.models.neural.layers import Weights
from trellis.models.neural.plan import CharacterPlan, PartPlan, Plan, WordPlan


def add_network(graph: Graph, plan: Plan, weights: Weights, mask: str) -> str:
    """The emissions ``(B, T, S)`` of a network with a plan; its inputs are added to the graph."""
    if plan.edges:
        raise ModelError("a tagger with edges cannot be exported: its transitions depend on the place")
    parts = [_part(graph, name, part, weights) for name, part in plan.parts.items()]
    features = graph.add("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    if plan.hidden:
        features = _bilstm(graph, features, mask, weights, plan.layers)
    product = graph.add("MatMul", features, graph.constant(weights["emission.weight"].T))
    return str(graph.add("Add", product, graph.constant(weights["emission.bias"])))


def _bilstm(graph: Graph, features: str, mask: str, weights: Weights, layers: int) -> str:
    """``(B, T, D)`` to ``(B, T, H)``; the tokens of a sequence come before its padding."""
    lengths = graph.reduce("ReduceSum", graph.add("Cast", mask, to=6), 1, keep=False)
    states = graph.add("Transpose", features, perm=[1, 0, 2])
    for i in range(layers):
        states, _ = lstm(graph, states, lengths, weights, f"encoder.lstm.layers.{i}")
    return str(graph.add("Transpose", states, perm=[1, 0, 2]))


def _part(graph: Graph, name: str, part: PartPlan, weights: Weights) -> str:
    """What a part gives each token, ``(B, T, width)``."""
    own = f"encoder.parts.{name}"
    if isinstance(part, WordPlan):
        return _words(graph, part, weights, own)
    if isinstance(part, CharacterPlan):
        return _characters(graph, part, weights, own)
    table = weights[f"{own}.embedding.weight"]
    if part.of == "pairs":
        both = embedded(graph, graph.input("pairs", "int64", ["batch", "length", 2]), table)
        return str(graph.add("Reshape", both, graph.constant([0, 0, part.output_size])))
    return embedded(graph, graph.input(name.replace("column ", "column_"), "int64", ["batch", "length"]), table)


def _words(graph: Graph, part: WordPlan, weights: Weights, own: str) -> str:
    tables = (("word", "learnt", part.learnt), ("vector", "vectors", part.vectors))
    found = [
        embedded(graph, graph.input(given, "int64", ["batch", "length"]), weights[f"{own}.{table}.weight"])
        for given, table, size in tables
        if size is not None
    ]
    return str(graph.add("Add", *found)) if len(found) == 2 else found[0]


def _characters(graph: Graph, part: CharacterPlan, weights: Weights, own: str) -> str:
    given = graph.input("characters", "int64", ["batch", "length", "spelling"])
    shape = graph.add("Shape", given)
    spelling = graph.add("Slice", shape, graph.constant([2]), graph.constant([3]))
    by_word = graph.add("Reshape", given, graph.add("Concat", graph.constant([-1]), spelling, axis=0))
    if part.widths:
        features = character_cnn(graph, by_word, weights, f"{own}.module", part.widths)
    else:
        features = character_lstm(graph, by_word, weights, f"{own}.module")
    places = graph.add("Slice", shape, graph.constant([0]), graph.constant([2]))
    wanted = graph.add("Concat", places, graph.constant([part.output_size]), axis=0)
    return str(graph.add("Reshape", features, wanted))
