"""Parts of an ONNX model as separate models, with the values that flow into them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.backends.memory import Array
from compiler.errors import ModelError
from compiler.frontend.load import read_model, whole_copy
from compiler.frontend.node_order import names_read
from compiler.tools.reference import run_onnxruntime

FEW_INTEGERS = 64
"""Integers that a part reads stay constants up to this many: axes, shapes, sizes, pads."""


@dataclass(frozen=True)
class ReproModel:
    """A model of some of the nodes, and its inputs."""

    model: onnx.ModelProto
    inputs: dict[str, Array]


def whole_model(model: Any) -> onnx.ModelProto:
    """A model with its tensors: a path, bytes or a ModelProto."""
    return whole_copy(model, read_model(model))


class Extractor:
    """Makes models of some nodes of a model, from what onnxruntime computes for its inputs."""

    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, Array]):
        """Run the model once for the values of all tensors; raises Refusal."""
        self.model = model
        self.nodes: Sequence[onnx.NodeProto] = list(model.graph.node)
        self._constants = {t.name: t for t in model.graph.initializer}
        self._values = {**all_values(model, inputs), **inputs}
        self._results = {output.name for output in model.graph.output}

    @cached_property
    def _constant_nodes(self) -> set[str]:
        constants = (node for node in self.nodes if node.op_type == "Constant")
        return {node.output[0] for node in constants}

    def part(self, chosen: Iterable[int]) -> ReproModel:
        """The model of the nodes at some positions; raises ModelError if there is none.

        It gives what other nodes read of them. Values that they read are inputs, except weights,
        constants and a few integers.
        """
        positions = sorted(chosen)
        nodes = [self.nodes[position] for position in positions]
        computed = {name for node in nodes for name in node.output if name}
        read = sorted({name for node in nodes for name in names_read(node)} - computed)
        constants = [name for name in read if self._stays_constant(name)]
        inputs = {name: self._value(name) for name in read if name not in constants}
        outputs = {name: self._value(name) for name in self._outputs(nodes, set(positions))}
        if not outputs:
            raise ModelError("the part gives nothing")
        graph = helper.make_graph(
            nodes,
            "repro",
            [_typed(*item) for item in inputs.items()],
            [_typed(*item) for item in outputs.items()],
            [self._initializer(name) for name in constants],
        )
        return ReproModel(self._model_of(graph), inputs)

    def _model_of(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        model = onnx.ModelProto()
        model.ir_version = self.model.ir_version
        model.opset_import.extend(self.model.opset_import)
        model.functions.extend(self.model.functions)
        model.graph.CopyFrom(graph)
        return model

    def _outputs(self, nodes: Sequence[onnx.NodeProto], chosen: set[int]) -> Iterator[str]:
        """The values that the rest of the model reads of some nodes, or nothing reads at all."""
        others = (node for i, node in enumerate(self.nodes) if i not in chosen)
        outside = {name for node in others for name in names_read(node)} | self._results
        inside = {name for node in nodes for name in names_read(node)}
        for node in nodes:
            yield from (n for n in node.output if n in outside or (n and n not in inside))

    def _stays_constant(self, name: str) -> bool:
        if name in self._constants or name in self._constant_nodes:
            return True
        value = self._values.get(name)
        is_input = name in {i.name for i in self.model.graph.input}
        return (
            not is_input and isinstance(value, np.ndarray) and _is_small_integer(cast(Array, value))
        )

    def _initializer(self, name: str) -> onnx.TensorProto:
        constant = self._constants.get(name)
        return (
            constant if constant is not None else numpy_helper.from_array(self._value(name), name)
        )

    def _value(self, name: str) -> Array:
        value = self._values.get(name)
        if not isinstance(value, np.ndarray):
            raise ModelError(f"the value {name!r} is not a tensor")
        return cast(Array, value)


def _is_small_integer(value: Array) -> bool:
    return value.dtype.kind in "iub" and value.ndim <= 1 and value.size <= FEW_INTEGERS


def _typed(name: str, array: Array) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape)


def all_values(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Every value that the outer graph of a model computes, by onnxruntime; raises Refusal."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    outputs = {output.name for output in shown.graph.output}
    computed = [name for node in shown.graph.node for name in node.output if name]
    shown.graph.output.extend(onnx.ValueInfoProto(name=n) for n in computed if n not in outputs)
    return dict(run_onnxruntime(shown, inputs))
