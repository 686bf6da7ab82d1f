"""Conversion of `dataflow.graph`s to operator graphs, the inverse of `compiler.ir.emit`."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.errors import PipelineError
from compiler.ir.dataflow import (
    ConstantOp,
    ControlOp,
    GraphOp,
    GroupOp,
    NoneOp,
    OperatorOp,
    WeightOp,
)
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array, attributes_of, stored_as
from compiler.net.building.builder import is_known
from compiler.net.graph import Graph, Inputs, Value, constant
from compiler.net.node import Node
from compiler.net.operators import OPERATORS
from compiler.net.spec import evaluate_known


def read_graph(graph: GraphOp, array_of: Callable[[str], np.ndarray]) -> Graph:
    """The operators of a graph and of the bodies in it; `array_of` has the weight of a key.

    Constants that integers stand for are computed again, and remember them. Raises PipelineError
    if operators are in groups already.
    """
    reader = _Reader(array_of)
    block = graph.body.block
    is_body = isinstance(graph.parent_op(), ControlOp)  # whose inputs are named by their order
    names = ["" if is_body else name.data for name in graph.input_names]
    inputs = [reader.defined(v, name) for v, name in zip(block.args, names, strict=True)]
    for op in block.ops:
        match op:
            case NoneOp():
                reader.values[op.output] = None
            case WeightOp():
                array = stored_as(array_of(op.key.data), op.output.type, op.key.data)
                reader.values[op.output] = constant(op.key.data, array)
            case ConstantOp():
                array = attribute_to_array(op.value)
                reader.values[op.output] = constant(op.output.name_hint or "", array)
            case OperatorOp():
                reader.operator(op)
            case GroupOp():
                reader.control(op)
            case _:
                pass
    outputs = [reader.used(value) for value in graph.results_yielded]
    pairs = zip(graph.output_names, outputs, strict=True)
    return Graph(inputs, [(name.data, value) for name, value in pairs], reader.operators)


class _Reader:
    """The operators in order, and the value of each SSA value."""

    def __init__(self, array_of: Callable[[str], np.ndarray]):
        self.array_of = array_of
        self.values: dict[SSAValue, Value | None] = {}
        self.operators: list[Node[Value]] = []

    def defined(self, ssa: SSAValue, name: str = "") -> Value:
        """The new value of a tensor that a run computes; an unknown one if it is left out."""
        if isinstance(ssa.type, NoneType):
            return Value("")
        value = Value(name or ssa.name_hint or "", dtype_of(ssa.type), shape_of(ssa.type))
        self.values[ssa] = value
        return value

    def used(self, ssa: SSAValue) -> Value:
        """The value of an operand that is there."""
        value = self.values[ssa]
        assert value is not None
        return value

    def operator(self, op: OperatorOp) -> None:
        """Read an operator, or the constant that one gives."""
        inputs = [self.values[value] for value in op.inputs]
        if op.type_name == "DequantizeLinear" and is_known(inputs):
            self.values[op.outputs[0]] = _dequantised(op, inputs)
            return
        outputs = [self.defined(value) for value in op.outputs]
        node = Node(op.type_name, attributes_of(op), inputs, outputs, op.node_name)
        self.operators.append(node)

    def control(self, group: GroupOp) -> None:
        """Read the If or the Loop that a group holds alone."""
        op = group.control
        if op is None:
            raise PipelineError("its operators are in groups: run it before fuse-operators")
        form = op.form
        bodies = [read_graph(body, self.array_of) for body in op.graphs]
        inputs = [self.values[value] for value in group.inputs]
        outputs = [self.defined(value) for value in group.outputs]
        name = "" if op.node is None else op.node.data
        attributes = {"form": form, "bodies": bodies}
        self.operators.append(Node(form.kind.capitalize(), attributes, inputs, outputs, name))


def _dequantised(op: OperatorOp, inputs: Inputs) -> Value:
    """The constant that integers stand for."""
    entry = OPERATORS[op.type_name]
    node = entry.node(op.type_name, inputs, attributes_of(op))
    (array,) = evaluate_known(node, entry)
    assert array is not None
    value = constant(op.node_name, array)
    value.code = replace(node, outputs=[value], node=op.node_name)
    return value
