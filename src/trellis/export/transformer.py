"""A pretrained encoder as a graph: ids of subwords in windows to one vector per word.

The encoder itself is exported by torch; what comes after it is written here. A subword at place (r, s) belongs to the
word ``word_index[r, s]`` of sentence ``rows[r]``, or to none (-1):

    feature[b, t] = mean of states[r, s] over all (r, s) with rows[r] = b and word_index[r, s] = t

or the first, the last, or the largest of them. A word without subwords has a learned vector.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from trellis.errors import ModelError
from trellis.export.graph import OPSET, Graph
from trellis.export.layers import bilstm
from trellis.models.neural.plan import Weights

INPUTS = {
    "ids": "input_ids",
    "attention": "attention_mask",
    "types": "token_type_ids",
    "word_ids": "word_index",
    "rows": "rows",
}
"""What `TransformerEncoder.batch` calls the inputs, and what the graph calls them."""
_NAME = "encoder.parts.transformer"


def add_transformer(graph: Graph, network: Any, mask: str, weights: Weights) -> str:
    """Features ``(B, T, H)`` of the pretrained part of a torch module; its inputs are added to the graph."""
    part = network.encoder.parts["transformer"]
    transformer = part.transformer
    given = {name: graph.input(INPUTS[name], "int64", ["rows", "subwords"]) for name in _encoder_inputs(transformer)}
    words = graph.input(INPUTS["word_ids"], "int64", ["rows", "subwords"])
    rows = graph.input(INPUTS["rows"], "int64", ["rows"])
    states = graph.embed(_exported(transformer, list(given)), "encoder/")
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


def _encoder_inputs(transformer: Any) -> list[str]:
    tokenizer = transformer.tokenizer
    typed = any(tokenizer.prefix_types) or any(tokenizer.suffix_types)
    return ["ids", "attention", *(["types"] if typed else [])]


def _mixed(graph: Graph, layers: Sequence[str], weights: Weights, name: str) -> str:
    """The sum of the layers with their learned weights."""
    scores = weights[f"{name}.weights"]
    shares = np.exp(scores - scores.max())
    shares *= weights[f"{name}.scale"] / shares.sum()
    parts = [graph.add("Mul", layer, graph.constant(share)) for layer, share in zip(layers, shares, strict=True)]
    return str(graph.add("Sum", *parts))


class Pooler:
    """Which word each subword belongs to, in a batch whose words are numbered ``b * T + t``; B * T is none."""

    def __init__(self, graph: Graph, words: str, rows: str, mask: str, size: int) -> None:
        self._graph, self._mask, self._size = graph, mask, size
        self._shape = graph.add("Shape", mask)  # (B, T)
        length = graph.add("Shape", mask, start=1, end=2)
        self._none = graph.add("ReduceProd", self._shape, graph.constant([0]))
        self._ends = graph.add("Add", self._none, graph.constant([1]))
        own = graph.add("Add", words, graph.at(graph.add("Mul", rows, length), 1))
        real = graph.add("GreaterOrEqual", words, graph.constant(np.int64(0)))
        self._targets = graph.add("Reshape", graph.add("Where", real, own, self._none), graph.constant([-1]))
        self._count = graph.add("Shape", self._targets)
        counts = self._scattered(self._filled(self._ends, np.int64(0)), self._filled(self._count, np.int64(1)), "add")
        self._counts = graph.at(counts, 1)  # (B * T + 1, 1)

    def pooled(self, states: str, how: str) -> str:
        """States of subwords ``(R, S, H)`` to words ``(B * T + 1, H)``; anything for a word without any."""
        graph = self._graph
        flat = graph.add("Reshape", states, graph.constant([-1, self._size]))
        if how in ("first", "last"):
            return str(graph.add("Gather", flat, self._place(first=how == "first"), axis=0))
        where = graph.add("Expand", graph.at(self._targets, 1), graph.add("Shape", flat))
        room = graph.add("Concat", self._ends, graph.constant([self._size]), axis=0)
        if how == "max":
            lowest = self._filled(room, np.float32(-np.inf))
            return str(graph.add("ScatterElements", lowest, where, flat, axis=0, reduction="max"))
        sums = graph.add("ScatterElements", self._filled(room, np.float32(0)), where, flat, axis=0, reduction="add")
        several = graph.add("Cast", graph.add("Max", self._counts, graph.constant([1])), to=1)
        return str(graph.add("Div", sums, several))

    def with_absent(self, features: str, absent: Any) -> str:
        """Words ``(B, T, H)``, with this vector for those without subwords."""
        graph = self._graph
        present = graph.add("Greater", self._counts, graph.constant(np.int64(0)))
        chosen = graph.add("Where", present, features, graph.constant(absent))
        kept = graph.add("Slice", chosen, graph.constant([0]), self._none, graph.constant([0]))
        return str(graph.add("Reshape", kept, graph.add("Concat", self._shape, graph.constant([self._size]), axis=0)))

    def _place(self, *, first: bool) -> str:
        """The place of each word's first or last subword; 0 for a word without any."""
        graph = self._graph
        end = graph.add("Squeeze", self._count, graph.constant([0]))
        places = graph.add("Range", graph.constant(np.int64(0)), end, graph.constant(np.int64(1)))
        last = graph.add("Sub", self._count, graph.constant([1]))
        begun = graph.add("Expand", last, self._ends) if first else self._filled(self._ends, np.int64(0))
        return self._scattered(begun, places, "min" if first else "max")

    def _scattered(self, begun: str, updates: str, how: str) -> str:
        return str(self._graph.add("ScatterElements", begun, self._targets, updates, axis=0, reduction=how))

    def _filled(self, shape: str, value: np.int64 | np.float32) -> str:
        return str(self._graph.add("Expand", self._graph.constant(np.asarray([value])), shape))


def _exported(transformer: Any, names: list[str]) -> Any:
    """The encoder as torch exports it, from ids in any number of rows and subwords to the states that are used."""
    import torch

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, *given: Any) -> list[Any]:
            found: list[Any] = self.transformer.states(dict(zip(names, given, strict=True)))
            return found

    device = transformer.pooling.absent.device
    # Different numbers of rows and subwords, neither of them 1, so that torch takes none for a constant.
    example = tuple(torch.ones(2, 3, dtype=torch.int64, device=device) for _ in names)
    sizes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("subwords")}
    with _undisturbed(transformer):
        try:
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
            raise ModelError(
                f"torch {torch.__version__} cannot export {kind}: {type(error).__name__}: {error}"
            ) from error
    assert program is not None
    return program.model_proto


@contextmanager
def _undisturbed(transformer: Any) -> Iterator[None]:
    """Without dropout, and without what torch says about its own work."""
    training, log = transformer.training, logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    transformer.eval()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformer.train(training)
        log.setLevel(level)
