"""Operators of the dialect as nodes of an operator graph, which rules and facts take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, NoneType
from xdsl.ir import Block, SSAValue

from compiler.ir.dataflow import ConstantOp, GroupOp, NoneOp, OperatorOp
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


GROUP = GroupOp.name
"""The type of a node that is a group, such as an If or a Loop with all that its bodies capture."""


@dataclass(frozen=True)
class BlockNodes:
    """The operators and groups of a block as nodes on the numbers of its values.

    `values` are the block's arguments and all results in order, but for `dataflow.none`'s: it
    stands for an operand that is left out. `operations` has that of each node.
    """

    values: Sequence[SSAValue]
    numbers: Mapping[SSAValue, int]
    constants: Mapping[int, DenseIntOrFPElementsAttr]
    nodes: Sequence[Node[int]]
    operations: Sequence[OperatorOp | GroupOp]


def numbered_nodes(block: Block) -> BlockNodes:
    """The nodes of a graph's or a group's block."""
    numbers: dict[SSAValue, int] = {value: number for number, value in enumerate(block.args)}
    constants: dict[int, DenseIntOrFPElementsAttr] = {}
    operations: list[OperatorOp | GroupOp] = []
    for op in block.ops:
        if type(op) is NoneOp:
            continue
        if type(op) is ConstantOp:
            constants[len(numbers)] = op.value
        elif isinstance(op, OperatorOp | GroupOp):
            operations.append(op)
        for value in op.results:
            numbers[value] = len(numbers)
    nodes = [_numbered(op, numbers) for op in operations]
    return BlockNodes([*numbers], numbers, constants, nodes, operations)


def _numbered(op: OperatorOp | GroupOp, numbers: Mapping[SSAValue, int]) -> Node[int]:
    inputs = tuple([None if type(v.owner) is NoneOp else numbers[v] for v in op.inputs])
    outputs = tuple([numbers[v] for v in op.outputs])
    if isinstance(op, GroupOp):
        return Node(GROUP, {}, inputs, outputs)
    return Node(op.type_name, attributes_of(op), inputs, outputs, op.node_name)
