"""The network of a neural tagger as a graph: ids of tokens to emissions."""

from __future__ import annotations

from trellis.errors import ModelError
from trellis.export.graph import Graph
from trellis.export.layers import bilstm, character_cnn, character_lstm, embedded
from trellis.export.transformer import add_transformer
from trellis.models.neural.config import NeuralConfig
from trellis.models.neural.inference import LearnedNetwork
from trellis.models.neural.plan import VECTORS, CharacterPlan, PartPlan, Plan, TableSize, Weights, WordPlan, parts_of


def add_network(graph: Graph, learned: LearnedNetwork, settings: NeuralConfig, mask: str) -> str:
    """The emissions ``(B, T, S)``; the inputs of the network are added to the graph.

    Runtimes cannot step over nothing, so the network sees at least one place of padding, which is cut off at the end.
    """
    given, mask = mask, _not_empty(graph, mask, 2)
    plan, weights = plan_around(learned, settings), learned.weights
    if plan.edges:
        raise ModelError("a tagger with edges cannot be exported: its transitions depend on the place")
    pretrained = [] if learned.plan is not None else [add_transformer(graph, learned.network, mask, weights)]
    parts = pretrained + [_part(graph, name, part, weights) for name, part in plan.parts.items()]
    features = graph.add("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    if plan.hidden:
        features = bilstm(graph, features, mask, weights, "encoder.lstm", plan.layers)
    product = graph.add("MatMul", features, graph.constant(weights["emission.weight"].T))
    emissions = graph.add("Add", product, graph.constant(weights["emission.bias"]))
    return str(graph.add("Slice", emissions, graph.constant([0, 0]), graph.add("Shape", given), graph.constant([0, 1])))


def _not_empty(graph: Graph, value: str, axes: int) -> str:
    """The array with a place of zero at the end of each axis that has none."""
    missing = graph.add("Sub", graph.constant([1] * axes), graph.add("Shape", value))
    after = graph.add("Max", missing, graph.constant([0] * axes))
    return str(graph.add("Pad", value, graph.add("Concat", graph.constant([0] * axes), after, axis=0)))


def _ids(graph: Graph, name: str, *further: int | str) -> str:
    """An input of ids, one or several for each token."""
    given = graph.input(name, "int64", ["batch", "length", *further])
    return _not_empty(graph, given, 2 + len(further))


def plan_around(learned: LearnedNetwork, settings: NeuralConfig) -> Plan:
    """The plan of the network, or of what there is of it beside its transformer."""
    if learned.plan is not None:
        return learned.plan
    own, weights = settings.encoder, learned.weights
    vectors = TableSize(*weights[VECTORS].shape) if VECTORS in weights else None
    hidden = 0 if own.pretrained.bilstm == "before" else own.hidden or 0
    labels, learns = len(weights["emission.bias"]), settings.head == "crf"
    return Plan(parts_of(own, learned.vocabulary, vectors), hidden, own.layers, labels, settings.edges, learns, None)


def _part(graph: Graph, name: str, part: PartPlan, weights: Weights) -> str:
    """What a part gives each token, ``(B, T, width)``."""
    own = f"encoder.parts.{name}"
    if isinstance(part, WordPlan):
        return _words(graph, part, weights, own)
    if isinstance(part, CharacterPlan):
        return _characters(graph, part, weights, own)
    table = weights[f"{own}.embedding.weight"]
    if part.of == "pairs":
        both = embedded(graph, _ids(graph, "pairs", 2), table)
        return str(graph.add("Reshape", both, graph.constant([0, 0, part.output_size])))
    return embedded(graph, _ids(graph, name.replace("column ", "column_")), table)


def _words(graph: Graph, part: WordPlan, weights: Weights, own: str) -> str:
    tables = (("word", "learnt", part.learnt), ("vector", "vectors", part.vectors))
    found = [
        embedded(graph, _ids(graph, given), weights[f"{own}.{table}.weight"])
        for given, table, size in tables
        if size is not None
    ]
    return str(graph.add("Add", *found)) if len(found) == 2 else found[0]


def _characters(graph: Graph, part: CharacterPlan, weights: Weights, own: str) -> str:
    given = _ids(graph, "characters", "spelling")
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
