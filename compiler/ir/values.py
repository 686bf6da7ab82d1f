"""Conversion between IR attributes and Python or numpy values."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    NoneType,
    StringAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, Operation

from compiler.errors import ModelError
from compiler.ir.extents import ExtentAttr
from compiler.ir.kept import kept
from compiler.ir.types import dtype_of, int64, shape_of, tensor_type
from compiler.net.attributes import Shape
from compiler.net.operators import OPERATORS
from compiler.net.operators.canonical import complete_attributes
from compiler.tensors.dtypes import numpy_dtype
from compiler.tensors.exact import exactly
from compiler.tensors.extents import Expression

Array = NDArray[np.generic]
Value = int | float | str | Expression | Array | Sequence[int] | Sequence[float] | Sequence[str]


def stored_as(array: Array, type: Attribute, key: str) -> Array:
    """A weight's array converted to the element type in which it is used.

    Raises ModelError if finite numbers overflow the type.
    """
    if str(array.dtype) == dtype_of(type):
        return array
    with np.errstate(over="ignore"):
        result = array.astype(numpy_dtype(dtype_of(type)))
    if not np.isfinite(result).all() and np.isfinite(array).all():
        raise ModelError(
            f"the weight {key!r} has numbers beyond the range of {dtype_of(type)}:"
            " compile with the precision bf16, tf32 or fp32"
        )
    return result


def array_to_attribute(array: Array) -> DenseIntOrFPElementsAttr:
    """A dense attribute with the array's dtype, shape and values."""
    type: Any = tensor_type(str(array.dtype), array.shape)
    return DenseIntOrFPElementsAttr.from_list(type, array.ravel().tolist())


def attribute_to_array(attribute: DenseIntOrFPElementsAttr) -> Array:
    """The array of a dense attribute."""
    type = attribute.get_type()
    values = np.array(list(attribute.get_values()))
    # A splat has one value for all elements.
    if values.size == 1:
        values = np.broadcast_to(values.reshape(()), shape_of(type))
    return values.astype(numpy_dtype(dtype_of(type))).reshape(shape_of(type))


def value_to_attribute(value: Value) -> Attribute:
    """The IR form of an ONNX attribute's value."""
    if isinstance(value, np.ndarray):
        return array_to_attribute(value)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, int):
        return int64(int(value))
    if isinstance(value, float):
        return FloatAttr(value, f32)
    if isinstance(value, Expression):
        return ExtentAttr(Expression(value.terms))
    return ArrayAttr([value_to_attribute(item) for item in value])


def attribute_to_value(attribute: Attribute) -> Value:
    """The Python value of an operator's attribute; raises TypeError for any other attribute."""
    read = _READERS.get(type(attribute))
    if read is None:
        raise TypeError(f"{attribute} is not an ONNX attribute's IR form")
    return read(attribute)


_READERS: Mapping[type[Attribute], Callable[[Any], Any]] = {
    DenseIntOrFPElementsAttr: attribute_to_array,
    StringAttr: lambda attribute: attribute.data,
    IntegerAttr: lambda attribute: attribute.value.data,
    FloatAttr: lambda attribute: attribute.value.data,
    ExtentAttr: lambda attribute: exactly(attribute.data),
    ArrayAttr: lambda attribute: [attribute_to_value(item) for item in attribute.data],
}
"""The Python value of each kind of attribute; asked by type, as a match of classes is slow."""


@kept
def attribute_text(attribute: Attribute) -> str:
    """The text of an attribute, `str` of it; integers are printed much faster."""
    if isinstance(attribute, ArrayAttr):
        items: tuple[Attribute, ...] = attribute.data  # pyright: ignore
        return f"[{', '.join(map(attribute_text, items))}]"
    if isinstance(attribute, IntegerAttr):
        number: IntegerAttr[Any] = attribute  # pyright: ignore
        return f"{number.value.data} : i64" if number.type == i64 else str(number)
    return str(attribute)


_AS_BITS = re.compile(r"[<\[ ]-?0x")
"""A number that xDSL prints as its bits: an infinity, or a whole float of eight digits or more."""


def constant_text(value: DenseIntOrFPElementsAttr) -> str:
    """The text of a dense attribute; as bytes where xDSL would read bits of floats as integers."""
    text = str(value)
    if _AS_BITS.search(text) is None:
        return text
    return f'dense<"0x{value.data.data.hex().upper()}"> : {value.get_type()}'


def own_attributes(op: Operation) -> dict[str, Value]:
    """The attributes that an operator does not leave out, by name."""
    return {name: attribute_to_value(a) for name, a in op.attributes.items()}


def attributes_of(op: Operation) -> dict[str, Value]:
    """All attributes of an operator, by name, with the defaults of those that it leaves out."""
    op_type: Any = op.properties["op_type"]
    return complete_attributes(op_type.data, own_attributes(op), _operand_shapes(op))


def attribute_default(op: Operation, name: str) -> Any:
    """The value of an attribute that an operator leaves out; KeyError if it has no default."""
    op_type: Any = op.properties["op_type"]
    default = OPERATORS[op_type.data].attributes[name].default_for(_operand_shapes(op))
    if default is None:
        raise KeyError(name)
    return default


def _operand_shapes(op: Operation) -> list[Shape | None]:
    return [None if isinstance(v.type, NoneType) else shape_of(v.type) for v in op.operands]
