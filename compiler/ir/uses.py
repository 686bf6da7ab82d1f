"""Operators of the dialect as uses of their entries in the operator table."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.ir.dataflow import ConstantOp, OperatorOp
from compiler.ir.types import dtype_of, example_shape, shape_of
from compiler.ir.values import attribute_to_array, attributes_of
from compiler.net.operators import OPERATORS
from compiler.net.spec import Shape, Use
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


def operator_use(op: OperatorOp) -> Use:
    """An operator as a use of its entry, which the entry's rules and facts take."""
    entry = OPERATORS[op.type_name]
    return Use(op.type_name, entry, used_values(op), attributes_of(op), len(op.outputs))


def example_use(op: OperatorOp) -> Use:
    """An operator as a use of its entry for the example sizes of symbols, as costs are counted."""
    use = operator_use(op)
    inputs = [value and UsedExample(value.value) for value in used_values(op)]
    attributes = {name: mapped_extents(value, at_hints) for name, value in use.attributes.items()}
    return Use(op.type_name, OPERATORS[op.type_name], inputs, attributes, use.outputs)
