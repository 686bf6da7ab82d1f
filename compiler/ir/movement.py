"""Operators of the dialect that move elements: their operands and maps."""

from xdsl.ir import SSAValue

from compiler.ir.dataflow import OperatorOp
from compiler.ir.nodes import node_of
from compiler.ir.types import shape_of
from compiler.net.maps import Maps
from compiler.net.operators import OPERATORS
from compiler.net.operators.movement import maps_of


def moved_operands(op: OperatorOp) -> list[SSAValue]:
    """The operands whose elements an operator moves to its results; none if it computes."""
    spec = OPERATORS.get(op.type_name)
    moves = [] if spec is None else [spec.moves(i) for i in range(len(op.inputs))]
    return [value for value, is_moved in zip(op.inputs, moves, strict=False) if is_moved]


def operator_maps(op: OperatorOp) -> Maps:
    """The maps of each result; none of an operator that computes."""
    shapes = [shape_of(value.type) for value in op.outputs]
    return maps_of(node_of(op), shapes)
