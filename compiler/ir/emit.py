"""Conversion of operator graphs to `dataflow.graph`s and a weight store."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Block, Operation, Region, SSAValue

from compiler.ir.dataflow import (
    ConstantOp,
    GraphOp,
    GroupOp,
    NoneOp,
    OperatorOp,
    WeightOp,
    YieldOp,
)
from compiler.ir.dataflow_control import IfOp, LoopOp
from compiler.ir.types import tensor_type
from compiler.ir.values import array_to_attribute, value_to_attribute
from compiler.net.graph import Graph, Value, inner_graphs
from compiler.net.node import Node
from compiler.net.operators import KINDS, OPERATORS, STRUCTURAL_INPUTS, Kind
from compiler.schedule.tasks import ControlForm

NORMALISED_OPSET = 23
"""The opset of every imported graph: the newest that every supported onnxruntime executes, and
the first that has every operator of the table (RMSNormalization is the last)."""

_LARGEST_REPEATED = 1 << 22


def _hint(name: str) -> str | None:
    """A tensor's name as an SSA name, or None if nothing readable is left of it."""
    hint = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return hint if hint and not hint[0].isdigit() else None


def _as_bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


@dataclass
class WeightKeys:
    """The weights by key, which the graphs of a module share; equal ones have one key."""

    weights: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    _keys: dict[tuple[object, ...], list[str]] = field(
        default_factory=dict[tuple[object, ...], list[str]]
    )

    def key(self, name: str, array: np.ndarray) -> str:
        """The key of an array, a new one made of its name if no other is equal."""
        # A cheap key that equal arrays share, as unrolled loops repeat their weights.
        ends = array.reshape(-1)[[*range(min(array.size, 16)), -1]] if array.size else array
        same = self._keys.setdefault((array.dtype.str, array.shape, ends.tobytes()), [])
        for key in same:
            if np.array_equal(_as_bytes(array), _as_bytes(self.weights[key])):
                return key
        key = name
        count = 1
        while key in self.weights:
            count += 1
            key = f"{name}.{count}"
        self.weights[key] = array
        same.append(key)
        return key


