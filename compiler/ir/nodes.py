"""Operators of the dialect as nodes of an operator graph, which rules and facts take."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.ir.dataflow import ConstantOp, OperatorOp
from compiler.ir.types import dtype_of, example_shape, shape_of
from compiler.ir.values import attribute_to_array, attributes_of
from compiler.net.attributes import Shape
from compiler.net.node import Node
from compiler.tensors.extents import at_hints
from compiler.tensors.substitution import mapped_extents


@dataclass(frozen=True, slots=True)
class UsedValue:
    """An operand as the operator table reads it; a constant is decoded when it is asked for."""

    value: SSAValue

    @property
    def dtype(self) -> str:
        """The dtype name."""
        return dtype_of(self.value.type)

    @property
    def shape(self) -> Shape:
        """The shape, whose extents may depend on symbols."""
        return shape_of(self.value.type)

    @property
    def array(self) -> NDArray[Any] | None:
        """The value of a constant, None of any other operand."""
        owner = self.value.owner
        return attribute_to_array(owner.value) if isinstance(owner, ConstantOp) else None


@dataclass(frozen=True, slots=True)
class UsedExample(UsedValue):
    """An operand for the example sizes of symbols."""

    @property
    def shape(self) -> Shape:
        """The shape, in numbers."""
        return example_shape(self.value.type)


def used_values(op: OperatorOp) -> list[UsedValue | None]:
    """The operands of an operator, None for one that is left out."""
    return [None if isinstance(v.type, NoneType) else UsedValue(v) for v in op.inputs]


def node_of(op: OperatorOp) -> Node[UsedValue]:
    """An operator as a node."""
    outputs = [*map(UsedValue, op.outputs)]
    return Node(op.type_name, attributes_of(op), used_values(op), outputs, op.node_name)


def example_node(op: OperatorOp) -> Node[UsedExample]:
    """An operator as a node for the example sizes of symbols, as costs are counted."""
    node = node_of(op)
    inputs = [value and UsedExample(value.value) for value in node.inputs]
    attributes = {name: mapped_extents(value, at_hints) for name, value in node.attributes.items()}
    outputs = [UsedExample(value.value) for value in node.outputs]
    return Node(node.type, attributes, inputs, outputs, node.node)
