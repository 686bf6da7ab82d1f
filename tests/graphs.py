"""A short way to write `dataflow` modules in tests."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from compiler.ir.dataflow import ConstantOp, GraphOp, NoneOp, OperatorOp, WeightOp, YieldOp
from compiler.ir.nodes import UsedValue
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import Value, array_to_attribute, value_to_attribute
from compiler.net.operators import OPERATORS
from compiler.net.operators.canonical import canonical_node

Array = NDArray[np.generic]
OPSET = 21


class GraphBuilder:
    """Collects operators in order; `finish` makes the module and `weights` fills as it goes."""

    def __init__(self) -> None:
        self.weights: dict[str, Array] = {}
        self._types: list[tuple[str, Attribute]] = []
        self._block = Block()

    def _add(self, op: Operation) -> list[SSAValue]:
        self._block.add_op(op)
        return list(op.results)

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> SSAValue:
        """A new input of the graph."""
        type = tensor_type(dtype, tuple(shape))
        self._types.append((name, type))
        return self._block.insert_arg(type, len(self._block.args))

    def weight(self, array: Array) -> SSAValue:
        """A new weight, keyed `w<number>`."""
        key = f"w{len(self.weights)}"
        self.weights[key] = array
        return self._add(WeightOp(key, tensor_type(str(array.dtype), array.shape)))[0]

    def constant(self, value: object, dtype: str = "float32") -> SSAValue:
        """A `dataflow.constant` of this value."""
        array = np.asarray(value, dtype=dtype)
        return self._add(ConstantOp(array_to_attribute(array)))[0]

    def none(self) -> SSAValue:
        """An operand that is left out."""
        return self._add(NoneOp())[0]

    def split(
        self,
        op_type: str,
        inputs: Sequence[SSAValue],
        shapes: Sequence[Sequence[int]],
        dtype: str | None = None,
        **attributes: Value,
    ) -> list[SSAValue]:
        """An operator with several results of these shapes."""
        dtype = dtype or dtype_of(inputs[0].type)
        node = f"{op_type}_{len(self._block.ops)}"
        types = [tensor_type(dtype, tuple(shape)) for shape in shapes]
        operands = [None if isinstance(v.type, NoneType) else UsedValue(v) for v in inputs]
        use = canonical_node(op_type, operands, attributes, len(types))
        written = {name: value_to_attribute(value) for name, value in use.attributes.items()}
        values = [self.none() if v is None else v.value for v in use.inputs]
        return self._add(OperatorOp(op_type, values, types, written, node))

    def op(
        self,
        op_type: str,
        *inputs: SSAValue,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        **attributes: Value,
    ) -> SSAValue:
        """An operator with one result, by default with its inputs' broadcast shape.

        A Reshape and an Expand of no operand with a shape have that of the result.
        """
        if shape is None:
            shape = np.broadcast_shapes(*(shape_of(value.type) for value in inputs))
        if len(inputs) == 1 and OPERATORS[op_type].decided == frozenset({"shape"}):
            attributes = {"shape": list(shape)}
        return self.split(op_type, inputs, [shape], dtype, **attributes)[0]

    def finish(self, *outputs: SSAValue) -> ModuleOp:
        """The module of everything added so far, with outputs named `y0`, `y1` and so on."""
        self._block.add_op(YieldOp(*outputs))
        names = [name for name, _ in self._types]
        results = [f"y{i}" for i in range(len(outputs))]
        return ModuleOp([GraphOp("main", OPSET, names, results, Region(self._block))])
