"""Operators of the dialect that move elements: their operands and maps."""

from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.ir.dataflow import ConstantOp, OperatorOp
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array, attributes_of
from compiler.net.maps import Maps
from compiler.net.operators import OPERATORS, KnownTensor
from compiler.net.operators.movement import maps_of


def moved_operands(op: OperatorOp) -> list[SSAValue]:
    """The operands whose elements an operator moves to its results; none if it computes."""
    spec = OPERATORS.get(op.type_name)
    moves = [] if spec is None else [spec.moves(i) for i in range(len(op.inputs))]
    return [value for value, is_moved in zip(op.inputs, moves, strict=False) if is_moved]


def operator_maps(op: OperatorOp) -> Maps:
    """The maps of each result; none of an operator that computes."""
    inputs = [_known(value) for value in op.inputs]
    shapes = [shape_of(value.type) for value in op.outputs]
    return maps_of(op.type_name, inputs, attributes_of(op), shapes)


def _known(value: SSAValue) -> KnownTensor | None:
    if isinstance(value.type, NoneType):
        return None
    owner = value.owner
    array = attribute_to_array(owner.value) if isinstance(owner, ConstantOp) else None
    return KnownTensor(dtype_of(value.type), shape_of(value.type), array)
