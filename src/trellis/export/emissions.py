"""The network of a neural tagger as a graph: ids of tokens, or of subwords in windows, to emissions.

A pretrained encoder is exported by torch; what comes after it is written here. A subword at place (r, s) belongs to the
word ``word_index[r, s]`` of sentence ``rows[r]``, or to none (-1):

    feature[b, t] = mean of states[r, s] over all (r, s) with rows[r] = b and word_index[r, s] = t

or the first, the last, or the largest of them. A word without subwords has a learned vector.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.arrays import AnyArray
from trellis.errors import ModelError
from trellis.export.graph import FLOAT, INT32, INT64, OPSET, Graph
from trellis.models.neural.config import NeuralConfig
from trellis.models.neural.model import LearnedNetwork
from trellis.models.neural.plan import (
    VECTORS,
    CharacterPlan,
    LexiconPlan,
    PartPlan,
    Plan,
    TableSize,
    Weights,
    WordPlan,
    lstm_weights,
    parts_of,
)


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
    return graph.add("Slice", emissions, graph.constant([0, 0]), graph.add("Shape", given), graph.constant([0, 1]))


def _not_empty(graph: Graph, value: str, axes: int) -> str:
    """The array with a place of zero at the end of each axis that has none."""
    missing = graph.add("Sub", graph.constant([1] * axes), graph.add("Shape", value))
    after = graph.add("Max", missing, graph.constant([0] * axes))
    return graph.add("Pad", value, graph.add("Concat", graph.constant([0] * axes), after, axis=0))


def _ids(graph: Graph, name: str, *further: int | str) -> str:
    """An input of ids, one or several for each token."""
    given = graph.input(name, "int64", ["batch", "length", *further])
    return _not_empty(graph, given, 2 + len(further))


def plan_around(learned: LearnedNetwork, settings: NeuralConfig) -> Plan:
    """The plan of the network, or of what there is of it beside its transformer."""
    if learned.plan is not None:
        return learned.plan
    encoder, weights = settings.encoder, learned.weights
    vectors = TableSize(*weights[VECTORS].shape) if VECTORS in weights else None
    parts = parts_of(encoder, learned.vocabulary, vectors)
    hidden = 0 if encoder.pretrained.bilstm == "before" else encoder.hidden or 0
    labels, learns = len(weights["emission.bias"]), settings.head == "crf"
    return Plan(parts, hidden, encoder.layers, labels, settings.edges, learns, None)


def _part(graph: Graph, name: str, part: PartPlan, weights: Weights) -> str:
    """The features of a part, ``(B, T, width)``."""
    prefix = f"encoder.parts.{name}"
    if isinstance(part, WordPlan):
        tables = (("word", "learnt", part.learnt), ("vector", "vectors", part.vectors))
        vectors = [
            embedded(graph, _ids(graph, given), weights[f"{prefix}.{table}.weight"])
            for given, table, size in tables
            if size is not None
        ]
        return graph.add("Add", *vectors) if len(vectors) == 2 else vectors[0]
    if isinstance(part, CharacterPlan):
        return _characters(graph, part, weights, f"{prefix}.module")
    if isinstance(part, LexiconPlan):
        raise ModelError("a tagger with encoder.words.soft_lexicon cannot be exported: a graph cannot look words up")
    table = weights[f"{prefix}.embedding.weight"]
    if part.of == "pairs":
        both = embedded(graph, _ids(graph, "pairs", 2), table)
        return graph.add("Reshape", both, graph.constant([0, 0, part.output_size]))
    return embedded(graph, _ids(graph, input_name(name)), table)


def input_name(part: str) -> str:
    """The name in the graph of the ids of a part that looks them up."""
    return part.replace("column ", "column_")


def _characters(graph: Graph, part: CharacterPlan, weights: Weights, name: str) -> str:
    given = _ids(graph, "characters", "spelling")
    shape = graph.add("Shape", given)
    spelling = graph.add("Slice", shape, graph.constant([2]), graph.constant([3]))
    by_word = graph.add("Reshape", given, graph.add("Concat", graph.constant([-1]), spelling, axis=0))
    if part.widths:
        features = character_cnn(graph, by_word, weights, name, part.widths)
    else:
        features = character_lstm(graph, by_word, weights, name)
    tokens = graph.add("Slice", shape, graph.constant([0]), graph.constant([2]))
    return graph.add("Reshape", features, graph.add("Concat", tokens, graph.constant([part.output_size]), axis=0))


def lstm(graph: Graph, features: str, lengths: str, weights: Weights, name: str) -> tuple[str, str]:
    """A bidirectional layer over ``(T, B, D)``: states ``(T, B, 2 H)``, and the last state each way ``(B, 2 H)``."""
    # Rows of gates in the order of ONNX (input, output, forget, cell), from torch's (input, forget, cell, output).
    inward, recurrent, *biases = (
        np.stack([np.concatenate([np.split(way, 4)[gate] for gate in (0, 3, 1, 2)]) for way in ways])
        for ways in lstm_weights(weights, name)
    )
    H = recurrent.shape[2]
    bias = graph.constant(np.concatenate(biases, axis=1))
    given = (features, graph.constant(inward), graph.constant(recurrent), bias, lengths)
    states, last, _ = graph.add_several("LSTM", 3, *given, hidden_size=H, direction="bidirectional")
    # (T, 2, B, H) and (2, B, H)
    by_place = graph.add("Reshape", graph.add("Transpose", states, perm=[0, 2, 1, 3]), graph.constant([0, 0, 2 * H]))
    ends = graph.add("Reshape", graph.add("Transpose", last, perm=[1, 0, 2]), graph.constant([-1, 2 * H]))
    return by_place, ends


def bilstm(graph: Graph, features: str, mask: str, weights: Weights, name: str, layers: int) -> str:
    """Layers over ``(B, T, D)``: ``(B, T, H)``; the padding of a sequence is at its end."""
    lengths = graph.reduce("ReduceSum", graph.add("Cast", mask, to=INT32), 1, keep=False)
    states = graph.add("Transpose", features, perm=[1, 0, 2])
    for i in range(layers):
        states, _ = lstm(graph, states, lengths, weights, f"{name}.layers.{i}")
    return graph.add("Transpose", states, perm=[1, 0, 2])


def embedded(graph: Graph, ids: str, table: AnyArray) -> str:
    """The vector of each id; padding is row 0, which is zero."""
    values = table.copy()
    values[0] = 0.0
    return graph.add("Gather", graph.constant(values), ids, axis=0)


def character_cnn(graph: Graph, characters: str, weights: Weights, name: str, widths: Sequence[int]) -> str:
    """``(W, C)`` ids to ``(W, output_size)``: the largest value of each filter over the characters of a word."""
    vectors = embedded(graph, characters, weights[f"{name}.embedding.weight"])
    size = int(weights[f"{name}.embedding.weight"].shape[1])
    by_channel = graph.add("Transpose", vectors, perm=[0, 2, 1])  # (W, size, C)
    outside = graph.at(graph.add("Not", _present(graph, characters)), 1)
    largest = []
    for i, width in enumerate(widths):
        # The weights of a filter are those of width * size numbers, place by place.
        kernel = weights[f"{name}.filters.{i}.weight"].reshape(-1, width, size).transpose(0, 2, 1)
        bias = graph.constant(weights[f"{name}.filters.{i}.bias"])
        left = (width - 1) // 2
        values = graph.add("Conv", by_channel, graph.constant(kernel), bias, pads=[left, width - 1 - left])
        inside = graph.add("Where", outside, graph.constant(np.float32(-np.inf)), values)
        largest.append(graph.reduce("ReduceMax", inside, 2, keep=False))
    return graph.add("Tanh", graph.add("Concat", *largest, axis=1))


def character_lstm(graph: Graph, characters: str, weights: Weights, name: str) -> str:
    """``(W, C)`` ids to ``(W, output_size)``: the last states of both directions."""
    vectors = embedded(graph, characters, weights[f"{name}.embedding.weight"])
    present = graph.add("Cast", _present(graph, characters), to=INT32)
    lengths = graph.reduce("ReduceSum", present, 1, keep=False)
    return lstm(graph, graph.add("Transpose", vectors, perm=[1, 0, 2]), lengths, weights, f"{name}.lstm")[1]


def _present(graph: Graph, characters: str) -> str:
    """Which places hold a character, ``(W, C)``; a word without any is read as one place of padding."""
    real = graph.add("Cast", graph.add("Not", graph.add("Equal", characters, graph.constant(np.int64(0)))), to=INT64)
    lengths = graph.add("Max", graph.reduce("ReduceSum", real, 1), graph.constant([1]))
    return graph.add("Less", graph.numbers(graph.add("Shape", characters, start=1, end=2)), lengths)


INPUTS = {
    "ids": "input_ids",
    "attention": "attention_mask",
    "types": "token_type_ids",
    "word_ids": "word_index",
    "rows": "rows",
}
"""Names of inputs: those of `TransformerEncoder.batch`, and those of the graph."""
_NAME = "encoder.parts.transformer"


def add_transformer(graph: Graph, network: Any, mask: str, weights: Weights) -> str:
    """Features ``(B, T, H)`` of the pretrained part of a torch module; its inputs are added to the graph."""
    part = network.encoder.parts["transformer"]
    transformer = part.transformer
    tokenizer = transformer.tokenizer
    typed = any(tokenizer.prefix_types) or any(tokenizer.suffix_types)
    names = ["ids", "attention", *(["types"] if typed else [])]
    given = {name: graph.input(INPUTS[name], "int64", ["rows", "subwords"]) for name in names}
    words = graph.input(INPUTS["word_ids"], "int64", ["rows", "subwords"])
    rows = graph.input(INPUTS["rows"], "int64", ["rows"])
    states = graph.embed(_exported(transformer, names))
    pooling, name = transformer.pooling, f"{_NAME}.transformer.pooling"
    if part.lstm is not None:
        real = graph.add("Greater", given["attention"], graph.constant(np.int64(0)))
        states = [bilstm(graph, states[0], real, weights, f"{_NAME}.lstm", len(part.lstm.layers))]
        pooling, name = part.pooling, f"{_NAME}.pooling"
    pooler = Pooler(graph, words, rows, mask, pooling.output_size)
    if pooling.layers is None:
        features = pooler.pooled(states[0], pooling.how)
    elif pooling.how == "max":
        features = _mixed(graph, [pooler.pooled(layer, "max") for layer in states], weights, name)
    else:
        features = pooler.pooled(_mixed(graph, states, weights, name), pooling.how)
    return pooler.with_absent(features, weights[f"{name}.absent"])


def _mixed(graph: Graph, layers: Sequence[str], weights: Weights, name: str) -> str:
    """The sum of the layers with their learned weights."""
    scores = weights[f"{name}.weights"]
    shares = np.exp(scores - scores.max())
    shares *= weights[f"{name}.scale"] / shares.sum()
    parts = [graph.add("Mul", layer, graph.constant(share)) for layer, share in zip(layers, shares, strict=True)]
    return graph.add("Sum", *parts)


class Pooler:
    """Which word each subword belongs to, in a batch whose words are numbered ``b * T + t``; B * T is none."""

    def __init__(self, graph: Graph, words: str, rows: str, mask: str, size: int) -> None:
        self._graph, self._size = graph, size
        self._shape = graph.add("Shape", mask)  # (B, T)
        length = graph.add("Shape", mask, start=1, end=2)
        self._none = graph.add("ReduceProd", self._shape, graph.constant([0]))
        self._ends = graph.add("Add", self._none, graph.constant([1]))
        targets = graph.add("Add", words, graph.at(graph.add("Mul", rows, length), 1))
        real = graph.add("GreaterOrEqual", words, graph.constant(np.int64(0)))
        self._targets = graph.add("Reshape", graph.add("Where", real, targets, self._none), graph.constant([-1]))
        self._count = graph.add("Shape", self._targets)
        counts = self._scattered(self._filled(self._ends, np.int64(0)), self._filled(self._count, np.int64(1)), "add")
        self._counts = graph.at(counts, 1)  # (B * T + 1, 1)

    def pooled(self, states: str, how: str) -> str:
        """States of subwords ``(R, S, H)`` to words ``(B * T + 1, H)``; anything for a word without any."""
        graph = self._graph
        flat = graph.add("Reshape", states, graph.constant([-1, self._size]))
        if how in ("first", "last"):
            # The place of each word's first or last subword; 0 for a word without any.
            last = graph.add("Sub", self._count, graph.constant([1]))
            begun = self._filled(self._ends, np.int64(0)) if how == "last" else graph.add("Expand", last, self._ends)
            places = self._scattered(begun, graph.numbers(self._count), "min" if how == "first" else "max")
            return graph.add("Gather", flat, places, axis=0)
        where = graph.add("Expand", graph.at(self._targets, 1), graph.add("Shape", flat))
        room = graph.add("Concat", self._ends, graph.constant([self._size]), axis=0)
        if how == "max":
            lowest = self._filled(room, np.float32(-np.inf))
            return graph.add("ScatterElements", lowest, where, flat, axis=0, reduction="max")
        sums = graph.add("ScatterElements", self._filled(room, np.float32(0)), where, flat, axis=0, reduction="add")
        several = graph.add("Cast", graph.add("Max", self._counts, graph.constant([1])), to=FLOAT)
        return graph.add("Div", sums, several)

    def with_absent(self, features: str, absent: Any) -> str:
        """Words ``(B, T, H)``, with this vector for those without subwords."""
        graph = self._graph
        present = graph.add("Greater", self._counts, graph.constant(np.int64(0)))
        chosen = graph.add("Where", present, features, graph.constant(absent))
        words = graph.add("Slice", chosen, graph.constant([0]), self._none, graph.constant([0]))
        return graph.add("Reshape", words, graph.add("Concat", self._shape, graph.constant([self._size]), axis=0))

    def _scattered(self, begun: str, updates: str, how: str) -> str:
        return self._graph.add("ScatterElements", begun, self._targets, updates, axis=0, reduction=how)

    def _filled(self, shape: str, value: np.int64 | np.float32) -> str:
        return self._graph.add("Expand", self._graph.constant(np.asarray([value])), shape)


def _exported(transformer: Any, names: list[str]) -> Any:
    """The encoder as torch exports it, from ids in any number of rows and subwords to the states that are used."""
    import torch

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, *given: Any) -> list[Any]:
            return self.transformer.states(dict(zip(names, given, strict=True)))  # type: ignore[no-any-return]

    device = transformer.pooling.absent.device
    # Different numbers of rows and subwords, neither of them 1, so that torch takes none for a constant.
    example = tuple(torch.ones(2, 3, dtype=torch.int64, device=device) for _ in names)
    sizes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("subwords")}
    training, log = transformer.training, logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    transformer.eval()
    try:
        with warnings.catch_warnings():  # torch speaks about its own work
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                States(),
                example,
                dynamo=True,
                dynamic_shapes={"given": tuple(sizes for _ in names)},
                opset_version=OPSET,
                input_names=[INPUTS[name] for name in names],
                verbose=False,
            )
    except ImportError as error:
        raise ModelError(
            f"exporting a transformer needs onnxscript: pip install 'trellis-crf[onnx]': {error}"
        ) from error
    except Exception as error:  # torch raises errors of many kinds
        kind = type(transformer.model).__name__
        raise ModelError(f"torch {torch.__version__} cannot export {kind}: {type(error).__name__}: {error}") from error
    finally:
        transformer.train(training)
        log.setLevel(level)
    assert program is not None
    return program.model_proto
