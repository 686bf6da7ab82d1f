"""The form of the examples of rules of semantics: a model of a node, and onnxruntime's results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = NDArray[Any]


@dataclass(frozen=True)
class Example:
    """A node named `node`; inputs that are `constants` are initializers, None is left out."""

    rule: str
    operator: str
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Array | None]
    by_the_text: "Callable[[Example], Array] | None"
    """The first output in float64; None where the text refuses the node."""
    constants: tuple[str, ...] = ()
    outputs: int = 1
    opset: int = 22
    free: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict[str, Any])
    """Shapes of inputs with open dimensions, for a dynamic module."""
    function: onnx.FunctionProto | None = None
    """A function of the model."""
    widened: bool = False
    """Whether a Cast to int32 follows, as onnxruntime returns no integers of less than a byte."""

    def __str__(self) -> str:
        return self.rule

    @property
    def feeds(self) -> dict[str, Array]:
        """The inputs of a run."""
        given = self.inputs.items()
        return {n: x for n, x in given if x is not None and n not in self.constants}

    def model(self, is_open: bool = False) -> onnx.ModelProto:
        """A model of the node, with open dimensions or without."""
        names = [name if x is not None else "" for name, x in self.inputs.items()]
        results = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.operator, names, results, name="node", **self.attributes)
        kind = helper.np_dtype_to_tensor_dtype(next(iter(self.feeds.values())).dtype)
        infos = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(x.dtype),
                self.free.get(name, x.shape) if is_open else x.shape,
            )
            for name, x in self.feeds.items()
        ]
        kinds = [kind, onnx.TensorProto.INT64 if self.operator == "MaxPool" else kind, kind]
        nodes = [node]
        if self.widened:
            node.output[0] = "packed"
            kinds = [onnx.TensorProto.INT32]
            nodes.append(helper.make_node("Cast", ["packed"], results, to=kinds[0]))
        outputs = [
            helper.make_tensor_value_info(name, element, None)
            for name, element in zip(results, kinds, strict=False)
        ]
        known = [numpy_helper.from_array(np.asarray(self.inputs[n]), n) for n in self.constants]
        graph = helper.make_graph(nodes, "main", infos, outputs, known)
        opsets = [helper.make_opsetid("", self.opset)]
        functions = [] if self.function is None else [self.function]
        opsets += [helper.make_opsetid(f.domain, 1) for f in functions if f.domain]
        return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)

    def by_onnxruntime(self) -> list[Array]:
        """onnxruntime's results, without its optimisations."""
        runtime: Any = onnxruntime
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = runtime.InferenceSession(self.model().SerializeToString(), options)
        return session.run(None, self.feeds)


RANDOM = np.random.default_rng(0)
"""Draws the data of all examples."""


def by_reference(example: Example) -> Array:
    """ONNX's reference implementation."""
    evaluator: Any = ReferenceEvaluator(example.model())
    return evaluator.run(None, example.feeds)[0].astype(np.float64)


def normal(*shape: int) -> Array:
    """Random float32 of a shape."""
    return RANDOM.normal(size=shape).astype(np.float32)


def floats(*values: float) -> Array:
    """A vector of float32."""
    return np.array(values, np.float32)
