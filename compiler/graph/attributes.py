"""Short ways to read operators' attributes and constant operands."""

from typing import Any

from numpy.typing import NDArray

from compiler.ir.dataflow import ConstantOp, OperatorOp
from compiler.ir.values import attribute_to_array


def constant_operand(op: OperatorOp, operand: int) -> NDArray[Any] | None:
    """The value of an operand that is a constant; None for any other and for one left out."""
    owner = op.inputs[operand].owner if operand < len(op.inputs) else None
    return attribute_to_array(owner.value) if isinstance(owner, ConstantOp) else None
