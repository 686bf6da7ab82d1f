"""Conversion of the frontend's graph to a `dataflow.graph` and a weight store."""

import re

import numpy as np
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Block, Operation, Region, SSAValue

from compiler.frontend.builder import NORMALISED_OPSET
from compiler.frontend.graph import Graph, Operator, Value
from compiler.ir.dataflow import ConstantOp, GraphOp, NoneOp, OperatorOp, WeightOp, YieldOp
from compiler.ir.operators import KINDS, STRUCTURAL_INPUTS, Kind
from compiler.ir.types import tensor_type
from compiler.ir.values import array_to_attribute, value_to_attribute

_LARGEST_REPEATED = 1 << 22


def _hint(name: str) -> str | None:
    """A tensor's name as an SSA name, or None if nothing readable is left of it."""
    hint = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return hint if hint and not hint[0].isdigit() else None


def _fingerprint(array: np.ndarray) -> tuple[object, ...]:
    """A cheap key that equal arrays share, as unrolled loops repeat their weights."""
    ends = array.reshape(-1)[[*range(min(array.size, 16)), -1]] if array.size else array
    return array.dtype.str, array.shape, ends.tobytes()


class _Emitter:
    """The operations in order, and the SSA value of each frontend value."""

    def __init__(self, block: Block, contracted: set[Value]):
        self.block = block
        self.contracted = contracted
        self.weights: dict[str, np.ndarray] = {}
        self._values: dict[Value | None, SSAValue] = {}
        self._constants: dict[tuple[Value, bool], SSAValue] = {}
        self._stored: dict[tuple[object, ...], list[tuple[SSAValue, np.ndarray]]] = {}

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

    def use(self, value: Value | None, structural: bool = False) -> SSAValue:
        """The SSA value of a value; constants are emitted at their first use."""
        if value is None and None not in self._values:
            self._values[None] = self.append(NoneOp(), "none")
        if value is None or value.array is None:
            return self._values[value]
        inline = structural or value.array.size == 1
        if (value, inline) not in self._constants:
            made = self._inline(value) if inline else self._weight(value)
            self._constants[value, inline] = made
        return self._constants[value, inline]

    def _inline(self, value: Value) -> SSAValue:
        return self.append(ConstantOp(array_to_attribute(value.content)), value.name)

    def _weight(self, value: Value) -> SSAValue:
        array = value.content
        repeated = 0 in array.strides and array.nbytes > _LARGEST_REPEATED
        if repeated and value not in self.contracted:
            return self._repeated(value)
        array = np.ascontiguousarray(array)
        same = self._stored.setdefault(_fingerprint(array), [])
        for other, stored in same:
            if np.array_equal(array.view(np.uint8), stored.view(np.uint8)):
                return other
        made = self._store(value, array)
        same.append((made, array))
        return made

    def _store(self, value: Value, array: np.ndarray) -> SSAValue:
        key, count = value.name, 1
        while key in self.weights:
            count += 1
            key = f"{value.name}.{count}"
        self.weights[key] = array
        return self.append(WeightOp(key, tensor_type(value.dtype, value.shape)), value.name)

    def _repeated(self, value: Value) -> SSAValue:
        """An Expand of a small constant, computed at run time instead of storing a large one."""
        once = tuple(slice(0, 1) if s == 0 else slice(None) for s in value.content.strides)
        part = value.content[once]
        small = Value(value.name, value.dtype, part.shape, part)
        shape = np.array(value.shape, np.int64)
        target = self._inline(Value("shape", "int64", shape.shape, shape))
        type = tensor_type(value.dtype, value.shape)
        node = f"Expand_{value.name}"
        return self.append(OperatorOp("Expand", [self.use(small), target], [type], {}, node))

    def operator(self, operator: Operator) -> None:
        """Append an operator."""
        structural = STRUCTURAL_INPUTS.get(operator.op_type, ())
        inputs = [self.use(value, i in structural) for i, value in enumerate(operator.inputs)]
        types = [
            NoneType() if value is None else tensor_type(value.dtype, value.shape)
            for value in operator.outputs
        ]
        attributes = {k: value_to_attribute(v) for k, v in operator.attributes.items()}
        operation = OperatorOp(operator.op_type, inputs, types, attributes, operator.node)
        self.block.add_op(operation)
        for value, result in zip(operator.outputs, operation.results, strict=True):
            if value is not None:
                self.define(value, result)


def _contracted(graph: Graph) -> set[Value]:
    """Values that a contraction reads: constants among them can be packed as weights."""
    return {
        value
        for operator in graph.operators
        if KINDS[operator.op_type] is Kind.CONTRACTION
        for value in operator.inputs
        if value is not None
    }


def emit(graph: Graph) -> tuple[ModuleOp, dict[str, np.ndarray]]:
    """A module with the graph as `dataflow.graph @main`, and its weights by key."""
    block = Block(arg_types=[tensor_type(v.dtype, v.shape) for v in graph.inputs])
    emitter = _Emitter(block, _contracted(graph))
    for value, argument in zip(graph.inputs, block.args, strict=True):
        emitter.define(value, argument)
    for operator in graph.operators:
        emitter.operator(operator)
    block.add_op(YieldOp(*(emitter.use(value) for _, value in graph.outputs)))
    names = [value.name for value in graph.inputs], [name for name, _ in graph.outputs]
    main = GraphOp("main", NORMALISED_OPSET, *names, Region(block))
    return ModuleOp([main]), emitter.weights
