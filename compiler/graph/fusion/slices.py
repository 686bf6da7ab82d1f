"""Slices of computed indices, moved before the operators that compute them.

Exporters compute tuples of indices in one tensor and take each of their parts from it. A part is
computed where it is read, and no tuple is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.ir.dataflow import OperatorOp
from compiler.ir.edit import insert_before
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import value_to_attribute
from compiler.net.operators import KINDS, Kind, broadcasts
from compiler.net.operators.injective import TakenIndices, slice_of
from compiler.tensors.dtypes import INDICES


@dataclass(frozen=True, slots=True)
class Sliced:
    """A Slice becomes an operator on these parts of its operands; those of None are whole."""

    source: OperatorOp
    parts: Sequence[dict[str, list[int]] | None]


def before_slice(op: OperatorOp) -> Sliced | None:
    """An elementwise operator on slices instead of a Slice of its result, or None.

    It computes integers of which only slices are read, no element of them twice.
    """
    source = op.inputs[0].owner if _is_slice(op) else None
    if not isinstance(source, OperatorOp) or KINDS[source.type_name] is not Kind.ELEMENTWISE:
        return None
    if broadcasts(source.type_name):
        return None  # an Expand says the shape of its result in an attribute
    result = source.outputs[0]
    readers = [use.operation for use in result.uses]
    if dtype_of(result.type) not in INDICES or not all(map(_is_slice, readers)):
        return None
    read = sum(prod(shape_of(reader.results[0].type)) for reader in readers)
    if read > prod(shape_of(result.type)) or any(
        isinstance(v.type, NoneType) for v in source.inputs
    ):
        return None
    return Sliced(source, [_part(value, op) for value in source.inputs])


def _is_slice(reader: object) -> bool:
    return isinstance(reader, OperatorOp) and reader.type_name == "Slice"


def _part(value: SSAValue, op: OperatorOp) -> dict[str, list[int]] | None:
    """The part of an operand for a Slice of the result; None where it is broadcast."""
    own, whole = shape_of(value.type), shape_of(op.inputs[0].type)
    taken = [TakenIndices(*part) for part in zip(op["start"], op["step"], op["size"], strict=True)]
    taken = taken[len(whole) - len(own) :]
    parts = [TakenIndices(0, 1, 1) if n == 1 else part for n, part in zip(own, taken, strict=True)]
    return None if parts == [TakenIndices(0, 1, n) for n in own] else slice_of(parts)


def part_before(op: OperatorOp, value: SSAValue, part: Mapping[str, Sequence[int]]) -> SSAValue:
    """A part of a value, by the attributes of its Slice, which is inserted before an operator."""
    type = tensor_type(dtype_of(value.type), tuple(part["size"]))
    attributes = {name: value_to_attribute(numbers) for name, numbers in part.items()}
    inner = OperatorOp("Slice", [value], [type], attributes, op.node_name)
    insert_before(op, inner)
    return inner.outputs[0]
