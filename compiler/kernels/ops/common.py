"""Functions that lowerings of several kinds share: casts, scalar functions, indices."""

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.lowering import Context
from compiler.kernels.ops.mathematics import dtype_of
from compiler.kernels.sizes import extent_constant
from compiler.tensors.dtypes import ELEMENT_BYTES, NARROW_FLOATS

Scalar = Any
"""A scalar expression of TVM."""

Function = (
    Callable[[Scalar], Scalar]
    | Callable[[Scalar, Scalar], Scalar]
    | Callable[[Scalar, Scalar, Scalar], Scalar]
)
"""A function of as many scalars as an operator has inputs."""


def is_float(dtype: str) -> bool:
    """Whether a dtype name is one of the floats."""
    return "float" in dtype


def cast(x: Scalar, dtype: str) -> Scalar:
    """Convert a scalar as `converted_array` does: to bool by comparison, integers by wrapping."""
    source = dtype_of(x)
    if source == dtype:
        return x
    if dtype == "bool":
        other = tirx.NE(x, tirx.const(0, source))  # LLVM's comparison is false of NaN
        return tirx.any(other, is_nan(cast(x, wide(source)))) if is_float(source) else other
    if is_float(source) and not is_float(dtype):
        return _truncated(x.astype(wide(source)), dtype)
    if source in NARROW_FLOATS or (dtype in NARROW_FLOATS and source != "float32"):
        return x.astype("float32").astype(dtype)
    return wrapping.convert(x, dtype)


def _truncated(x: Scalar, dtype: str) -> Scalar:
    """A float as an integer; one out of range wraps around or becomes the least, as NaN does.

    The range is tested: LLVM and C++ leave the conversion of other numbers undefined, and scalar
    and vector instructions differ.
    """
    via = "int32" if dtype in ("int8", "uint8", "int16", "uint16", "int32") else "int64"
    limit = 2.0 ** (31 if via == "int32" else 63)
    kind = dtype_of(x)
    fraction = kind == "float64" and via == "int32"  # there are numbers just above -limit - 1
    least = x > tirx.const(-limit - 1, kind) if fraction else x >= tirx.const(-limit, kind)
    inside = tirx.all(least, x < tirx.const(limit, kind))
    whole = tirx.Select(inside, x.astype(via), tirx.min_value(via))
    if dtype != "uint64":
        return wrapping.convert(whole, dtype)
    large = tirx.all(x >= tirx.const(limit, kind), x < tirx.const(2 * limit, kind))
    upper = wrapping.convert((x - tirx.const(limit, kind)).astype(via), dtype)
    top = tirx.const(1 << 63, dtype)
    return tirx.Select(large, wrapping.add(upper, top), wrapping.convert(whole, dtype))


NEAREST = 1.5 * 2**23
"""A number whose sum with a smaller one is rounded to a whole number."""


def nearest(x: Scalar) -> Scalar:
    """A float32 of at most 22 bits as the nearest int32, the even one of two.

    The low bits of its sum with `NEAREST` are that.
    """
    sum = x + tirx.const(NEAREST, "float32")
    return tirx.reinterpret("int32", sum) - tirx.const(0x4B400000, "int32")


def wide(dtype: str) -> str:
    """The dtype in which values of a dtype are computed."""
    return "float32" if dtype in NARROW_FLOATS else dtype