class _Emitter:
    """The operations in order, and the SSA value of each frontend value."""

    def __init__(self, block: Block, contracted: set[Value], store: WeightKeys):
        self.block = block
        self.contracted = contracted
        self.store = store
        self._values: dict[Value | None, SSAValue] = {}
        self._constants: dict[tuple[Value, bool], SSAValue] = {}
        self._stored: dict[str, SSAValue] = {}

    def append(self, operation: Operation, name: str = "") -> SSAValue:
        """Append an operation and return its first result."""
        self.block.add_op(operation)
        result = operation.results[0]
        result.name_hint = _hint(name)
        return result

    def define(self, value: Value, ssa: SSAValue) -> None:
        """Set the SSA value of a run-time value."""
        self._values[value] = ssa
        ssa.name_hint = _hint(value.name)

    def use(self, value: Value | None, structural: bool = False, factor: bool = False) -> SSAValue:
        """The SSA value of a value; constants are emitted at their first use.

        Those of one element are part of the code, unless one is a `factor` of a number, and those
        that integers stand for are these integers and the operator that gives them.
        """
        if value is None and None not in self._values:
            self._values[None] = self.append(NoneOp(), "none")
        if value is None or value.array is None:
            return self._values[value]
        if value.code is not None and not structural:
            if value not in self._values:
                self.operator(replace(value.code, outputs=[value]))
            return self._values[value]
        inline = structural or (value.array.size == 1 and not factor)
        if (value, inline) not in self._constants:
            made = (
                self.append(ConstantOp(array_to_attribute(value.content)), value.name)
                if inline
                else self._weight(value)
            )
            self._constants[value, inline] = made
        return self._constants[value, inline]

    def _weight(self, value: Value) -> SSAValue:
        array = value.content
        # An axis of one element may have any stride, also 0.
        axes = zip(array.shape, array.strides, strict=True)
        repeats = any(size > 1 and stride == 0 for size, stride in axes)
        if repeats and array.nbytes > _LARGEST_REPEATED and value not in self.contracted:
            return self._repeated(value)
        key = self.store.key(value.name, np.asarray(array, order="C"))
        if key not in self._stored:
            type = tensor_type(value.dtype, value.shape)
            self._stored[key] = self.append(WeightOp(key, type), value.name)
        return self._stored[key]

    def _repeated(self, value: Value) -> SSAValue:
        """An Expand of a small constant, computed at run time instead of storing a large one."""
        once = tuple(slice(0, 1) if s == 0 else slice(None) for s in value.content.strides)
        part = value.content[once]
        small = Value(value.name, value.dtype, part.shape, part)
        shape = {"shape": value_to_attribute(value.shape)}
        type = tensor_type(value.dtype, value.shape)
        node = f"Expand_{value.name}"
        return self.append(OperatorOp("Expand", [self.use(small)], [type], shape, node))

    def control(self, operator: Node[Value]) -> None:
        """Append an If or a Loop, alone in a group."""
        inputs = [
            self.use(v) if v.array is None or v.code is not None else self._weight(v)
            for v in operator.inputs
            if v is not None
        ]
        types = [tensor_type(v.dtype, v.shape) for v in operator.outputs]
        form: ControlForm = operator.attributes["form"]
        bodies: list[Graph] = operator.attributes["bodies"]
        # nothing but their order decides what the inputs of bodies are
        names = [[f"in{i}" for i in range(len(body.inputs))] for body in bodies]
        graphs = [
            emit_graph(body, f"body{number}", names[number], self.store)
            for number, body in enumerate(bodies)
        ]
        block = Block(arg_types=[value.type for value in inputs])
        args = block.args, types, graphs, operator.node
        inner = IfOp(*args) if form.kind == "if" else LoopOp(form, *args)
        block.add_ops([inner, YieldOp(*inner.outputs)])
        group = GroupOp(inputs, types, Region(block))
        self.block.add_op(group)
        for value, result in zip(operator.outputs, group.outputs, strict=True):
            self.define(value, result)

    def operator(self, operator: Node[Value]) -> None:
        """Append an operator."""
        if inner_graphs(operator):
            self.control(operator)
            return
        structural = STRUCTURAL_INPUTS.get(operator.type, ())
        shape = operator.output.shape
        factor = operator.type == "Mul" and len(shape) < 2 and prod(shape) == 1
        operands = enumerate(operator.inputs)
        inputs = [self.use(value, i in structural, factor) for i, value in operands]
        types = [
            NoneType() if value.unknown else tensor_type(value.dtype, value.shape)
            for value in operator.outputs
        ]
        written = OPERATORS[operator.type].written(operator)
        attributes = {name: value_to_attribute(value) for name, value in written.items()}
        operation = OperatorOp(operator.type, inputs, types, attributes, operator.node)
        self.block.add_op(operation)
        for value, result in zip(operator.outputs, operation.results, strict=True):
            if not value.unknown:
                self.define(value, result)


def _contracted(graph: Graph) -> set[Value]:
    """Values that a contraction reads: constants among them can be packed as weights."""
    return {
        value
        for operator in graph.operators
        if not inner_graphs(operator) and KINDS[operator.type] is Kind.CONTRACTION
        for value in operator.inputs
        if value is not None
    }


def emit(graph: Graph) -> tuple[ModuleOp, dict[str, np.ndarray]]:
    """A module with the graph as `dataflow.graph @main`, and its weights by key."""
    store = WeightKeys()
    main = emit_graph(graph, "main", [value.name for value in graph.inputs], store)
    return ModuleOp([main]), store.weights


def emit_graph(graph: Graph, name: str, inputs: Sequence[str], store: WeightKeys) -> GraphOp:
    """A graph as a `dataflow.graph` with names of its inputs; weights go to the store."""
    block = Block(arg_types=[tensor_type(v.dtype, v.shape) for v in graph.inputs])
    emitter = _Emitter(block, _contracted(graph), store)
    for value, argument in zip(graph.inputs, block.args, strict=True):
        emitter.define(value, argument)
    for operator in graph.operators:
        emitter.operator(operator)
    block.add_op(YieldOp(*(emitter.use(value) for _, value in graph.outputs)))
    outputs = [name for name, _ in graph.outputs]
    return GraphOp(name, NORMALISED_OPSET, inputs, outputs, Region(block))
