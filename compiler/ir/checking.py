"""Verification of operators against the operator table."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, NoneType, TensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from compiler.ir.layouts import with_block
from compiler.ir.types import Element, dtype_of, shape_of, tensor_type
from compiler.ir.values import attribute_to_array, attribute_to_value
from compiler.net.operators import KnownTensor, Mismatch, infer
from compiler.net.operators.canonical import check_canonical
from compiler.tensors.exact import plain, plain_shape
from compiler.tensors.substitution import mapped_extents

Constant = DenseIntOrFPElementsAttr | None


def _operand(type: Attribute, value: Constant) -> KnownTensor | None:
    if isinstance(type, NoneType):
        return None
    array = None if value is None else attribute_to_array(value)
    return KnownTensor(dtype_of(type), plain_shape(shape_of(type)), array)


@lru_cache(1 << 14)
def _results(
    op_type: str,
    inputs: tuple[Attribute, ...],
    constants: tuple[Constant, ...],
    attributes: tuple[tuple[str, Attribute], ...],
    outputs: int,
) -> tuple[TensorType[Element], ...]:
    """The result types by the operator table; cached, as most operators of a graph repeat."""
    try:
        operands = [_operand(type, value) for type, value in zip(inputs, constants, strict=True)]
        values = {n: mapped_extents(attribute_to_value(value), plain) for n, value in attributes}
        check_canonical(op_type, values)
        results = infer(op_type, operands, values, outputs)
    except (Mismatch, TypeError) as error:
        types = ", ".join(map(str, inputs))
        raise VerifyException(f"{op_type} of ({types}): {error}") from error
    return tuple(tensor_type(tensor.dtype, tensor.shape) for tensor in results)


def verify_operator(
    op_type: str,
    inputs: Sequence[Attribute],
    constants: Sequence[Constant],
    attributes: Mapping[str, Attribute],
    outputs: Sequence[Attribute],
) -> None:
    """Raise VerifyException unless types and attributes agree with the operator table.

    `constants` are the values of inputs that are constants. Layouts are verified elsewhere.
    """
    key = tuple(inputs), tuple(constants), tuple(attributes.items())
    expected = _results(op_type, *key, len(outputs))
    for i, (output, type) in enumerate(zip(outputs, expected, strict=True)):
        if output is type or isinstance(output, NoneType):
            continue
        first = with_block(output, 0)
        shapes = plain_shape(first.get_shape()), plain_shape(type.get_shape())
        if not (first.element_type == type.element_type and shapes[0] == shapes[1]):
            raise VerifyException(f"{op_type} gives {type}, its result {i} is {output}")