def elementwise(context: Context, function: Function) -> te.Tensor:
    """Apply a function of scalars to all inputs, broadcast; 16-bit floats are computed in 32."""
    positions = [i for i in range(len(context.inputs)) if context.has(i)]
    dtype = context.output.dtype

    def body(*indices: Any) -> Scalar:
        scalars = [context.element(i, indices) for i in positions]
        return cast(function(*[cast(s, wide(dtype_of(s))) for s in scalars]), dtype)

    return te.compute(context.output.shape, body, name=context.type)


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger of two scalars; NaN when one is NaN."""
    return _extreme("llvm.maximum", a, b) if is_float(dtype_of(a)) else tirx.max(a, b)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """The smaller of two scalars; NaN when one is NaN."""
    return _extreme("llvm.minimum", a, b) if is_float(dtype_of(a)) else tirx.min(a, b)


def _extreme(name: str, a: Scalar, b: Scalar) -> Scalar:
    """One of two floats; bfloat16, whose calls TVM leaves as they are, by way of float32."""
    dtype = dtype_of(a)
    if dtype != "bfloat16":
        return tirx.call_llvm_pure_intrin(dtype, name, a, b)
    wide = [x.astype("float32") for x in (a, b)]
    return tirx.call_llvm_pure_intrin("float32", name, *wide).astype(dtype)


def multiply(a: Scalar, b: Scalar) -> Scalar:
    """A multiplication, also by a constant 0."""
    return wrapping.multiply(kept_zero(a), kept_zero(b))


def kept_zero(x: Scalar) -> Scalar:
    """A float that TVM does not know to be zero."""
    return maximum(x, x) if isinstance(x, tirx.FloatImm) and x.value == 0 else x


def is_nan(x: Scalar) -> Scalar:
    """Whether a float is NaN."""
    return tirx.isnan(x)


def absolute(x: Scalar) -> Scalar:
    """The absolute value, -0.0 included."""
    dtype = dtype_of(x)
    if dtype.startswith("u") or dtype == "bool":
        return x
    if is_float(dtype):
        return tirx.abs(x)
    zero = tirx.const(0, dtype)
    return tirx.Select(x < zero, wrapping.subtract(zero, x), x)


def clamped(value: Any, most: int) -> Any:
    """An integer from data as an int32 from 0 to `most`.

    Data must not lead a kernel outside its tensors, so every place that data decide goes through
    here: the indices of Gather, GatherElements, GatherND, ScatterElements and ScatterND (by
    `safe_index`: negative ones count from the end first) and the lengths of ReverseSequence. They
    are clamped in their own type, which int64 beyond int32 survive. Gathering from no elements
    gives zeros. All other data are only compared with positions: indices of OneHot that name no
    place set none, and recurrent layers take lengths beyond the sequence as all of it. Axes,
    sizes, scales and the k of TopK are constants, which import checks.
    """
    value = value if dtype_of(value) in ("int32", "int64") else value.astype("int64")
    kind = dtype_of(value)
    inside = tirx.max(tirx.min(value, extent_constant(most, kind)), tirx.const(0, kind))
    return inside.astype("int32")


def safe_index(index: Any, extent: int) -> Any:
    """An index from data: negative ones count from the end, others are kept inside."""
    index = index if dtype_of(index) in ("int32", "int64") else index.astype("int64")
    kind = dtype_of(index)
    wrapped = tirx.Select(index < tirx.const(0, kind), index + extent_constant(extent, kind), index)
    return clamped(wrapped, extent - 1)


def zeros(context: Context) -> te.Tensor:
    """The result of an operator that reads from a tensor without elements."""
    dtype = context.output.dtype
    return te.compute(context.output.shape, lambda *_: tirx.const(0, dtype), name="zeros")


def converted(tensor: te.Tensor, dtype: str) -> te.Tensor:
    """A tensor's elements in another dtype; the tensor itself when it has it."""
    if str(tensor.dtype) == dtype:
        return tensor
    return te.compute(tensor.shape, lambda *i: cast(tensor(*i), dtype), name="converted")


def sort_key(x: Any, kind: str, largest: bool) -> Any:
    """The key of an element: NaN is above all numbers, and zeros are equal whatever their signs.

    The bits of a float without its sign grow with its size. Half of its range is taken from an
    unsigned integer. Masks of all bits or none stand for conditions, so that LLVM vectorises loops.
    """
    dtype = dtype_of(x)
    if is_float(dtype):
        bits = tirx.reinterpret(kind, cast(x, wide(dtype)))
        most = tirx.max_value(kind)
        last = tirx.const(ELEMENT_BYTES[kind] * 8 - 1, kind)
        infinite = tirx.const(0x7F800000 if kind == "int32" else 0x7FF0000000000000, kind)
        negative = bits >> last
        # not `bits & most`: `guard_loops` would take it for a remainder, and LLVM leave the loop
        size = bits ^ (negative & tirx.min_value(kind))
        no_number = (infinite - size) >> last
        key = (((size ^ negative) - negative) & ~no_number) | (most & no_number)
    elif dtype in ("uint32", "uint64"):
        key = tirx.reinterpret(kind, x) ^ tirx.min_value(kind)
    elif dtype.startswith("uint"):
        key = x.astype(kind) - tirx.const(1 << (8 * ELEMENT_BYTES[dtype] - 1), kind)
    else:
        key = x.astype(kind)
    return ~key if largest else key
