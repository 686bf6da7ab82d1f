"""Short ways to read operators' attributes and constant operands."""

from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr

from compiler.ir.dataflow import ConstantOp, OperatorOp
from compiler.ir.values import attribute_to_array, attribute_to_value


def integer(op: OperatorOp, name: str, default: int) -> int:
    """An integer attribute, or its default where it was left out."""
    value = op.attributes.get(name)
    return value.value.data if isinstance(value, IntegerAttr) else default


def integers(op: OperatorOp, name: str) -> list[int] | None:
    """An attribute that is a list of integers, or None where it was left out."""
    value = attribute_to_value(op.attributes[name]) if name in op.attributes else None
    return [int(item) for item in value] if isinstance(value, list) else None


def constant_operand(op: OperatorOp, operand: int) -> NDArray[Any] | None:
    """The value of an operand that is a constant; None for any other and for one left out."""
    owner = op.inputs[operand].owner if operand < len(op.inputs) else None
    return attribute_to_array(owner.value) if isinstance(owner, ConstantOp) else None
