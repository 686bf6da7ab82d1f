"""Conversion between dtype names and IR element types, and sizes of IR tensor types."""

from functools import cache, lru_cache
from math import prod

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute

from compiler.ir.extents import dimensions, integer_attribute
from compiler.ir.kept import kept
from compiler.net.spec import KnownTensor
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.extents import at_hints
from compiler.tensors.substitution import shape_at_hints

Element = AnyFloat | IntegerType

ELEMENT_TYPES: dict[str, Element] = {
    "bool": IntegerType(1),
    "int4": IntegerType(4),
    "uint4": IntegerType(4, Signedness.UNSIGNED),
    "int8": IntegerType(8),
    "int16": IntegerType(16),
    "int32": IntegerType(32),
    "int64": IntegerType(64),
    "uint8": IntegerType(8, Signedness.UNSIGNED),
    "uint16": IntegerType(16, Signedness.UNSIGNED),
    "uint32": IntegerType(32, Signedness.UNSIGNED),
    "uint64": IntegerType(64, Signedness.UNSIGNED),
    "float8_e4m3fn": Float8E4M3FNType(),
    "float8_e5m2": Float8E5M2Type(),
    "float16": Float16Type(),
    "bfloat16": BFloat16Type(),
    "float32": Float32Type(),
    "float64": Float64Type(),
}
"""IR element type of each dtype name; signed integers are MLIR's signless ones."""

_DTYPES: dict[Attribute, str] = {element: dtype for dtype, element in ELEMENT_TYPES.items()}


@cache
def tensor_type(dtype: str, shape: tuple[int, ...]) -> TensorType[Element]:
    """The IR tensor type of a dtype name and a shape, of which extents may depend on symbols."""
    return TensorType(ELEMENT_TYPES[dtype], dimensions(shape))


@cache
def memref_type(dtype: str, shape: tuple[int, ...]) -> MemRefType[Element]:
    """The IR buffer type of a dtype name and a shape, of which extents may depend on symbols."""
    return MemRefType(ELEMENT_TYPES[dtype], dimensions(shape))


@lru_cache(1 << 16)
def int64(value: int) -> IntegerAttr[I64]:
    """The integer attribute of a number, or of an extent; cached, as constructing one is slow."""
    return integer_attribute(value)


@kept
def dtype_of(type: Attribute) -> str:
    """The dtype name of a tensor or buffer type's elements."""
    assert isinstance(type, TensorType | MemRefType)
    return _DTYPES[type.get_element_type()]


@kept
def shape_of(type: Attribute) -> tuple[int, ...]:
    """The shape of a tensor or buffer type.

    Extents may depend on symbols; passes, for which this is, compare them exactly.
    """
    assert isinstance(type, TensorType | MemRefType)
    return type.get_shape()


@kept
def example_shape(type: Attribute) -> tuple[int, ...]:
    """The shape of a tensor or buffer type, for the example sizes of symbols."""
    return shape_at_hints(shape_of(type))


@kept
def example_bytes(type: Attribute) -> int:
    """The size in bytes of a tensor or buffer of this type, for the example sizes of symbols."""
    return at_hints(nbytes_of(type))


@kept
def known_type(type: Attribute) -> KnownTensor:
    """A tensor's type as the operator table reads it; without a dtype if it is left out."""
    if isinstance(type, NoneType):
        return KnownTensor("", ())
    return KnownTensor(dtype_of(type), shape_of(type))


@kept
def nbytes_of(type: Attribute) -> int:
    """The size in bytes of a tensor or buffer of this type."""
    return prod(shape_of(type)) * ELEMENT_BYTES[dtype_of(type)]
