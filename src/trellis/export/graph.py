"""An ONNX graph that is written node by node; each method returns the name of what it adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from trellis.arrays import AnyArray
from trellis.errors import ModelError, required

OPSET = 18
Shape = Sequence[int | str | None]
FLOAT, INT32, INT64, DOUBLE = 1, 6, 7, 11
"""How ONNX calls the types."""
_TYPES = {"float32": FLOAT, "int32": INT32, "int64": INT64, "bool": 9, "float64": DOUBLE}


def onnx_module() -> ModuleType:
    """The library, or an error that says how to get it."""
    with required("exporting to ONNX", "trellis-crf[onnx]", ModelError):
        import onnx
    return onnx


class Graph:
    """Nodes, constants, inputs and outputs; a body of a loop is a graph that sees the names of the one around it."""

    def __init__(self, prefix: str = "") -> None:
        self._helper = onnx_module().helper
        self.prefix, self._count = prefix, 0
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, dtype: str, shape: Shape) -> str:
        """Something that the caller gives; a string in the shape names a length that may vary."""
        self.inputs.append(self._helper.make_tensor_value_info(self.prefix + name, _TYPES[dtype], shape))
        return self.prefix + name

    def output(self, value: str, name: str, dtype: str, shape: Shape) -> None:
        """Give a value to the caller under this name."""
        self.nodes.append(self._helper.make_node("Identity", [value], [self.prefix + name]))
        self.outputs.append(self._helper.make_tensor_value_info(self.prefix + name, _TYPES[dtype], shape))

    def result(self, value: str, dtype: str, shape: Shape) -> None:
        """Give a value, made by a node of this graph, to the loop or branch around it; these go by order."""
        self.outputs.append(self._helper.make_tensor_value_info(value, _TYPES[dtype], shape))

    def constant(self, array: AnyArray | np.generic | float | Sequence[int]) -> str:
        """An array; a float of Python is one of float32, a list of integers of int64."""
        plain = isinstance(array, float) and not isinstance(array, np.generic)
        values, name = np.asarray(array, dtype=np.float32 if plain else None, order="C"), self._name("constant")
        self.constants.append(onnx_module().numpy_helper.from_array(values, name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output, whose name is returned."""
        return self.add_several(kind, 1, *inputs, **attributes)[0]

    def add_several(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs, whose names are returned."""
        names = [self._name(kind) for _ in range(outputs)]
        self.nodes.append(self._helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def reduce(self, kind: str, value: str, axis: int, *, keep: bool = True) -> str:
        """A reduction over one axis."""
        return self.add(kind, value, self.constant([axis]), keepdims=int(keep))

    def at(self, value: str, axis: int) -> str:
        """The value with a new axis of length 1."""
        return self.add("Unsqueeze", value, self.constant([axis]))

    def numbers(self, count: str) -> str:
        """0 up to the only number of an array, without it."""
        end = self.add("Squeeze", count, self.constant([0]))
        return self.add("Range", self.constant(np.int64(0)), end, self.constant(np.int64(1)))

    def embed(self, model: Any) -> list[str]:
        """Add the nodes of an encoder, their names after ``encoder/``, its inputs as they are; returns its outputs."""
        if model.functions or any(opset.domain for opset in model.opset_import):
            raise ModelError("the encoder uses operators that are not of ONNX itself")
        graph = onnx_module().compose.add_prefix(model, "encoder/", rename_inputs=False).graph
        self.nodes += graph.node
        self.constants += graph.initializer
        return [output.name for output in graph.output]

    def body(self, name: str) -> Any:
        """The graph as the body of a loop, or as a whole."""
        return self._helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.constants)

    def model(self, metadata: Mapping[str, str]) -> Any:
        """The graph as a model that was checked."""
        onnx = onnx_module()
        versions = [self._helper.make_opsetid("", OPSET)]
        model = self._helper.make_model(self.body("trellis"), opset_imports=versions, ir_version=9)
        model.producer_name = "trellis"
        self._helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model)
        return model

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{self.prefix}{kind}_{self._count}"
